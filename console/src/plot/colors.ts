// Colours that all eyes tell apart, in a lighter and a darker set for the two themes: for people who lack one of the three
// kinds of cones, too, no two are nearer than a fifteenth of the way from black to white (in Oklab, cones by Machado and others).
// Each stands out from its ground by 4.5 to 1. Beyond nine, series differ by their dashes too.

const DARK = ["#1e81fd", "#e69f05", "#1dd19d", "#bc7149", "#c198ff", "#fbff17", "#8d90b7", "#b6fcde", "#e2beff"];
const LIGHT = ["#0078cb", "#a06c0b", "#0e5243", "#9d145a", "#5c37fa", "#7f500e", "#026386", "#7a7670", "#3204d1"];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];

export const color = (i: number, dark: boolean) => (dark ? DARK : LIGHT)[i % DARK.length];
export const dash = (i: number) => DASHES[Math.floor(i / DARK.length) % DASHES.length];

/** How dense the fillings of the first, second, … round of colours are: of bars, which hide nothing, and of areas. */
const DENSITIES = { bars: ["ff", "8c", "59", "c0"], areas: ["8c", "4d", "b8", "2e"] };
export function fill(i: number, dark: boolean, isBar: boolean): string {
  const round = Math.floor(i / DARK.length) % DASHES.length;
  return color(i, dark) + DENSITIES[isBar ? "bars" : "areas"][round];
}

/** A colour of which so much is left on a ground. */
export function dulled(color: string, ground: string, share: number): string {
  const grounds = parts(ground);
  return `#${parts(color).map((part, i) => Math.round(part * share + grounds[i] * (1 - share)).toString(16).padStart(2, "0")).join("")}`;
}

/** A colour such as `#1e81fd8c` as a pixel of an image has it (on machines of low byte first, as all browsers run on), with so much of its density. */
export function packed(color: string, share = 1): number {
  const [red, green, blue, alpha = 255] = parts(color);
  return ((Math.round(alpha * share) << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

const parts = (color: string) => color.slice(1).match(/../g)!.map((digits) => parseInt(digits, 16));

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
