// The names of the series, which hide and show them, and the values where the mouse is.

import { value } from "../ui/numbers";
import { color, dash, fill } from "./colors";
import type { Style, Sums } from "./options";
import type { Drawing } from "./series";

interface Props {
  drawing: Drawing;
  style: Style;
  dark: boolean;
  hidden: ReadonlySet<string>;
  /** The time where the mouse is. */
  cursor: number | null;
  /** What the series are together, if they stand on each other. */
  sums: Sums | null;
  onToggle(name: string, alone: boolean): void;
}

export function Legend({ drawing, style, dark, hidden, cursor, sums, onToggle }: Props) {
  return (
    <ul class="legend" aria-label="Series">
      {drawing.series.map((series, i) => (
        <li key={`${i} ${series.label}`}>
          <button
            type="button"
            aria-pressed={!hidden.has(series.label)}
            title="Click: hide or show. With shift: alone."
            onClick={(event) => onToggle(series.label, event.shiftKey)}
          >
            <svg width="18" height="8" aria-hidden="true">
              {style !== "line" && <rect width="18" height="8" fill={fill(i, dark, style === "bars")} />}
              {style !== "bars" && <line x1="0" x2="18" y1="4" y2="4" stroke={color(i, dark)} stroke-width="3" stroke-dasharray={dash(i).join(" ")} />}
            </svg>
            <span class="legend-label">{series.label}</span>
            {cursor !== null && <span class="legend-value">{value(nearest(series.ms, series.values, cursor))}</span>}
          </button>
        </li>
      ))}
      {sums !== null && (
        <li class="legend-sum" title="The series stand on each other: the upper edge is their sum.">
          stacked{cursor !== null && `: ${value(nearest(sums.ms, sums.values, cursor))}`}
        </li>
      )}
    </ul>
  );
}

function nearest(ms: Float64Array, values: Float64Array, at: number): number | null {
  let low = 0;
  let high = ms.length - 1;
  if (high < 0) return null;
  while (high - low > 1) {
    const middle = (low + high) >>> 1;
    if (ms[middle] < at) low = middle;
    else high = middle;
  }
  return values[Math.abs(ms[low] - at) <= Math.abs(ms[high] - at) ? low : high];
}
