// A plot over time: lines, areas or bars. A drag, two fingers, the wheel, + and - zoom; arrow keys, one finger and a drag with
// shift move it. Whoever owns the plot is told the range, and may ask the server again with a finer interval.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { isDark } from "../ui/theme";
import { decimate, lineOf, type Row, type View } from "./decimate";
import { Legend } from "./legend";
import { optionsOf, type Style, type Sums } from "./options";
import type { Range } from "./range";
import type { Drawing } from "./series";
import { stack } from "./stack";
import { Tools } from "./tools";
import { moveByKey, useRangeMoves } from "./use_range_moves";

export type { Range };

interface Props {
  drawing: Drawing;
  style: Style;
  /** The range to show; null: all points. */
  range: Range | null;
  /** Told another range; null: there is none. */
  onRange: ((range: Range | null) => void) | null;
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
  const [sums, setSums] = useState<Sums | null>(null);
  const dark = isDark.value;
  const shown = range ?? whole(drawing);
  /** The range while a finger moves it. */
  const moving = useRef<Range | null>(null);
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

  const moves = useRangeMoves({
    frame,
    shown,
    onRange,
    area: () => (plot.current?.over ?? frame.current!).getBoundingClientRect(),
    preview: (next) => {
      moving.current = next;
      const { from, to } = next ?? shown;
      plot.current?.setScale("x", { min: from, max: to });
    },
  });

  const isVisible = size.width >= 40 && size.height >= 40;
  useEffect(() => {
    if (!isVisible) return;
    const pixels = Math.max(50, Math.round(size.width - 60));
    const { data, lines, bases, sums } = drawn(drawing, style, shown, hidden, pixels);
    setSums(sums);
    const options = optionsOf({
      drawing,
      style,
      dark,
      size,
      hidden,
      points: data[0].length,
      lines,
      bases,
      drawn: () => moving.current ?? latest.current.shown,
      onSelect: onRange === null ? null : (next) => latest.current.onRange?.(next),
      onCursor: setCursor,
    });
    const made = new uPlot(options, data, frame.current!);
    frame.current!.dataset.points = String(drawing.points);
    frame.current!.dataset.drawn = String(data[0].length);
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
      moving.current = null;
    };
  }, [drawing, style, dark, isVisible, size.width, shown.from, shown.to, hidden]);
  // The legend may need another line for the values at the mouse. A new plot would not know where the mouse is.
  useEffect(() => {
    if (plot.current !== null && plot.current.height !== size.height) plot.current.setSize(size);
  }, [size.height]);

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

  const keys = { tabIndex: 0, role: "application" as const, onKeyDown: (event: KeyboardEvent) => void moveByKey(event, moves) };
  const words = onRange === null ? label : `${label}. Plus and minus zoom, arrow keys move, 0 shows everything.`;
  return (
    <div class="plot" style={height === undefined ? undefined : { height: `${height}px` }}>
      <div class="plot-frame" ref={frame} aria-label={words} {...(onRange === null ? { role: "img" as const } : keys)} />
      {onRange !== null && <Tools label={label} moves={moves} />}
      {legend && drawing.series.length > 0 && (
        <Legend drawing={drawing} style={style} dark={dark} hidden={hidden} cursor={cursor} sums={sums} onToggle={toggle} />
      )}
    </div>
  );
}

function whole({ from, to }: Drawing): Range {
  if (!(from <= to)) return { from: Date.now() - 3_600_000, to: Date.now() };
  const edge = from === to ? 1000 : (to - from) * EDGE_SHARE;
  return { from: from - edge, to: to + edge };
}

interface Drawn {
  /** What can be told apart. */
  data: uPlot.AlignedData;
  /** The upper edges of areas, and all points of lines. */
  lines: View[];
  /** What areas stand on, and from where bars rise. */
  bases: { lines: View[]; rows: Row[] };
  sums: Sums | null;
}

/** The least room of a bar, so that the eye tells it from the next. */
const BAR_PIXELS = 2;

/** What is drawn of the series that are not hidden. Several areas, or several bars, stand on each other. */
function drawn({ series }: Drawing, style: Style, { from, to }: Range, hidden: ReadonlySet<string>, pixels: number): Drawn {
  const bars = Math.floor(pixels / BAR_PIXELS);
  if (style === "line" || series.length === 1) {
    // An area alone keeps its peaks: the lowest and the highest of each column.
    const data = decimate(series, from, to, style === "bars" ? bars : pixels);
    // The ground lies below all points, also below those that a finger moves into the plot.
    const ends = series.slice(0, 1).map(({ ms }): View => ({ ms: Float64Array.of(ms[0], ms[ms.length - 1]), values: Float64Array.of(0, 0) }));
    return { data, lines: series, bases: { lines: ends, rows: [new Array<number>(data[0].length).fill(0)] }, sums: null };
  }
  const shown = series.filter(({ label }) => !hidden.has(label));
  const { times, bases, tops, sums } = stack(shown, from, to, style === "bars" ? bars : pixels, style === "area");
  const nothing: Row = new Array(times.length).fill(null);
  const spread = (rows: Row[]) => series.map((one) => rows[shown.indexOf(one)] ?? nothing);
  const edges = (rows: Row[]) => rows.map((row) => lineOf(times, row));
  const [all, from0] = [spread(tops), spread(bases)];
  return {
    data: [times, ...all] as uPlot.AlignedData,
    lines: edges(all),
    bases: { lines: edges(from0), rows: from0 },
    sums: { ms: Float64Array.from(times), values: sums },
  };
}
