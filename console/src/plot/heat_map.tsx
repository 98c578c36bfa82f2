// A heat map: how many points of all series lie in each range of values, over time. It is zoomed and moved as lines are; with
// the keyboard, arrow keys lead from cell to cell, and with shift they move it.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { isDark } from "../ui/theme";
import { plural, short, value } from "../ui/numbers";
import { heat } from "./colors";
import { count, shareOf, valueAt, type Cells } from "./heat_cells";
import { MARGIN, paint, type Size } from "./heat_paint";
import type { Range } from "./range";
import type { Drawing } from "./series";
import { Tools } from "./tools";
import { moveByKey, useRangeMoves } from "./use_range_moves";

const CELL_PIXELS = { width: 8, height: 10 };

interface Props {
  drawing: Drawing;
  /** The range to show; null: all points. */
  range: Range | null;
  onRange(range: Range | null): void;
  label: string;
}

interface Place {
  column: number;
  row: number;
}

const STEPS: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export function HeatMap({ drawing, range, onRange, label }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  const [moving, setMoving] = useState<Range | null>(null);
  const [selected, setSelected] = useState<[number, number] | null>(null);
  const [pointed, setPointed] = useState<Place | null>(null);
  const [chosen, setChosen] = useState<Place | null>(null);
  const dark = isDark.value;
  const shown = range ?? whole(drawing);
  const { from, to } = moving ?? shown;
  const inner = { width: size.width - MARGIN.left - MARGIN.right, height: size.height - MARGIN.top - MARGIN.bottom };

  useLayoutEffect(() => {
    const element = frame.current!;
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const cells = useMemo(() => {
    if (inner.width < 40 || inner.height < 40) return null;
    return count(drawing, { from, to }, Math.max(1, Math.floor(inner.width / CELL_PIXELS.width)), Math.max(1, Math.floor(inner.height / CELL_PIXELS.height)));
  }, [drawing, from, to, inner.width, inner.height]);
  useEffect(() => {
    if (cells !== null) paint(canvas.current!, cells, size, inner);
  }, [cells, dark]);

  const moves = useRangeMoves({
    frame,
    shown,
    onRange,
    area: () => ({ left: frame.current!.getBoundingClientRect().left + MARGIN.left, width: inner.width }),
    preview: setMoving,
    select: setSelected,
  });
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.shiftKey ? undefined : STEPS[event.key];
    if (step === undefined || cells === null || event.ctrlKey || event.metaKey || event.altKey) return void moveByKey(event, moves);
    event.preventDefault();
    const { column, row } = chosen ?? { column: Math.floor(cells.columns / 2), row: Math.floor(cells.rows / 2) };
    const [right, up] = chosen === null ? [0, 0] : step;
    setChosen({ column: clamp(column + right, cells.columns), row: clamp(row + up, cells.rows) });
  };
  const onMove = (event: MouseEvent) => {
    const box = frame.current!.getBoundingClientRect();
    if (cells === null) return;
    const column = Math.floor(((event.clientX - box.left - MARGIN.left) / inner.width) * cells.columns);
    const row = Math.floor((1 - (event.clientY - box.top - MARGIN.top) / inner.height) * cells.rows);
    setPointed(column < 0 || column >= cells.columns || row < 0 || row >= cells.rows ? null : { column, row });
  };
  const place = pointed ?? chosen;
  const isThere = cells !== null && place !== null && place.column < cells.columns && place.row < cells.rows;
  return (
    <div class="plot">
      <div
        class="plot-frame"
        ref={frame}
        tabIndex={0}
        role="application"
        aria-label={`${label}. Arrow keys read the cells, with shift they move, plus and minus zoom, 0 shows everything.`}
        onKeyDown={onKeyDown}
        onBlur={() => setChosen(null)}
        onMouseMove={onMove}
        onMouseLeave={() => setPointed(null)}
      >
        <canvas ref={canvas} role="img" aria-label={`${label}: heat map of ${drawing.points} points`} />
        {isThere && <div class="heat-cell" style={boxOf(cells, place, inner)} />}
        {selected !== null && (
          <div class="u-select" style={{ left: `${MARGIN.left + selected[0] * inner.width}px`, width: `${(selected[1] - selected[0]) * inner.width}px`, top: `${MARGIN.top}px`, height: `${inner.height}px` }} />
        )}
      </div>
      <Tools label={label} moves={moves} />
      <div class="heat-foot">
        {/* What the mouse passes over is not read out, only what keys choose. */}
        <p class="heat-said" aria-live={pointed === null ? "polite" : "off"}>
          {isThere ? words(cells, place) : "Point at a cell, or use the arrow keys."}
        </p>
        {cells !== null && cells.most > 0 && <Scale most={cells.most} />}
      </div>
    </div>
  );
}

function whole({ from, to }: Drawing): Range {
  if (!(from <= to)) return { from: Date.now() - 3_600_000, to: Date.now() };
  return { from, to: from === to ? to + 1000 : to };
}

const clamp = (i: number, count: number) => Math.min(Math.max(i, 0), count - 1);

function words(cells: Cells, { column, row }: Place): string {
  const { columns, rows, counts, from, to } = cells;
  const at = new Date(from + ((to - from) * (column + 0.5)) / columns).toISOString().slice(0, 19);
  const [begin, end] = [valueAt(cells, row / rows), valueAt(cells, (row + 1) / rows)];
  return `${at}Z · ${value(begin)} to ${value(end)} · ${plural(counts[column * rows + row], "point")}`;
}

function boxOf({ columns, rows }: Cells, { column, row }: Place, inner: Size): Record<string, string> {
  const [width, height] = [inner.width / columns, inner.height / rows];
  return {
    left: `${MARGIN.left + column * width}px`,
    top: `${MARGIN.top + inner.height - (row + 1) * height}px`,
    width: `${width}px`,
    height: `${height}px`,
  };
}

const SCALE_STEPS = 12;

/** What the colours mean. Their steps are those of a logarithm: a few points are seen beside many. */
function Scale({ most }: { most: number }) {
  const first = shareOf(1, most);
  const stops = Array.from({ length: SCALE_STEPS + 1 }, (_, i) => `rgb(${heat(first + ((1 - first) * i) / SCALE_STEPS).join(",")})`);
  return (
    <span class="heat-scale" role="img" aria-label={`Colours from dark, 1 point in a cell, to bright, ${plural(most, "point")}`}>
      <span>1</span>
      <span class="heat-colors" style={{ background: `linear-gradient(to right, ${stops.join(", ")})` }} />
      <span>{short(most)} in a cell</span>
    </span>
  );
}
