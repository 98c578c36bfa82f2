// A plot over time: lines, areas or bars. Zoom with a drag, the wheel or + and -, pan with the arrow keys or a drag with
// shift; whoever owns the plot is told the range, and may ask the server again with a finer interval.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { isDark } from "../ui/theme";
import { decimate, type Row } from "./decimate";
import { Legend } from "./legend";
import { optionsOf, type Range, type Style, type Sums } from "./options";
import type { Drawing } from "./series";
import { stack } from "./stack";

export type { Range, Style };

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
  const [sums, setSums] = useState<Sums | null>(null);
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
    const { data, bases, sums } = drawn(drawing, style, shown, hidden, pixels);
    setSums(sums);
    const options = optionsOf({ drawing, style, dark, size, hidden, bases, latest, setCursor });
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
  data: uPlot.AlignedData;
  /** From where areas and bars rise; null: they are lines. */
  bases: Row[] | null;
  sums: Sums | null;
}

/** The least room of a bar, so that the eye tells it from the next. */
const BAR_PIXELS = 2;

/** What is drawn of the series that are not hidden. Several areas, or several bars, stand on each other. */
function drawn({ series }: Drawing, style: Style, { from, to }: Range, hidden: ReadonlySet<string>, pixels: number): Drawn {
  const bars = Math.floor(pixels / BAR_PIXELS);
  if (style === "line") return { data: decimate(series, from, to, pixels), bases: null, sums: null };
  if (series.length === 1) {
    // One alone keeps its peaks: the lowest and the highest of each column.
    const data = decimate(series, from, to, style === "bars" ? bars : pixels);
    return { data, bases: [new Array<number>(data[0].length).fill(0)], sums: null };
  }
  const shown = series.filter(({ label }) => !hidden.has(label));
  const { times, bases, tops, sums } = stack(shown, from, to, style === "bars" ? bars : pixels, style === "area");
  const nothing: Row = new Array(times.length).fill(null);
  const spread = (rows: Row[]) => series.map((one) => rows[shown.indexOf(one)] ?? nothing);
  return {
    data: [times, ...spread(tops)] as uPlot.AlignedData,
    bases: spread(bases),
    sums: { ms: Float64Array.from(times), values: sums },
  };
}
