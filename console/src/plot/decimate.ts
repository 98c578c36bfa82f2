// Leaves out points that no eye could see: of those that share a pixel column, the lowest and the highest stay, in their
// order. A plot of a million points then draws two thousand, and looks the same.

import type { AlignedData } from "uplot";
import { lowerBound, type Series } from "./series";

/** Points that are drawn as they are. */
const EXACT_MAX = 8_000;

/** A value that is undefined is no gap, null is one. */
export type Row = (number | null | undefined)[];

/** What is drawn of some series between two times. */
export function decimate(series: Series[], from: number, to: number, pixels: number): AlignedData {
  const views = series.map((one) => view(one, from, to));
  const total = views.reduce((sum, { ms }) => sum + ms.length, 0);
  // Few points of each of many series make many times of all, unless they are the same.
  const times = timesOf(views, total <= EXACT_MAX ? Infinity : pixels);
  const data = times !== null ? joinAt(times, views) : buckets(views, from, to, pixels);
  return data as unknown as AlignedData;
}

export interface View {
  ms: Float64Array;
  values: Float64Array;
}

/** The points of a series between two times, and one beyond each edge, so that lines leave the plot. */
export function view({ ms, values }: View, from: number, to: number): View {
  const begin = Math.max(0, lowerBound(ms, from) - 1);
  const end = Math.min(ms.length, lowerBound(ms, to) + 1);
  return { ms: ms.subarray(begin, end), values: values.subarray(begin, end) };
}

/** The line through the values of a row, where they are. */
export function lineOf(times: ArrayLike<number>, row: Row): View {
  const [ms, values] = [new Float64Array(times.length), new Float64Array(times.length)];
  let length = 0;
  row.forEach((value, i) => {
    if (value === undefined) return;
    ms[length] = times[i];
    values[length++] = value ?? NaN;
  });
  return { ms: ms.subarray(0, length), values: values.subarray(0, length) };
}

const shown = (value: number) => (Number.isNaN(value) ? null : value);

function areSame(one: Float64Array, other: Float64Array): boolean {
  if (one === other) return true;
  if (one.length !== other.length) return false;
  for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false;
  return true;
}

/** The times of all views, once each; null if they are more than so many. */
export function timesOf(views: View[], max = Infinity): Float64Array | null {
  let all = views[0]?.ms ?? new Float64Array();
  for (const { ms } of views) {
    if (!areSame(all, ms)) all = merged(all, ms);
    if (all.length > max) return null;
  }
  return all;
}

function merged(one: Float64Array, other: Float64Array): Float64Array {
  const all = new Float64Array(one.length + other.length);
  let length = 0;
  for (let i = 0, j = 0; i < one.length || j < other.length; ) {
    const next = j === other.length || one[i] <= other[j] ? one[i++] : other[j++];
    if (length === 0 || all[length - 1] !== next) all[length++] = next;
  }
  return all.subarray(0, length);
}

/** The values of views at the times of all of them. */
export function joinAt(times: Float64Array, views: View[]): Row[] {
  const columns = views.map(({ ms, values }) => {
    if (areSame(ms, times)) return Array.from(values, shown);
    const column: Row = new Array(times.length).fill(undefined);
    let place = 0;
    for (let i = 0; i < ms.length; i++) {
      while (times[place] < ms[i]) place++;
      column[place] = shown(values[i]);
    }
    return column;
  });
  return [Array.from(times), ...columns];
}

/**
 * Two times per pixel; at each a view has the lowest or the highest value of the pixel. The first and the last time are those
 * of the edges, where lines come in and go out.
 */
function buckets(views: View[], from: number, to: number, pixels: number): Row[] {
  const width = Math.max((to - from) / pixels, Number.MIN_VALUE);
  const times = [from, ...Array.from({ length: pixels * 2 }, (_, i) => from + (i / 2 + 0.25) * width), to];
  const columns = views.map((one) => {
    const { ms, values } = one;
    const column: Row = new Array(times.length).fill(undefined);
    let i = lowerBound(ms, from);
    column[0] = crossing(one, i, from);
    while (i < ms.length && ms[i] <= to) {
      const bucket = Math.min(pixels - 1, Math.floor((ms[i] - from) / width));
      const end = bucket === pixels - 1 ? Infinity : from + (bucket + 1) * width;
      let lowest = -1;
      let highest = -1;
      do {
        const value = values[i];
        if (!Number.isNaN(value)) {
          if (lowest < 0 || value < values[lowest]) lowest = i;
          if (highest < 0 || value > values[highest]) highest = i;
        }
        i++;
      } while (i < ms.length && ms[i] < end && ms[i] <= to);
      if (lowest < 0) {
        column[1 + bucket * 2] = null;
      } else {
        column[1 + bucket * 2] = values[Math.min(lowest, highest)];
        column[2 + bucket * 2] = values[Math.max(lowest, highest)];
      }
    }
    column[times.length - 1] = crossing(one, i, to);
    return column;
  });
  return [times, ...columns];
}

/** The value of the line at a time between two of its points, of which `next` is the second. */
function crossing({ ms, values }: View, next: number, at: number): number | undefined {
  if (next === 0 || next >= ms.length || !(ms[next - 1] < ms[next])) return undefined;
  const value = values[next - 1] + ((at - ms[next - 1]) / (ms[next] - ms[next - 1])) * (values[next] - values[next - 1]);
  return Number.isNaN(value) ? undefined : value;
}
