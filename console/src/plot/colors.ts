// Colours that colour-blind people tell apart (after Okabe and Ito), in a lighter and a darker set for the two themes. Beyond
// nine, series differ by their dashes too.

const DARK = ["#57b6f0", "#f0a63c", "#2fc39a", "#f07a4f", "#dd93c4", "#e8df5a", "#9fb3ff", "#c9ced6", "#7755ff"];
const LIGHT = ["#0067a8", "#a86200", "#007a58", "#b84300", "#a6407f", "#746b00", "#4a55b8", "#4c5561", "#2200cc"];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];

export const color = (i: number, dark: boolean) => (dark ? DARK : LIGHT)[i % DARK.length];
export const dash = (i: number) => DASHES[Math.floor(i / DARK.length) % DASHES.length];

/** How dense the fillings of the first, second, … round of colours are: of bars, which hide nothing, and of areas. */
const DENSITIES = { bars: ["ff", "8c", "59", "c0"], areas: ["8c", "4d", "b8", "2e"] };
export function fill(i: number, dark: boolean, isBar: boolean): string {
  const round = Math.floor(i / DARK.length) % DASHES.length;
  return color(i, dark) + DENSITIES[isBar ? "bars" : "areas"][round];
}

/** From dark to light, even in steps of lightness for every eye (after cividis). */
const HEAT: [number, number, number][] = [
  [0, 34, 78],
  [53, 69, 108],
  [102, 105, 112],
  [148, 142, 119],
  [200, 184, 102],
  [254, 232, 56],
];

/** The colour of a share between 0 and 1. */
export function heat(share: number): [number, number, number] {
  const at = Math.min(Math.max(share, 0), 1) * (HEAT.length - 1);
  const low = Math.min(Math.floor(at), HEAT.length - 2);
  const part = at - low;
  return HEAT[low].map((c, i) => Math.round(c + (HEAT[low + 1][i] - c) * part)) as [number, number, number];
}
