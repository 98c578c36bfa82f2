// How bars that stand on each other are filled: from a base of their own, which uPlot's do not know.

import type uPlot from "uplot";
import type { Row } from "./decimate";

/** A bar is so much of the room that it has, and at most so many pixels wide. */
const BAR = { share: 0.8, pixels: 60 };

/** A bar from a base to each value. */
export function barPaths(base: Row): uPlot.Series.PathBuilder {
  return (plot, index) => {
    const [times, tops] = [plot.data[0], plot.data[index]];
    const middles = Array.from(times, (at) => plot.valToPos(at, "x", true));
    const room = middles.reduce((least, x, i) => (i === 0 ? least : Math.min(least, x - middles[i - 1])), Infinity);
    const width = Math.max(1, Math.min(Math.floor(room * BAR.share), BAR.pixels * devicePixelRatio));
    const fill = new Path2D();
    for (let i = 0; i < times.length; i++) {
      const top = tops[i];
      if (top === null || top === undefined) continue;
      const [from, to] = [Math.round(plot.valToPos(base[i]!, "y", true)), Math.round(plot.valToPos(top, "y", true))];
      fill.rect(Math.round(middles[i] - width / 2), Math.min(from, to), width, Math.abs(from - to));
    }
    return { stroke: null, fill };
  };
}
