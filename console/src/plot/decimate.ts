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
  const longest = views.reduce((most, { ms }) => Math.max(most, ms.length), 0);
  const data = total <= EXACT_MAX || longest <= pixels ? join(views) : buckets(views, from, to, pixels);
  return data as unknown as AlignedData;
}

export interface View {
  ms: Float64Array;
  values: Float64Array;
}

/** The points of a series between two times, and one beyond each edge, so that lines leave the plot. */
export function view({ ms, values }: Series, from: number, to: number): View {
  const begin = Math.max(0, lowerBound(ms, from) - 1);
  const end = Math.min(ms.length, lowerBound(ms, to) + 1);
  return { ms: ms.subarray(begin, end), values: values.subarray(begin, end) };
}

const shown = (value: number) => (Number.isNaN(value) ? null : value);

/** All points of all views, at the times of each. */
function join(views: View[]): Row[] {
  return joinAt(timesOf(views), views);
}

/** The times of all views, once each. */
export function timesOf(views: View[]): Float64Array {
  const first = views[0];
  if (first === undefined) return new Float64Array();
  const same = views.every(({ ms }) => ms.length === first.ms.length && ms.every((at, i) => at === first.ms[i]));
  return same ? first.ms : Float64Array.from(new Set(views.flatMap(({ ms }) => Array.from(ms)))).sort();
}

/** The values of views at the times of all of them. */
export function joinAt(times: Float64Array, views: View[]): Row[] {
  if (views.every(({ ms }) => ms === times || (ms.length === times.length && ms.every((at, i) => at === times[i])))) {
    return [Array.from(times), ...views.map(({ values }) => Array.from(values, shown))];
  }
  const place = new Map<number, number>();
  times.forEach((at, i) => place.set(at, i));
  const columns = views.map(({ ms, values }) => {
    const column: Row = new Array(times.length).fill(undefined);
    ms.forEach((at, i) => (column[place.get(at)!] = shown(values[i])));
    return column;
  });
  return [Array.from(times), ...columns];
}

/** Two times per pixel; at each a view has the lowest or the highest value of the pixel. */
function buckets(views: View[], from: number, to: number, pixels: number): Row[] {
  const width = Math.max((to - from) / pixels, Number.MIN_VALUE);
  const times = Array.from({ length: pixels * 2 }, (_, i) => from + (i / 2 + 0.25) * width);
  const columns = views.map(({ ms, values }) => {
    const column: Row = new Array(times.length).fill(undefined);
    let i = lowerBound(ms, from);
    while (i < ms.length && ms[i] <= to) {
      const bucket = Math.min(pixels - 1, Math.floor((ms[i] - from) / width));
      let lowest = -1;
      let highest = -1;
      const begin = i;
      for (; i < ms.length && ms[i] <= to; i++) {
        if (i > begin && Math.min(pixels - 1, Math.floor((ms[i] - from) / width)) !== bucket) break;
        const value = values[i];
        if (Number.isNaN(value)) continue;
        if (lowest < 0 || value < values[lowest]) lowest = i;
        if (highest < 0 || value > values[highest]) highest = i;
      }
      if (lowest < 0) {
        column[bucket * 2] = null;
      } else {
        column[bucket * 2] = values[Math.min(lowest, highest)];
        column[bucket * 2 + 1] = values[Math.max(lowest, highest)];
      }
    }
    return column;
  });
  return [times, ...columns];
}
