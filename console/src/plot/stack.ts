// Stacks series: each stands on those before it, so that areas and bars of several series hide none of them, and the upper
// edge is their sum. What is below zero hangs down from it.

import { joinAt, timesOf, view, type Row, type View } from "./decimate";
import { lowerBound, type Series } from "./series";

/** For each series, from where to where its values reach at each of the times. */
export interface Stack {
  times: number[];
  bases: Row[];
  tops: Row[];
  /** The sum of all series at each of the times. */
  sums: Float64Array;
}

/**
 * The stack of some series between two times. A sum needs a value of each series at the same time. So a series that has no
 * point at the time of another is taken to go straight from its point before to its point after (`bridges`: of areas, which
 * draw just that), and where there are more times than slots, the mean of each slot is drawn.
 */
export function stack(series: Series[], from: number, to: number, slots: number, bridges: boolean): Stack {
  const views = series.map((one) => view(one, from, to));
  const times = timesOf(views, slots);
  const [at, ...columns] = times !== null ? joinAt(times, views) : means(views, from, to, slots);
  if (bridges) for (const column of columns) bridge(at as number[], column);
  return piled(at as number[], columns);
}

function piled(times: number[], columns: Row[]): Stack {
  const above = new Float64Array(times.length);
  const below = new Float64Array(times.length);
  const bases: Row[] = [];
  const tops: Row[] = [];
  for (const column of columns) {
    const base: Row = new Array(times.length);
    const top: Row = new Array(times.length);
    column.forEach((value, i) => {
      base[i] = top[i] = value;
      if (value === null || value === undefined) return;
      const pile = value < 0 ? below : above;
      base[i] = pile[i];
      pile[i] += value;
      top[i] = pile[i];
    });
    bases.push(base);
    tops.push(top);
  }
  return { times, bases, tops, sums: above.map((sum, i) => sum + below[i]) };
}

/** The mean of each slot: the sum of means is the mean of sums, which holds for neither the lowest nor the highest values. */
function means(views: View[], from: number, to: number, slots: number): Row[] {
  const width = Math.max((to - from) / slots, Number.MIN_VALUE);
  const times = Array.from({ length: slots }, (_, i) => from + (i + 0.5) * width);
  const columns = views.map(({ ms, values }) => {
    const sums = new Float64Array(slots);
    const counts = new Uint32Array(slots);
    for (let i = lowerBound(ms, from); i < ms.length && ms[i] <= to; i++) {
      if (Number.isNaN(values[i])) continue;
      const slot = Math.min(slots - 1, Math.floor((ms[i] - from) / width));
      sums[slot] += values[i];
      counts[slot]++;
    }
    return Array.from(sums, (sum, slot): number | undefined => (counts[slot] === 0 ? undefined : sum / counts[slot]));
  });
  return [times, ...columns];
}

/** Fills what lies between two values of a series, unless there is a gap. */
function bridge(times: number[], column: Row): void {
  let before = -1;
  for (let i = 0; i < column.length; i++) {
    const value = column[i];
    if (value === undefined) continue;
    if (value !== null && before >= 0) {
      const low = column[before] as number;
      const slope = (value - low) / (times[i] - times[before]);
      for (let between = before + 1; between < i; between++) column[between] = low + slope * (times[between] - times[before]);
    }
    before = value === null ? -1 : i;
  }
}
