// A line as upright spans: from where to where it reaches in each column of pixels. Of many points that go up and down no more
// is seen, and spans are drawn in a fraction of the time of strokes (`raster.ts`).

import type { View } from "./decimate";

/** Of each column. Where there is no line, the top is below the bottom. */
export interface Spans {
  tops: Float64Array;
  bottoms: Float64Array;
}

/** Where something is in pixels: at `at + (value - from) * by`. */
export interface Scale {
  from: number;
  at: number;
  by: number;
}

/** The spans of a line through some points, which NaN parts. */
export function spansOf({ ms, values }: View, across: Scale, down: Scale, width: number): Spans {
  const tops = new Float64Array(width).fill(Infinity);
  const bottoms = new Float64Array(width).fill(-Infinity);
  const x = (i: number) => across.at + (ms[i] - across.from) * across.by;
  const y = (value: number) => down.at + (value - down.from) * down.by;
  const reach = (column: number, one: number, other: number) => {
    if (column < 0 || column >= width) return;
    if (one < tops[column]) tops[column] = one;
    if (other < tops[column]) tops[column] = other;
    if (one > bottoms[column]) bottoms[column] = one;
    if (other > bottoms[column]) bottoms[column] = other;
  };
  // The lowest and the highest value in the column where the line is, and when it leaves that. Most points are in the column of
  // the one before.
  let column = -1;
  let low = Infinity;
  let high = -Infinity;
  let end = -Infinity;
  for (let i = 0; i < ms.length; i++) {
    const value = values[i];
    if (ms[i] >= end) {
      if (low <= high) reach(column, y(low), y(high));
      const last = Math.floor(x(i));
      if (i > 0) cross(i, Math.max(column, 0), Math.min(last, width - 1));
      column = last;
      end = across.from + (last + 1 - across.at) / across.by;
      low = Infinity;
      high = -Infinity;
    }
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low <= high) reach(column, y(low), y(high));
  return { tops, bottoms };

  /** The part of the way from the point before in each column that it crosses. */
  function cross(i: number, first: number, last: number): void {
    const [fromX, toX] = [x(i - 1), x(i)];
    const [fromY, toY] = [y(values[i - 1]), y(values[i])];
    const slope = (toY - fromY) / (toX - fromX);
    for (let column = first; column <= last; column++) {
      reach(column, fromY + (Math.max(fromX, column) - fromX) * slope, fromY + (Math.min(toX, column + 1) - fromX) * slope);
    }
  }
}

/** What a round pen of a radius draws along the line. */
export function thickened({ tops, bottoms }: Spans, radius: number): Spans {
  const width = tops.length;
  const thick: Spans = { tops: new Float64Array(width).fill(Infinity), bottoms: new Float64Array(width).fill(-Infinity) };
  const aside = Math.floor(radius);
  for (let by = -aside; by <= aside; by++) {
    const up = Math.sqrt(radius * radius - by * by);
    const end = Math.min(width, width - by);
    for (let column = Math.max(0, -by); column < end; column++) {
      const top = tops[column + by] - up;
      const bottom = bottoms[column + by] + up;
      if (top < thick.tops[column]) thick.tops[column] = top;
      if (bottom > thick.bottoms[column]) thick.bottoms[column] = bottom;
    }
  }
  return thick;
}

/** Whether each column of a dashed line is drawn: dashes are as long along the line as they are. */
export function dashed({ tops, bottoms }: Spans, dash: number[], steepest: number): Uint8Array {
  const drawn = new Uint8Array(tops.length).fill(1);
  const period = dash.reduce((sum, part) => sum + part, 0);
  if (period === 0) return drawn;
  let length = 0;
  for (let column = 0; column < tops.length; column++) {
    const rise = bottoms[column] - tops[column];
    if (!(rise >= 0)) continue;
    // Where the line fills the plot, dashes are not seen.
    if (rise < steepest) drawn[column] = isOn(length % period, dash);
    length += Math.hypot(1, rise);
  }
  return drawn;
}

function isOn(at: number, dash: number[]): 0 | 1 {
  for (let i = 0, end = 0; i < dash.length; i++) {
    end += dash[i];
    if (at < end) return i % 2 === 0 ? 1 : 0;
  }
  return 1;
}
