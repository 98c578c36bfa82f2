// Counts the points of a heat map's cells.

import type { Range } from "./range";
import { lowerBound, type Drawing } from "./series";

export interface Cells extends Range {
  columns: number;
  rows: number;
  /** Of the first column, from its lowest row up, then of the next. */
  counts: Uint32Array;
  most: number;
  /** From which value to which the rows reach. */
  low: number;
  high: number;
}

/** The share of the scale of colours at a count. */
export const shareOf = (counted: number, most: number) => Math.log1p(counted) / Math.log1p(most);

/** The value at a share of the rows. The span of the largest numbers is none itself. */
export const valueAt = ({ low, high }: Cells, share: number) => low * (1 - share) + high * share;

/** The points between two times. */
export function count({ series }: Drawing, { from, to }: Range, columns: number, rows: number): Cells {
  let low = Infinity;
  let high = -Infinity;
  const parts = series.map(({ ms, values }) => {
    const [begin, end] = [lowerBound(ms, from), lowerBound(ms, to + 1e-6)];
    return { ms: ms.subarray(begin, end), values: values.subarray(begin, end) };
  });
  for (const { values } of parts) {
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (!(low <= high)) [low, high] = [0, 1];
  // Beside a large number, 1 is nothing.
  const around = Math.max(1, Math.abs(low) / 2 ** 20);
  if (low === high) [low, high] = Number.isFinite(low + around) ? [low, low + around] : [low - around, low];
  const counts = new Uint32Array(columns * rows);
  let most = 0;
  const width = (to - from) / columns || 1;
  // Halves of the largest numbers have a span, those of the smallest have none.
  const scale = Number.isFinite(high - low) ? 1 : 0.5;
  const span = high * scale - low * scale;
  for (const { ms, values } of parts) {
    for (let i = 0; i < ms.length; i++) {
      if (Number.isNaN(values[i])) continue;
      const column = Math.min(columns - 1, Math.floor((ms[i] - from) / width));
      const row = Math.min(rows - 1, Math.floor(((values[i] * scale - low * scale) / span) * rows));
      most = Math.max(most, ++counts[column * rows + row]);
    }
  }
  return { columns, rows, counts, most, low, high, from, to };
}
