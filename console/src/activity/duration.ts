// Durations as the server prints them.

/** Milliseconds of a duration such as `1m3s` or `76µs`. */
export function durationMs(text: string): number {
  const units: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, u: 1e-3, us: 1e-3, µs: 1e-3, μs: 1e-3, ns: 1e-6 };
  let sum = 0;
  for (const [, count, unit] of text.matchAll(/([\d.]+)(h|ms|m|s|[uµμ]s?|ns)/g)) sum += Number(count) * units[unit];
  return sum;
}
