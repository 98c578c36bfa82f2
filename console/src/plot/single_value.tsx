// The newest value of each series, large enough to read from across a room.

import { isDark } from "../ui/theme";
import { utc } from "../ui/times";
import { value } from "../ui/numbers";
import { color } from "./colors";
import type { Drawing, Series } from "./series";

export function SingleValue({ drawing }: { drawing: Drawing }) {
  const dark = isDark.value;
  return (
    <ul class="single-values" tabIndex={0} aria-label="Newest values">
      {drawing.series.map((series, i) => {
        const newest = lastOf(series);
        return (
          <li key={`${i} ${series.label}`}>
            <span class="single-label">{series.label}</span>
            <strong>{newest === null ? "–" : value(series.values[newest])}</strong>
            <Spark series={series} stroke={color(i, dark)} />
            <span class="single-time">{newest === null ? "no value" : utc(series.ms[newest])}</span>
          </li>
        );
      })}
    </ul>
  );
}

function lastOf({ values }: Series): number | null {
  for (let i = values.length - 1; i >= 0; i--) if (!Number.isNaN(values[i])) return i;
  return null;
}

const SPARK = { width: 160, height: 28, points: 80 };

function Spark({ series, stroke }: { series: Series; stroke: string }) {
  const step = Math.max(1, Math.floor(series.values.length / SPARK.points));
  const values: number[] = [];
  for (let i = 0; i < series.values.length; i += step) if (!Number.isNaN(series.values[i])) values.push(series.values[i]);
  if (values.length < 2) return null;
  const low = Math.min(...values);
  const high = Math.max(...values);
  const points = values.map((y, i) => {
    const x = (i / (values.length - 1)) * SPARK.width;
    return `${x.toFixed(1)},${(SPARK.height - 2 - ((y - low) / (high - low || 1)) * (SPARK.height - 4)).toFixed(1)}`;
  });
  return (
    <svg viewBox={`0 0 ${SPARK.width} ${SPARK.height}`} class="spark" aria-hidden="true" preserveAspectRatio="none">
      <polyline points={points.join(" ")} fill="none" stroke={stroke} stroke-width="1.5" vector-effect="non-scaling-stroke" />
    </svg>
  );
}
