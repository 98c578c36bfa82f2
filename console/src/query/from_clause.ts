// The measurement that a statement names.

const PART = String.raw`(?:"(?:[^"\\]|\\.)+"|[A-Za-z_]\w*)`;
const FROM = new RegExp(String.raw`\b(?:FROM|UPDATE)\s+((?:(?:${PART})?\.(?:${PART})?\.|${PART}\.)?(${PART}))`, "i");

/** The measurement that a statement reads, if it names one. */
export function measurementOf(statement: string): string | null {
  const match = FROM.exec(statement);
  return match === null ? null : unquoted(match[2]);
}

/** The same as the statement writes it, with its database and policy. */
export const sourceOf = (statement: string): string | null => FROM.exec(statement)?.[1] ?? null;

/** A name without its quotes. */
export const unquoted = (name: string) => (name.startsWith('"') ? name.slice(1, -1).replace(/\\(.)/g, "$1").replace(/""/g, '"') : name);
