// How uPlot is told to draw: axes, scales, series and what the mouse does.

import uPlot from "uplot";
import { barPaths } from "./bar_paths";
import { color, dash, dulled, fill } from "./colors";
import type { Row, View } from "./decimate";
import { drawLines, fillAreas, noPaths, WIDTH } from "./lines";
import { bounded, type Range } from "./range";
import type { Drawing } from "./series";

/** With more points, the other series are not dimmed beside the one at the mouse: each time all of them are drawn again. */
const DIMMED_POINTS_MAX = 40_000;
const DIMMED_SHARE = 0.35;

export type Style = "line" | "area" | "bars";

/** What stacked series are together, over time. */
export interface Sums {
  ms: Float64Array;
  values: Float64Array;
}

interface Asked {
  drawing: Drawing;
  style: Style;
  dark: boolean;
  size: { width: number; height: number };
  hidden: ReadonlySet<string>;
  /** How many points are drawn of each series. */
  points: number;
  /** The upper edges of areas, and all points of lines. */
  lines: View[];
  /** What areas stand on, and from where bars rise. */
  bases: { lines: View[]; rows: Row[] };
  /** The range that is drawn, which moves with a finger. */
  drawn(): Range;
  onSelect: ((range: Range) => void) | null;
  onCursor(at: number | null): void;
}

export function optionsOf({ drawing, style, dark, size, hidden, points, lines, bases, drawn, onSelect, onCursor }: Asked): uPlot.Options {
  const css = getComputedStyle(document.documentElement);
  const ink = css.getPropertyValue("--muted").trim();
  const grid = css.getPropertyValue("--grid").trim();
  const ground = css.getPropertyValue("--surface").trim();
  const axis: uPlot.Axis = {
    stroke: ink,
    font: "12px system-ui, sans-serif",
    grid: { stroke: grid, width: 1 },
    ticks: { stroke: grid, width: 1, size: 4 },
  };
  const longest = drawing.series.reduce((most, { ms }) => Math.max(most, ms.length), 0);
  const single = longest === 1;
  return {
    width: size.width,
    height: size.height,
    ms: 1,
    tzDate: (ms) => uPlot.tzDate(new Date(ms), "Etc/UTC"),
    legend: { show: false },
    cursor: {
      drag: { x: onSelect !== null, y: false, setScale: false },
      // A drag with shift moves the plot instead of selecting.
      bind: {
        mousedown: (_plot, _target, select) => (event) => {
          if (!event.shiftKey) select(event);
          return null;
        },
      },
      focus: { prox: 24 },
      points: { size: 7 },
    },
    focus: { alpha: points * (drawing.series.length - hidden.size) > DIMMED_POINTS_MAX ? 1 : DIMMED_SHARE },
    scales: {
      x: {
        time: true,
        range: () => {
          const { from, to } = drawn();
          return [from, to];
        },
      },
      y: style === "line" ? {} : { range: (_plot, low, high) => fromZero(low, high) },
    },
    axes: [
      { ...axis, values: timeLabels, space: 76 },
      { ...axis, size: yAxisSize, values: (_plot, at) => at.map((y) => axisNumber(y, at)) },
    ],
    series: [
      {},
      ...drawing.series.map((series, i): uPlot.Series => {
        const stroke = color(i, dark);
        const base: uPlot.Series = { label: series.label, stroke, width: WIDTH, dash: dash(i), show: !hidden.has(series.label) };
        base.points = { show: single ? true : undefined, size: single ? 8 : 5, fill: stroke };
        if (style !== "bars") return { ...base, paths: noPaths };
        return { ...base, fill: fill(i, dark, true), paths: barPaths(bases.rows[i]), width: 0, points: { show: false } };
      }),
    ],
    hooks: {
      setSelect: [
        (plot) => {
          if (plot.select.width < 4) return;
          const left = plot.posToVal(plot.select.left, "x");
          const right = plot.posToVal(plot.select.left + plot.select.width, "x");
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          onSelect?.(bounded({ from: left, to: right }));
        },
      ],
      drawAxes: style === "area" ? [(plot) => fillAreas(plot, lines, bases.lines, (i) => fill(i, dark, false))] : [],
      draw: style === "bars" ? [] : [(plot) => drawLines(plot, lines, (i, isDimmed) => (isDimmed ? dulled(color(i, dark), ground, DIMMED_SHARE) : color(i, dark)))],
      setCursor: [(plot) => onCursor(plot.cursor.left! < 0 ? null : plot.posToVal(plot.cursor.left!, "x"))],
    },
  };
}

const fromZero = (low: number, high: number): [number, number] => {
  if (low === null || high === null) return [0, 1];
  if (low === 0 && high === 0) return [0, 1];
  const edge = (Math.max(high, 0) - Math.min(low, 0)) * 0.06;
  return [low < 0 ? low - edge : 0, high > 0 ? high + edge : 0];
};

const pad = (n: number) => String(n).padStart(2, "0");

/** Labels of times, in UTC as everything else is: the hour, and the day where it changes. */
function timeLabels(_plot: uPlot, splits: number[], _axis: number, _space: number, step: number): string[] {
  let before = "";
  return splits.map((at) => {
    const date = new Date(at);
    const day = date.toISOString().slice(0, 10);
    const seconds = step < 60_000 ? `:${pad(date.getUTCSeconds())}` : "";
    const rest = step < 1000 ? `.${String(date.getUTCMilliseconds()).padStart(3, "0")}` : "";
    const time = `${pad(date.getUTCHours())}:${pad(date.getUTCMinutes())}${seconds}${rest}`;
    const changed = day !== before;
    before = day;
    if (step >= 86_400_000) return day;
    return changed ? `${time}\n${day}` : time;
  });
}

function axisNumber(y: number, all: number[]): string {
  const largest = Math.max(...all.map(Math.abs));
  if (largest >= 1e5 || (largest < 1e-3 && largest > 0)) {
    return new Intl.NumberFormat("en", { notation: largest >= 1e15 || largest < 1e-3 ? "scientific" : "compact", maximumFractionDigits: 3 }).format(y);
  }
  return new Intl.NumberFormat("en", { maximumFractionDigits: 6 }).format(y);
}

function yAxisSize(_plot: uPlot, values: string[] | null): number {
  const longest = (values ?? []).reduce((most, text) => Math.max(most, text.length), 0);
  return Math.max(40, 18 + longest * 7);
}
