// Variables of queries: the range that is shown, and an interval that suits it. With them a zoom asks the server again.

import type { Language } from "../data/request";
import type { Range } from "../plot/plot";

/** How far back, or from when to when (milliseconds since 1970). */
export type TimeRange = { last: string } | Range;

export const PRESETS: [string, string][] = [
  ["5m", "5 minutes"],
  ["15m", "15 minutes"],
  ["1h", "hour"],
  ["6h", "6 hours"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["365d", "year"],
];

const UNITS_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The range in times of day. */
export function resolve(range: TimeRange): Range {
  if (!("last" in range)) return range;
  const match = /^(\d+)([mhd])$/.exec(range.last);
  const length = match === null ? UNITS_MS.h : Number(match[1]) * UNITS_MS[match[2]];
  const now = Date.now();
  return { from: now - length, to: now };
}

/** Steps that people expect on an axis of time, in milliseconds. */
const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000,
  1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000, 604_800_000, 2_592_000_000,
];
/** Points of a series that a plot of usual width shows well. */
const POINTS = 360;

export function intervalMs({ from, to }: Range): number {
  const wanted = (to - from) / POINTS;
  return STEPS_MS.find((step) => step >= wanted) ?? STEPS_MS.at(-1)!;
}

function interval(ms: number, language: Language): string {
  const units: [number, string, string][] = [
    [86_400_000, "d", "days"],
    [3_600_000, "h", "hours"],
    [60_000, "m", "minutes"],
    [1000, "s", "seconds"],
    [1, "ms", "milliseconds"],
  ];
  const [size, short, long] = units.find(([size]) => ms % size === 0)!;
  return language === "sql" ? `interval '${ms / size} ${long}'` : `${ms / size}${short}`;
}

export interface Substituted {
  text: string;
  /** Where in the original text a position of the substituted one is. */
  original(position: number): number;
}

const VARIABLE = /\$(timeFilter|interval|from|to)\b/g;

export const usesVariables = (text: string) => new RegExp(VARIABLE).test(text);

/** Puts the range in the place of the variables. */
export function substitute(text: string, language: Language, range: TimeRange): Substituted {
  const { from, to } = resolve(range);
  const at = (ms: number) => `'${new Date(ms).toISOString()}'`;
  const values: Record<string, string> = {
    timeFilter: `time >= ${at(from)} AND time <= ${at(to)}`,
    interval: interval(intervalMs({ from, to }), language),
    from: at(from),
    to: at(to),
  };
  const moves: { end: number; by: number; begin: number; original: number }[] = [];
  let by = 0;
  const substituted = text.replace(VARIABLE, (whole, variable: string, offset: number) => {
    const begin = offset + by;
    by += values[variable].length - whole.length;
    moves.push({ begin, end: begin + values[variable].length, by, original: offset });
    return values[variable];
  });
  const original = (position: number) => {
    let result = position;
    for (const move of moves) {
      if (position >= move.end) result = position - move.by;
      else if (position >= move.begin) result = move.original;
    }
    return result;
  };
  return { text: substituted, original };
}
