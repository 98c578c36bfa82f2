// The measurement that a statement names.

/** The measurement that a statement reads, if it names one. */
export function measurementOf(statement: string): string | null {
  const part = String.raw`(?:"(?:[^"\\]|\\.)+"|[A-Za-z_]\w*)`;
  const match = new RegExp(String.raw`\b(?:FROM|UPDATE)\s+(?:(?:${part})?\.(?:${part})?\.|${part}\.)?(${part})`, "i").exec(statement);
  return match === null ? null : unquoted(match[1]);
}

/** A name without its quotes. */
export const unquoted = (name: string) => (name.startsWith('"') ? name.slice(1, -1).replace(/\\(.)/g, "$1").replace(/""/g, '"') : name);
