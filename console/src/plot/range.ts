// Ranges of time, and how they are moved.

export interface Range {
  from: number;
  to: number;
}

/** The first and the last millisecond that the server has a time for: nanoseconds in 64 bits. */
const FIRST = -9_223_372_036_854;
const LAST = 9_223_372_036_854;
const LENGTH_MIN_MS = 1;

/** The range within the times that there are, and not shorter than can be seen. */
export function bounded({ from, to }: Range): Range {
  const begin = Math.min(Math.max(from, FIRST), LAST - LENGTH_MIN_MS);
  return { from: begin, to: Math.max(Math.min(to, LAST), begin + LENGTH_MIN_MS) };
}

/** So many times as long; what is at a share of it stays there. */
export function zoomed({ from, to }: Range, factor: number, share = 0.5): Range {
  const center = from + (to - from) * share;
  return bounded({ from: center - (center - from) * factor, to: center + (to - center) * factor });
}

/** Later by a share of its length. */
export function panned({ from, to }: Range, share: number): Range {
  const by = Math.min(Math.max((to - from) * share, FIRST - from), LAST - to);
  return { from: from + by, to: to + by };
}

/**
 * The range after fingers have moved: what was under each stays under it. Places are shares of the width. Of more than two
 * fingers the first two count.
 */
export function followed(range: Range, begun: number[], now: number[]): Range {
  const length = range.to - range.from;
  if (begun.length < 2) return panned(range, begun[0] - now[0]);
  const apart = now[1] - now[0];
  // Fingers that meet, or cross, would turn time around.
  if (Math.abs(apart) < 0.02 || apart * (begun[1] - begun[0]) <= 0) return range;
  const scaled = (length * (begun[1] - begun[0])) / apart;
  const from = range.from + begun[0] * length - now[0] * scaled;
  return bounded({ from, to: from + scaled });
}
