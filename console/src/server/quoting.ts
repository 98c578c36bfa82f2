// Names and texts as the languages write them. Every name that is put into a statement goes through here.

/** A name in InfluxQL. */
export const name = (text: string) => `"${text.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n")}"`;

/** A text in InfluxQL. */
export const text = (value: string) => `'${value.replace(/\\/g, "\\\\").replace(/'/g, "\\'").replace(/\n/g, "\\n")}'`;

/** A name in InfluxQL, in quotes only where it needs them. */
export const shortName = (value: string, keywords: ReadonlySet<string>) =>
  /^[A-Za-z_][A-Za-z0-9_]*$/.test(value) && !keywords.has(value.toUpperCase()) ? value : name(value);

/** A name in SQL. */
export const sqlName = (value: string) => `"${value.replace(/"/g, '""')}"`;

/** A text in SQL. */
export const sqlText = (value: string) => `'${value.replace(/'/g, "''")}'`;
