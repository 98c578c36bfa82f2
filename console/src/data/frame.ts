// Rows of an answer, by column: numbers and times in typed arrays, so that a million of them are cheap to hold, to hand from
// the worker to the page, and to draw.

/** A column. In a column of numbers, NaN is NULL; of many texts that repeat, each row has the number of its text. */
export type Column =
  | { name: string; kind: "time"; ns: BigInt64Array; ms: Float64Array }
  | { name: string; kind: "number"; values: Float64Array }
  | { name: string; kind: "text"; codes: Uint32Array; texts: (string | null)[] }
  | { name: string; kind: "other"; values: unknown[] };

/** Rows with the same name and tags. */
export interface Frame {
  statement: number;
  name: string;
  tags: Record<string, string>;
  columns: Column[];
  rows: number;
}

/** The answer to a query. */
export interface Answer {
  frames: Frame[];
  /** Problems of single statements, and notes of the server. */
  errors: string[];
  notes: string[];
  rows: number;
  bytes: number;
  elapsedMs: number;
  /** Rows were left out, because the page would hold too many. */
  cut: boolean;
}

/** Collects the values of a column while they come. */
export class ColumnBuilder {
  private numbers: Float64Array | null = new Float64Array(64);
  private others: unknown[] = [];
  private length = 0;

  constructor(
    private readonly name: string,
    private readonly isTime: boolean,
  ) {
    if (isTime) this.numbers = null;
  }

  push(value: unknown): void {
    if (this.numbers !== null) {
      if (typeof value === "number" || value === null || value === undefined) {
        if (this.length === this.numbers.length) {
          const larger = new Float64Array(this.length * 2);
          larger.set(this.numbers);
          this.numbers = larger;
        }
        this.numbers[this.length++] = value ?? NaN;
        return;
      }
      this.leaveNumbers();
    }
    this.others.push(value ?? null);
    this.length++;
  }

  finish(): Column {
    const { name } = this;
    if (this.isTime) {
      const ns = times(this.others);
      if (ns !== null) return { name, kind: "time", ns, ms: Float64Array.from(ns, (at) => Number(at) / 1e6) };
    }
    if (this.numbers !== null && this.length > 0) {
      const values = this.numbers.slice(0, this.length);
      if (!values.every(Number.isNaN)) return { name, kind: "number", values };
    }
    this.leaveNumbers();
    const repeated = this.length < REPEATED_MIN ? null : repeatedTexts(this.others);
    return repeated === null ? { name, kind: "other", values: this.others } : { name, kind: "text", ...repeated };
  }

  private leaveNumbers(): void {
    if (this.numbers === null) return;
    this.others = Array.from(this.numbers.subarray(0, this.length), (n) => (Number.isNaN(n) ? null : n));
    this.numbers = null;
  }
}

/** Fewer texts are handed to the page, and looked at, as they are. */
const REPEATED_MIN = 1000;
/** A text stands in so many rows on average, or each row has its own. */
const REPEATED_TIMES_MIN = 4;

/** The texts once each; null if something else is among them, or they hardly repeat. */
function repeatedTexts(values: unknown[]): { codes: Uint32Array; texts: (string | null)[] } | null {
  const codes = new Uint32Array(values.length);
  const known = new Map<string | null, number>();
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (value !== null && typeof value !== "string") return null;
    let code = known.get(value);
    if (code === undefined) {
      if (known.size * REPEATED_TIMES_MIN >= values.length) return null;
      known.set(value, (code = known.size));
    }
    codes[i] = code;
  }
  return { codes, texts: [...known.keys()] };
}

/** Times in nanoseconds; null if one is missing or is no time. */
function times(values: unknown[]): BigInt64Array | null {
  const ns = new BigInt64Array(values.length);
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value === "bigint") ns[i] = value;
    else if (typeof value === "number") ns[i] = BigInt(value);
    else if (typeof value === "string") {
      const parsed = parseTime(value);
      if (parsed === null) return null;
      ns[i] = parsed;
    } else return null;
  }
  return ns;
}

/** Nanoseconds since 1970 of a time such as `2026-01-01T00:00:00.123456789Z`. */
export function parseTime(text: string): bigint | null {
  const match = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d(?::?\d\d)?)?$/.exec(text);
  if (match === null) return null;
  const [, day, time, fraction, zone] = match;
  const ms = Date.parse(`${day}T${time}${zone === undefined ? "Z" : zone.length === 3 ? `${zone}:00` : zone}`);
  if (Number.isNaN(ms)) return null;
  return BigInt(ms) * 1_000_000n + BigInt((fraction ?? "").padEnd(9, "0"));
}

/** The time as RFC 3339, with as many decimals as it needs. */
export function formatTime(ns: bigint): string {
  let seconds = ns / 1_000_000_000n;
  let rest = ns % 1_000_000_000n;
  if (rest < 0n) {
    rest += 1_000_000_000n;
    seconds -= 1n;
  }
  const date = new Date(Number(seconds) * 1000);
  if (Number.isNaN(date.getTime())) return String(ns);
  const fraction = rest === 0n ? "" : `.${String(rest).padStart(9, "0").replace(/0+$/, "")}`;
  return `${date.toISOString().slice(0, 19)}${fraction}Z`;
}

/** Whether a cell is NULL. */
export function isNull(column: Column, row: number): boolean {
  if (column.kind === "time") return false;
  if (column.kind === "number") return Number.isNaN(column.values[row]);
  return (column.kind === "text" ? column.texts[column.codes[row]] : (column.values[row] ?? null)) === null;
}

/** What a cell shows. */
export function cell(column: Column, row: number): string {
  if (column.kind === "time") return formatTime(column.ns[row]);
  if (column.kind === "number") {
    const value = column.values[row];
    return Number.isNaN(value) ? "" : String(value);
  }
  if (column.kind === "text") return column.texts[column.codes[row]] ?? "";
  const value = column.values[row];
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
