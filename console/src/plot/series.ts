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
    const labels = frame.columns.filter((column) => column.kind === "other" && column.name !== TIME_AGAIN && numeric(column) === null);
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
  if (column.kind === "time") return null;
  let found = false;
  for (const value of column.values) {
    if (value === null) continue;
    if (typeof value !== "number" && typeof value !== "bigint" && typeof value !== "boolean") return null;
    found = true;
  }
  return found ? Float64Array.from(column.values, (value) => (value === null ? NaN : Number(value))) : null;
}

/** Rows with the same texts; null: all rows. */
function groups(frame: Frame, labels: Column[]): [string, number[] | null][] {
  if (labels.length === 0) return [["", null]];
  const found = new Map<string, number[]>();
  for (let row = 0; row < frame.rows; row++) {
    const key = labels.map((column) => cell(column, row)).filter(Boolean).join(" · ");
    let rows = found.get(key);
    if (rows === undefined) found.set(key, (rows = []));
    rows.push(row);
  }
  // So many texts are messages, not names of series.
  return found.size > 1000 ? [["", null]] : [...found];
}

const pick = (values: Float64Array, rows: number[] | null) =>
  rows === null ? values : Float64Array.from(rows, (row) => values[row]);

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
