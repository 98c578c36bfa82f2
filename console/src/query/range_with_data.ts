// A range of time that has points, for who would see nothing otherwise: data of the past, such as the demonstration's.

import type { Answer } from "../data/frame";
import type { Language } from "../data/request";
import type { Range } from "../plot/range";
import { ask, askSql } from "../server/run";
import * as schema from "../server/schema";
import { measurementOf, sourceOf } from "./from_clause";
import { quoted } from "./plot_query";
import type { TimeRange } from "./variables";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** More fields are not asked for their first and last points. */
const FIELDS_MAX = 20;

/** The times of the first and the last point of some fields; null: there is none. */
export async function reachOf(database: string, source: string, fields: string[]): Promise<Range | null> {
  const statements = fields.slice(0, FIELDS_MAX).flatMap((field) => ["first", "last"].map((end) => `SELECT ${end}(${quoted(field)}) FROM ${source}`));
  return statements.length === 0 ? null : around(await ask(statements.join("; "), database));
}

/** The same of what a query reads. */
export async function reachOfQuery(language: Language, text: string, database: string): Promise<Range | null> {
  const [source, measurement] = [sourceOf(text), measurementOf(text)];
  if (source === null || measurement === null) return null;
  if (language === "sql") return around(await askSql(`SELECT min(time) AS first, max(time) AS last FROM ${source}`, database));
  const all = (await schema.fields(database, measurement)).map(({ name }) => name);
  const named = all.filter((field) => text.includes(field));
  return reachOf(database, source, named.length > 0 ? named : all);
}

/** The last hour or day if it has points, otherwise the last day that has some. */
export function newestOf({ from, to }: Range, now = Date.now()): TimeRange {
  if (now - to < HOUR_MS) return { last: "1h" };
  if (now - to < DAY_MS) return { last: "24h" };
  return { from: Math.max(from, to - DAY_MS), to: to + 1000 };
}

/** From the first to the last time in an answer. */
function around({ frames }: Answer): Range | null {
  const times = frames.flatMap(({ columns }) => columns.flatMap((column) => (column.kind === "time" ? [...column.ms] : [])));
  return times.length === 0 ? null : { from: Math.floor(Math.min(...times)), to: Math.floor(Math.max(...times)) };
}
