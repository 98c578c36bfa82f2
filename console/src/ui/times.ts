// Times as people read them: in UTC, wherever they are.

/** `2026-01-01T00:00:00Z`; a text that is no time stays as it is. */
export function utc(at: number | string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : `${date.toISOString().slice(0, 19)}Z`;
}
