// What is plotted: series of numbers over time, made of the frames of an answer.

import { cell, type Column, type Frame } from "../data/frame";

/** More series are not shown, neither as lines nor as single values: nobody could tell them apart. */
export const SERIES_MAX = 60;

/** SQL has the time of a point twice: this is the same in nanoseconds, which no axis has room for beside values. */
const TIME_AGAIN = "time_ns";

/** Times ascend. A NaN is a gap. */
export interface Series {
  label: string;
  ms: Float64Array;
  values: Float64Array;
}

/** What can be drawn of an answer. */
export interface Drawing {
  series: Series[];
  /** Series that are left out. */
  left: number;
  from: number;
  to: number;
  points: number;
}

/** The series of some frames, up to a number; frames without a time or a number have none. */
export function drawing(frames: Frame[], seriesMax: number): Drawing {
  const series: Series[] = [];
  let left = 0;
  for (const frame of frames) {
    const time = frame.columns.find((column) => column.kind === "time");
    if (time?.kind !== "time") continue;
    const numbers = frame.columns.flatMap((column) => {
      const values = column.name === TIME_AGAIN ? null : numeric(column);
      return values === null ? [] : [{ name: column.name, values }];
    });
    const labels = frame.columns.filter((column) => (column.kind === "other" || column.kind === "text") && column.name !== TIME_AGAIN && numeric(column) === null);
    for (const [group, rows] of groups(frame, labels)) {
      for (const { name, values } of numbers) {
        if (series.length >= seriesMax) {
          left++;
          continue;
        }
        series.push(ascending(label(frame, name, group, numbers.length), pick(time.ms, rows), pick(values, rows)));
      }
    }
  }
  let from = Infinity;
  let to = -Infinity;
  let points = 0;
  for (const { ms } of series) {
    if (ms.length === 0) continue;
    from = Math.min(from, ms[0]);
    to = Math.max(to, ms[ms.length - 1]);
    points += ms.length;
  }
  return { series, left, from, to, points };
}

function label(frame: Frame, field: string, group: string, fields: number): string {
  const tags = Object.entries(frame.tags).map(([key, value]) => (value === "" ? `no ${key}` : value));
  const parts = [...tags, ...(group === "" ? [] : [group])];
  if (fields > 1 || parts.length === 0) parts.unshift(frame.name === "" || parts.length > 0 ? field : `${frame.name} ${field}`);
  return parts.join(" · ");
}

/** Numbers of a column: whole numbers beyond 2^53 and truth values too; null if it has texts, or nothing. */
function numeric(column: Column): Float64Array | null {
  if (column.kind === "number") return column.values;
  if (column.kind === "time" || column.kind === "text") return null;
  let found = false;
  for (const value of column.values) {
    if (value === null) continue;
    if (typeof value !== "number" && typeof value !== "bigint" && typeof value !== "boolean") return null;
    found = true;
  }
  return found ? Float64Array.from(column.values, (value) => (value === null ? NaN : Number(value))) : null;
}

/** So many different texts are messages, not names of series. */
const GROUPS_MAX = 1000;

/** Rows with the same texts; null: all rows. */
function groups(frame: Frame, labels: Column[]): [string, Uint32Array | null][] {
  const all: [string, null][] = [["", null]];
  if (labels.length === 0) return all;
  /** Of each row, the number of its group. */
  const numbers = new Uint32Array(frame.rows);
  /** What each group is called. */
  let names = [""];
  for (const column of labels) {
    const { codes, texts } = coded(column, frame.rows);
    // Each of them is in some row.
    if (texts.length > GROUPS_MAX) return all;
    /** The number of the groups of each pair of an old group and a text, one more than it is. */
    const found = names.map(() => new Uint16Array(texts.length));
    const longer: string[] = [];
    for (let row = 0; row < frame.rows; row++) {
      const [old, code] = [numbers[row], codes[row]];
      if (found[old][code] === 0) {
        if (longer.length === GROUPS_MAX) return all;
        found[old][code] = longer.push([names[old], texts[code] ?? ""].filter(Boolean).join(" · "));
      }
      numbers[row] = found[old][code] - 1;
    }
    names = longer;
  }
  // A row without a text is in one group with those whose text is empty.
  const called = [...new Set(names)];
  const groupOf = Uint16Array.from(names, (name) => called.indexOf(name));
  const counts = new Uint32Array(called.length);
  for (let row = 0; row < frame.rows; row++) counts[groupOf[numbers[row]]]++;
  const rows = Array.from(counts, (count) => new Uint32Array(count));
  counts.fill(0);
  for (let row = 0; row < frame.rows; row++) {
    const group = groupOf[numbers[row]];
    rows[group][counts[group]++] = row;
  }
  return called.map((name, group) => [name, rows[group]]);
}

/** The number of each row's text. */
function coded(column: Column, rows: number): { codes: Uint32Array; texts: (string | null)[] } {
  if (column.kind === "text") return column;
  const known = new Map<string, number>();
  const codes = Uint32Array.from({ length: rows }, (_, row) => {
    const text = cell(column, row);
    if (!known.has(text)) known.set(text, known.size);
    return known.get(text)!;
  });
  return { codes, texts: [...known.keys()] };
}

function pick(values: Float64Array, rows: Uint32Array | null): Float64Array {
  if (rows === null) return values;
  const picked = new Float64Array(rows.length);
  for (let i = 0; i < rows.length; i++) picked[i] = values[rows[i]];
  return picked;
}

function ascending(label: string, ms: Float64Array, values: Float64Array): Series {
  let isSorted = true;
  for (let i = 1; i < ms.length && isSorted; i++) isSorted = ms[i - 1] <= ms[i];
  if (isSorted) return { label, ms, values };
  const order = Uint32Array.from(ms, (_, i) => i).sort((a, b) => ms[a] - ms[b]);
  return { label, ms: Float64Array.from(order, (i) => ms[i]), values: Float64Array.from(order, (i) => values[i]) };
}

/** The first index whose time is not before `at`. */
export function lowerBound(ms: Float64Array, at: number): number {
  let low = 0;
  let high = ms.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ms[middle] < at) low = middle + 1;
    else high = middle;
  }
  return low;
}
