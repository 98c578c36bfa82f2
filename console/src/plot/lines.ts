// How lines and areas are drawn. Lines of few points are strokes of the browser, of few points each: a browser that draws without
// a graphics card sorts all edges of a stroke that share a height, so that one stroke of two thousand points that go up and down
// takes fifteen times as long as its parts. Lines of many points, and areas, are spans of pixels (`spans.ts`).

import uPlot from "uplot";
import { packed } from "./colors";
import { view, type View } from "./decimate";
import { Raster } from "./raster";
import { dashed, spansOf, thickened, type Scale, type Spans } from "./spans";

/** With more points in all series, lines are spans. */
const STROKED_MAX = 8_000;
/** Of a stroke. With fewer, the strokes themselves begin to cost; with more, their edges. */
const STROKE_POINTS = 32;
/** A line that is so many times as long as wide fills the plot: its dashes are not seen, and take longer than all of it. */
const DASHED_MAX = 20;

/** uPlot is told that there is nothing to draw, because it knows one stroke per series only; `drawLines` draws after it. */
export const noPaths: uPlot.Series.PathBuilder = () => null;

/**
 * Draws the lines of the series, from all of their points: uPlot has only what could be told apart before a finger moved them. uPlot
 * dims all but the one at the mouse by their opacity; here they get a duller colour instead, because strokes that are seen through
 * would show where they meet. The one at the mouse is drawn above them.
 */
export function drawLines(plot: uPlot, lines: View[], color: (series: number, isDimmed: boolean) => string): void {
  const isDimmed = (index: number) => (plot.series[index].alpha ?? 1) < 1;
  const indices = shown(plot);
  const ordered = [...indices.filter(isDimmed), ...indices.filter((index) => !isDimmed(index))];
  const { ctx } = plot;
  const pixels = WIDTH * uPlot.pxRatio;
  clipped(plot, pixels / 2, () => {
    const points = ordered.reduce((sum, index) => sum + seen(plot, lines[index - 1]).ms.length, 0);
    if (points > STROKED_MAX) {
      const raster = new Raster(plot.bbox);
      for (const index of ordered) spanLine(plot, raster, lines[index - 1], index, color(index - 1, isDimmed(index)));
      raster.draw(ctx);
    } else {
      // As uPlot moves what it draws, so that a line of whole pixels has sharp edges.
      ctx.translate((pixels % 2) / 2, (pixels % 2) / 2);
      for (const index of ordered) strokeLine(plot, lines[index - 1], index, color(index - 1, isDimmed(index)));
    }
  });
}

/** Fills the areas between the lines and what they stand on. No two of them share a pixel. */
export function fillAreas(plot: uPlot, lines: View[], bases: View[], color: (series: number) => string): void {
  const raster = new Raster(plot.bbox);
  for (const index of shown(plot)) {
    const top = spans(plot, raster, lines[index - 1]);
    const base = spans(plot, raster, bases[index - 1]);
    const filled = packed(color(index - 1), plot.series[index].alpha);
    for (let column = 0; column < raster.width; column++) {
      if (top.tops[column] <= top.bottoms[column]) raster.fill(column, middle(base, column), middle(top, column), filled);
    }
  }
  clipped(plot, 0, () => raster.draw(plot.ctx));
}

/** Of lines, in pixels of the page. */
export const WIDTH = 1.6;

/** Draws within the plot, and so many pixels beyond. */
function clipped({ ctx, bbox }: uPlot, beyond: number, draw: () => void): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - beyond, bbox.top - beyond, bbox.width + 2 * beyond, bbox.height + 2 * beyond);
  ctx.clip();
  draw();
  ctx.restore();
}

const middle = ({ tops, bottoms }: Spans, column: number) => (tops[column] + bottoms[column]) / 2;

const shown = (plot: uPlot) => plot.series.map((_, index) => index).filter((index) => index > 0 && plot.series[index].show !== false);

/** The part of a line that the plot shows. */
const seen = (plot: uPlot, line: View) => view(line, plot.scales.x.min ?? 0, plot.scales.x.max ?? 0);

/** Where on the canvas times or values are. */
function scaleOf(plot: uPlot, name: "x" | "y"): Scale {
  const [from, to] = [plot.scales[name].min ?? 0, plot.scales[name].max ?? 1];
  const at = plot.valToPos(from, name, true);
  return { from, at, by: (plot.valToPos(to, name, true) - at) / (to - from) };
}

/** What was made of lines for the plots that show them. */
const made = new WeakMap<View, { of: string; spans: Spans }>();

/** The spans of a line, which stay the same while the mouse only passes over it. */
function spans(plot: uPlot, raster: Raster, line: View): Spans {
  const [across, down] = [scaleOf(plot, "x"), scaleOf(plot, "y")];
  const of = JSON.stringify([across, down, raster.x(0), raster.y(0), raster.width]);
  const known = made.get(line);
  if (known?.of === of) return known.spans;
  const found = spansOf(seen(plot, line), { ...across, at: raster.x(across.at) }, { ...down, at: raster.y(down.at) }, raster.width);
  made.set(line, { of, spans: found });
  return found;
}

function spanLine(plot: uPlot, raster: Raster, line: View, index: number, color: string): void {
  const thin = spans(plot, raster, line);
  const isDrawn = dashed(thin, plot.series[index].dash ?? [], DASHED_MAX);
  const { tops, bottoms } = thickened(thin, (WIDTH * uPlot.pxRatio) / 2);
  const pixel = packed(color);
  for (let column = 0; column < raster.width; column++) if (isDrawn[column] === 1) raster.span(column, tops[column], bottoms[column], pixel);
}

function strokeLine(plot: uPlot, line: View, index: number, stroke: string): void {
  const { ctx } = plot;
  const { ms, values } = seen(plot, line);
  const { dash = [] } = plot.series[index];
  const [across, down] = [scaleOf(plot, "x"), scaleOf(plot, "y")];
  Object.assign(ctx, { strokeStyle: stroke, lineWidth: WIDTH * uPlot.pxRatio, lineJoin: "round", lineCap: dash.length === 0 ? "round" : "butt" });
  for (const run of runs(values)) {
    const xs = run.map((i) => across.at + (ms[i] - across.from) * across.by);
    const ys = run.map((i) => down.at + (values[i] - down.from) * down.by);
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
}

/** The places of the values that a line connects, which NaN parts. */
export function runs(values: Float64Array): number[][] {
  const found: number[][] = [[]];
  values.forEach((value, i) => {
    if (Number.isNaN(value)) found.push([]);
    else found.at(-1)!.push(i);
  });
  return found.filter((run) => run.length > 0);
}
