// Where dashboards are: in a table of SQL of the database that they show. So who may read the database sees its dashboards,
// who may write to it changes them, and a backup has them. Each has a version, so that nobody overwrites what another has
// saved meanwhile.

import { cell } from "../data/frame";
import type { Language } from "../data/request";
import type { View } from "../query/views";
import { sqlText } from "../server/quoting";
import { needsRead } from "../server/rights";
import { askSql, QueryError } from "../server/run";

export interface Panel {
  title: string;
  language: Language;
  text: string;
  view: View;
  size: "narrow" | "half" | "wide";
}

export interface Dashboard {
  name: string;
  version: number;
  panels: Panel[];
  /** The range that it opens with, such as `1h`; or from when to when. */
  range: Record<string, string>;
}

const TABLE = "nyala_dashboards";
const CREATE = `CREATE TABLE IF NOT EXISTS ${TABLE} (name text PRIMARY KEY, version bigint NOT NULL, definition text NOT NULL)`;
const UNKNOWN_TABLE = "42P01";

/** The dashboards of a database. */
export async function dashboards(database: string): Promise<Dashboard[]> {
  await needsRead(database);
  try {
    const { frames } = await askSql(`SELECT name, version, definition FROM ${TABLE} ORDER BY name`, database);
    const [frame] = frames;
    return Array.from({ length: frame?.rows ?? 0 }, (_, row) => {
      const [name, version, definition] = frame.columns.map((column) => cell(column, row));
      return { ...read(definition), name, version: Number(version) };
    });
  } catch (error) {
    if (error instanceof QueryError && error.failure.code === UNKNOWN_TABLE) return [];
    throw error;
  }
}

/** Saves a dashboard, and gives its new version. */
export async function save(database: string, { name, version, panels, range }: Dashboard): Promise<number> {
  const definition = sqlText(JSON.stringify({ panels, range }));
  if (version === 0) {
    await askSql(CREATE, database);
    const insert = `INSERT INTO ${TABLE} VALUES (${sqlText(name)}, 1, ${definition}) ON CONFLICT (name) DO NOTHING`;
    if ((await changed(insert, database)) === 0) throw new Error(`There is a dashboard "${name}" already.`);
    return 1;
  }
  const update = `UPDATE ${TABLE} SET version = ${version + 1}, definition = ${definition} WHERE name = ${sqlText(name)} AND version = ${version}`;
  if ((await changed(update, database)) === 0) {
    throw new Error("Somebody else has saved or dropped this dashboard meanwhile. Open it again to see what it is now.");
  }
  return version + 1;
}

export async function drop(database: string, name: string): Promise<void> {
  await askSql(`DELETE FROM ${TABLE} WHERE name = ${sqlText(name)}`, database);
}

async function changed(statement: string, database: string): Promise<number> {
  const { frames } = await askSql(statement, database);
  const column = frames[0]?.columns.find(({ name }) => name === "rows_affected");
  return column === undefined ? 0 : Number(cell(column, 0));
}

const VIEWS: readonly string[] = ["line", "area", "bars", "heat", "value", "table"];

/** What a definition says. Anybody who may write to the database can have written it, so nothing is taken on trust. */
function read(definition: string): Pick<Dashboard, "panels" | "range"> {
  try {
    const { panels, range } = JSON.parse(definition) as { panels?: unknown; range?: unknown };
    return { panels: Array.isArray(panels) ? panels.flatMap(panel) : [], range: texts(range) };
  } catch {
    return { panels: [], range: {} };
  }
}

function panel(of: unknown): Panel[] {
  if (typeof of !== "object" || of === null) return [];
  const { title, language, text, view, size } = of as Record<string, unknown>;
  if (typeof text !== "string") return [];
  return [
    {
      title: typeof title === "string" ? title : "",
      language: language === "sql" ? "sql" : "influxql",
      text,
      view: VIEWS.includes(view as string) ? (view as View) : "line",
      size: size === "narrow" || size === "wide" ? size : "half",
    },
  ];
}

const texts = (of: unknown): Record<string, string> =>
  typeof of === "object" && of !== null
    ? Object.fromEntries(Object.entries(of).filter((entry): entry is [string, string] => typeof entry[1] === "string"))
    : {};
