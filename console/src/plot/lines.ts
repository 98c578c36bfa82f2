// How lines are drawn: in strokes of few points each. A browser that draws without a graphics card sorts all edges of a stroke
// that share a height, so that one stroke of two thousand points that go up and down takes fifteen times as long as its parts.

import uPlot from "uplot";
import type { Row } from "./decimate";

/** Of a stroke. With fewer, the strokes themselves begin to cost; with more, their edges. */
const STROKE_POINTS = 32;
/** A stroke that is so many times as long as wide fills the plot: its dashes are not seen, and take longer than all of it. */
const DASHED_MAX = 20;

/** uPlot is told that there is nothing to draw, because it knows one stroke per series only; `strokeLines` draws after it. */
export const noPaths: uPlot.Series.PathBuilder = () => null;

/**
 * Draws the lines of the series. uPlot dims all but the one at the mouse by their opacity; here they get a duller colour instead,
 * because strokes that are seen through would show where they meet. The one at the mouse is drawn above them.
 */
export function strokeLines(plot: uPlot, color: (series: number, isDimmed: boolean) => string): void {
  const shown = plot.series.map((_, index) => index).filter((index) => index > 0 && plot.series[index].show !== false);
  const isDimmed = (index: number) => (plot.series[index].alpha ?? 1) < 1;
  for (const index of shown) if (isDimmed(index)) strokeLine(plot, index, color(index - 1, true));
  for (const index of shown) if (!isDimmed(index)) strokeLine(plot, index, color(index - 1, false));
}

function strokeLine(plot: uPlot, index: number, stroke: string): void {
  const { ctx, bbox, data } = plot;
  const { width = 1, dash = [] } = plot.series[index];
  const pixels = width * uPlot.pxRatio;
  const x = (i: number) => plot.valToPos(data[0][i], "x", true);
  const y = (i: number) => plot.valToPos(data[index][i]!, "y", true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - pixels / 2, bbox.top - pixels / 2, bbox.width + pixels, bbox.height + pixels);
  ctx.clip();
  // As uPlot moves what it draws, fillings of areas too, so that a line of whole pixels has sharp edges.
  ctx.translate((pixels % 2) / 2, (pixels % 2) / 2);
  Object.assign(ctx, { strokeStyle: stroke, lineWidth: pixels, lineJoin: "round", lineCap: dash.length === 0 ? "round" : "butt" });
  for (const run of runs(data[index] as Row)) {
    const xs = run.map(x);
    const ys = run.map(y);
    let length = 0;
    for (let first = 0; first === 0 || first < run.length - 1; first += STROKE_POINTS - 1) {
      // Each stroke begins where the one before ends, and so do its dashes.
      const last = Math.min(first + STROKE_POINTS, run.length) - 1;
      ctx.lineDashOffset = length;
      const begun = length;
      ctx.beginPath();
      ctx.moveTo(xs[first], ys[first]);
      for (let i = first + 1; i <= last; i++) {
        ctx.lineTo(xs[i], ys[i]);
        length += Math.hypot(xs[i] - xs[i - 1], ys[i] - ys[i - 1]);
      }
      ctx.setLineDash(length - begun > DASHED_MAX * (xs[last] - xs[first]) ? [] : dash);
      ctx.stroke();
    }
  }
  ctx.restore();
}

/** The places of the values that a line connects: null parts them, and what is undefined is skipped. */
export function runs(values: Row): number[][] {
  const found: number[][] = [[]];
  values.forEach((value, i) => {
    if (value === null) found.push([]);
    else if (value !== undefined) found.at(-1)!.push(i);
  });
  return found.filter((run) => run.length > 0);
}
