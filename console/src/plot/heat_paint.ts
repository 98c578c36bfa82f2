// Draws a heat map: its cells, and its axes.

import { short } from "../ui/numbers";
import { heat } from "./colors";
import { shareOf, valueAt, type Cells } from "./heat_cells";

export interface Size {
  width: number;
  height: number;
}

/** Where the axes are. */
export const MARGIN = { left: 58, right: 8, top: 8, bottom: 34 };

export function paint(canvas: HTMLCanvasElement, cells: Cells, size: Size, inner: Size): void {
  const { from, to } = cells;
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
      context.fillStyle = `rgb(${heat(shareOf(counted, cells.most)).join(",")})`;
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
    context.fillText(short(valueAt(cells, i / 4)), MARGIN.left - 8, MARGIN.top + inner.height * (1 - i / 4));
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
