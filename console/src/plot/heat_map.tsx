// A heat map: how many points of all series lie in each range of values, over time.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { isDark } from "../ui/theme";
import { short, value } from "../ui/numbers";
import { heat } from "./colors";
import { lowerBound, type Drawing } from "./series";

const CELL_PIXELS = { width: 8, height: 10 };
const MARGIN = { left: 58, right: 8, top: 8, bottom: 34 };

interface Cells {
  columns: number;
  rows: number;
  counts: Uint32Array;
  most: number;
  low: number;
  high: number;
}

export function HeatMap({ drawing, label }: { drawing: Drawing; label: string }) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [said, setSaid] = useState("");
  const cells = useRef<Cells | null>(null);
  const dark = isDark.value;

  useLayoutEffect(() => {
    const element = frame.current!;
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (size.width < 120 || size.height < 80 || !(drawing.from <= drawing.to)) return;
    const inner = { width: size.width - MARGIN.left - MARGIN.right, height: size.height - MARGIN.top - MARGIN.bottom };
    const columns = Math.max(1, Math.floor(inner.width / CELL_PIXELS.width));
    const rows = Math.max(1, Math.floor(inner.height / CELL_PIXELS.height));
    const counted = count(drawing, columns, rows);
    cells.current = counted;
    paint(canvas.current!, counted, drawing, size, inner);
  }, [drawing, size.width, size.height, dark]);

  const onMove = (event: MouseEvent) => {
    const found = cells.current;
    const box = canvas.current!.getBoundingClientRect();
    if (found === null) return;
    const column = Math.floor(((event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right)) * found.columns);
    const row = Math.floor((1 - (event.clientY - box.top - MARGIN.top) / (box.height - MARGIN.top - MARGIN.bottom)) * found.rows);
    if (column < 0 || column >= found.columns || row < 0 || row >= found.rows) return setSaid("");
    const at = drawing.from + ((drawing.to - drawing.from) * (column + 0.5)) / found.columns;
    const step = (found.high - found.low) / found.rows;
    const from = found.low + row * step;
    setSaid(`${new Date(at).toISOString().slice(0, 19)}Z · ${value(from)} to ${value(from + step)} · ${value(found.counts[column * found.rows + row])} points`);
  };

  return (
    <div class="plot">
      <div class="plot-frame" ref={frame}>
        <canvas ref={canvas} role="img" aria-label={`${label}: heat map of ${drawing.points} points`} onMouseMove={onMove} onMouseLeave={() => setSaid("")} />
      </div>
      <p class="heat-said">{said || "Brighter: more points. Move over a cell to read it."}</p>
    </div>
  );
}

function count({ series, from, to }: Drawing, columns: number, rows: number): Cells {
  let low = Infinity;
  let high = -Infinity;
  for (const { values } of series) {
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low === high) high = low + 1;
  const counts = new Uint32Array(columns * rows);
  let most = 0;
  const width = (to - from) / columns || 1;
  const height = (high - low) / rows;
  for (const { ms, values } of series) {
    for (let i = lowerBound(ms, from); i < ms.length; i++) {
      if (Number.isNaN(values[i])) continue;
      const column = Math.min(columns - 1, Math.floor((ms[i] - from) / width));
      const row = Math.min(rows - 1, Math.floor((values[i] - low) / height));
      const place = column * rows + row;
      most = Math.max(most, ++counts[place]);
    }
  }
  return { columns, rows, counts, most, low, high };
}

function paint(
  canvas: HTMLCanvasElement,
  cells: Cells,
  { from, to }: Drawing,
  size: { width: number; height: number },
  inner: { width: number; height: number },
): void {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = size.width * ratio;
  canvas.height = size.height * ratio;
  canvas.style.width = `${size.width}px`;
  canvas.style.height = `${size.height}px`;
  const context = canvas.getContext("2d")!;
  context.scale(ratio, ratio);
  const cell = { width: inner.width / cells.columns, height: inner.height / cells.rows };
  for (let column = 0; column < cells.columns; column++) {
    for (let row = 0; row < cells.rows; row++) {
      const counted = cells.counts[column * cells.rows + row];
      if (counted === 0) continue;
      const share = Math.log1p(counted) / Math.log1p(cells.most);
      context.fillStyle = `rgb(${heat(share).join(",")})`;
      const y = MARGIN.top + inner.height - (row + 1) * cell.height;
      context.fillRect(MARGIN.left + column * cell.width, y, cell.width - 0.5, cell.height - 0.5);
    }
  }
  const css = getComputedStyle(document.documentElement);
  context.fillStyle = css.getPropertyValue("--muted").trim();
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let i = 0; i <= 4; i++) {
    context.fillText(short(cells.low + ((cells.high - cells.low) * i) / 4), MARGIN.left - 8, MARGIN.top + inner.height * (1 - i / 4));
  }
  context.textBaseline = "top";
  const labels = Math.max(1, Math.floor(inner.width / 150));
  for (let i = 0; i <= labels; i++) {
    const at = new Date(from + ((to - from) * i) / labels).toISOString();
    context.textAlign = i === 0 ? "left" : i === labels ? "right" : "center";
    context.fillText(at.slice(11, 19), MARGIN.left + (inner.width * i) / labels, size.height - MARGIN.bottom + 6);
    context.fillText(at.slice(0, 10), MARGIN.left + (inner.width * i) / labels, size.height - MARGIN.bottom + 20);
  }
}
