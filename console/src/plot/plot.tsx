// A plot over time: lines, areas or bars. Zoom with a drag, the wheel or + and -, pan with the arrow keys or a drag with
// shift; whoever owns the plot is told the range, and may ask the server again with a finer interval.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { isDark } from "../ui/theme";
import { value } from "../ui/numbers";
import { color, dash } from "./colors";
import { decimate } from "./decimate";
import type { Drawing } from "./series";

export type Style = "line" | "area" | "bars";

export interface Range {
  from: number;
  to: number;
}

interface Props {
  drawing: Drawing;
  style: Style;
  /** The range to show; null: all points. */
  range: Range | null;
  onRange(range: Range | null): void;
  label: string;
  legend?: boolean;
  height?: number;
}

const EDGE_SHARE = 0.02;

export function Plot({ drawing, style, range, onRange, label, legend = true, height }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState<number | null>(null);
  const dark = isDark.value;
  const shown = range ?? whole(drawing);
  const latest = useRef({ shown, onRange });
  latest.current = { shown, onRange };

  useLayoutEffect(() => {
    const element = frame.current!;
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (size.width < 40 || size.height < 40) return;
    const pixels = Math.max(50, Math.round(size.width - 60));
    const data = decimate(drawing.series, shown.from, shown.to, style === "bars" ? Math.min(pixels, 400) : pixels);
    const options = optionsOf(drawing, style, dark, size, hidden, latest, setCursor);
    const made = new uPlot(options, data, frame.current!);
    frame.current!.dataset.points = String(drawing.points);
    frame.current!.dataset.drawn = String(data[0].length);
    plot.current = made;
    const over = made.over;
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.shiftKey && !event.altKey && document.activeElement !== frame.current) return;
      event.preventDefault();
      const share = (event.clientX - over.getBoundingClientRect().left) / over.clientWidth;
      zoom(event.deltaY > 0 ? 1.3 : 1 / 1.3, share);
    };
    over.addEventListener("wheel", onWheel, { passive: false });
    return () => {
      over.removeEventListener("wheel", onWheel);
      made.destroy();
      plot.current = null;
    };
  }, [drawing, style, dark, size.width, size.height, shown.from, shown.to, hidden]);

  const zoom = (factor: number, share: number) => {
    const { from, to } = latest.current.shown;
    const center = from + (to - from) * share;
    latest.current.onRange({ from: center - (center - from) * factor, to: center + (to - center) * factor });
  };
  const pan = (share: number) => {
    const { from, to } = latest.current.shown;
    latest.current.onRange({ from: from + (to - from) * share, to: to + (to - from) * share });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const actions: Record<string, () => void> = {
      "+": () => zoom(0.5, 0.5),
      "=": () => zoom(0.5, 0.5),
      "-": () => zoom(2, 0.5),
      ArrowLeft: () => pan(-0.2),
      ArrowRight: () => pan(0.2),
      "0": () => onRange(null),
      Escape: () => onRange(null),
    };
    const action = actions[event.key];
    if (action === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    action();
  };
  const toggle = (name: string, alone: boolean) => {
    const names = drawing.series.map((series) => series.label);
    if (alone) {
      const others = names.filter((other) => other !== name);
      const isAlone = !hidden.has(name) && others.every((other) => hidden.has(other));
      return setHidden(new Set(isAlone ? [] : others));
    }
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    setHidden(next);
  };

  return (
    <div class="plot" style={height === undefined ? undefined : { height: `${height}px` }}>
      <div
        class="plot-frame"
        ref={frame}
        tabIndex={0}
        role="application"
        aria-label={`${label}. Plus and minus zoom, arrow keys move, 0 shows everything.`}
        onKeyDown={onKeyDown}
      />
      {legend && drawing.series.length > 0 && (
        <ul class="legend" aria-label="Series">
          {drawing.series.map((series, i) => (
            <li key={`${i} ${series.label}`}>
              <button
                type="button"
                aria-pressed={!hidden.has(series.label)}
                title="Click: hide or show. With shift: alone."
                onClick={(event) => toggle(series.label, event.shiftKey)}
              >
                <svg width="18" height="8" aria-hidden="true">
                  <line x1="0" x2="18" y1="4" y2="4" stroke={color(i, dark)} stroke-width="3" stroke-dasharray={dash(i).join(" ")} />
                </svg>
                <span class="legend-label">{series.label}</span>
                {cursor !== null && <span class="legend-value">{value(nearest(series.ms, series.values, cursor))}</span>}
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function whole({ from, to }: Drawing): Range {
  if (!(from <= to)) return { from: Date.now() - 3_600_000, to: Date.now() };
  const edge = from === to ? 1000 : (to - from) * EDGE_SHARE;
  return { from: from - edge, to: to + edge };
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

function optionsOf(
  drawing: Drawing,
  style: Style,
  dark: boolean,
  size: { width: number; height: number },
  hidden: ReadonlySet<string>,
  latest: { current: { shown: Range; onRange(range: Range | null): void } },
  setCursor: (at: number | null) => void,
): uPlot.Options {
  const css = getComputedStyle(document.documentElement);
  const ink = css.getPropertyValue("--muted").trim();
  const grid = css.getPropertyValue("--grid").trim();
  const axis: uPlot.Axis = {
    stroke: ink,
    font: "12px system-ui, sans-serif",
    grid: { stroke: grid, width: 1 },
    ticks: { stroke: grid, width: 1, size: 4 },
  };
  const longest = drawing.series.reduce((most, { ms }) => Math.max(most, ms.length), 0);
  const single = longest === 1;
  const shade = drawing.series.length > 4 ? "22" : "3d";
  const { from, to } = latest.current.shown;
  return {
    width: size.width,
    height: size.height,
    ms: 1,
    tzDate: (ms) => uPlot.tzDate(new Date(ms), "Etc/UTC"),
    legend: { show: false },
    cursor: {
      drag: { x: true, y: false, setScale: false },
      focus: { prox: 24 },
      points: { size: 7 },
    },
    focus: { alpha: 0.35 },
    scales: {
      x: { time: true, range: [from, to] },
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
        const base: uPlot.Series = { label: series.label, stroke, width: 1.6, dash: dash(i), show: !hidden.has(series.label) };
        base.points = { show: single ? true : undefined, size: single ? 8 : 5, fill: stroke };
        if (style === "area") base.fill = `${stroke}${shade}`;
        if (style === "bars") {
          base.fill = `${stroke}b0`;
          base.width = 0;
          base.points = { show: false };
          base.paths = uPlot.paths.bars!({ size: [0.8, 60], gap: 1 });
        }
        return base;
      }),
    ],
    hooks: {
      setSelect: [
        (plot) => {
          if (plot.select.width < 4) return;
          const left = plot.posToVal(plot.select.left, "x");
          const right = plot.posToVal(plot.select.left + plot.select.width, "x");
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          latest.current.onRange({ from: left, to: right });
        },
      ],
      setCursor: [(plot) => setCursor(plot.cursor.left! < 0 ? null : plot.posToVal(plot.cursor.left!, "x"))],
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
