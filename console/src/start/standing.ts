// What somebody who takes the first steps may do, and what is there already.

import { forget, texts } from "../server/once";
import { name as quoted } from "../server/quoting";
import { grantOf, rightsOn } from "../server/rights";
import { ask } from "../server/run";
import { isAdmin } from "../server/session";
import { MEASUREMENT } from "./snippets";

/** The database of the examples. */
const DATABASE = "home";
/** More databases are not looked through. */
const LOOKED_MAX = 20;

export interface Standing {
  /** Where the example is written; null: nowhere. */
  database: string | null;
  /** Whether it has to be created first, and may be. */
  isMissing: boolean;
  mayCreate: boolean;
  /** What is missing, and the statement that an administrator gives it by. */
  lacks: { words: string; statement: string } | null;
  /** How many points of the example are there. */
  points: number;
  /** Other points that can be plotted. */
  other: { database: string; measurement: string } | null;
}

/** Asks for nothing that is refused. */
export async function standing(): Promise<Standing> {
  const names = texts((await ask("SHOW DATABASES")).frames[0], "name").filter((name) => name !== "_internal");
  const looked = names.slice(0, LOOKED_MAX);
  const rights = await Promise.all(looked.map(rightsOn));
  const readable = looked.filter((_, i) => rights[i].reads);
  const writable = looked.filter((_, i) => rights[i].writes);
  const mayCreate = isAdmin.value === true;
  const both = writable.filter((name) => readable.includes(name));
  const database = mayCreate || both.includes(DATABASE) ? DATABASE : (both[0] ?? writable[0] ?? null);
  const isRead = database !== null && readable.includes(database);
  const points = isRead ? await examples(database) : 0;
  const lacks = mayCreate ? null : lacking(names, database, isRead);
  // What is missing may be granted while the page waits for it.
  if (lacks !== null) forget();
  const isMissing = database !== null && !names.includes(database);
  return { database, isMissing, mayCreate, lacks, points, other: points > 0 ? null : await otherPoints(readable) };
}

function lacking(names: string[], database: string | null, isRead: boolean): Standing["lacks"] {
  if (names.length === 0) {
    const words = "Your user has no grant, so it sees no database. Ask an administrator to run this, with a database of your choice:";
    return { words, statement: `CREATE DATABASE ${quoted(DATABASE)}; ${grantOf("ALL", DATABASE)}` };
  }
  if (database === null) {
    const words = `Your user may read ${names.length === 1 ? `“${names[0]}”` : "what it sees"}, but write nowhere. To write, ask an administrator to run this:`;
    return { words, statement: grantOf("ALL", names[0]) };
  }
  if (isRead) return null;
  return { words: `Your user may write to “${database}”, but not read it, so nothing can be plotted. Ask an administrator to run this:`, statement: grantOf("ALL", database) };
}

/** The points of the example that are there. */
async function examples(database: string): Promise<number> {
  const { frames } = await ask(`SELECT count(celsius) FROM ${MEASUREMENT}`, database);
  const column = frames[0]?.columns.find(({ name }) => name === "count");
  return column?.kind === "number" ? column.values[0] : 0;
}

/** A measurement of a database, such as Telegraf's. */
async function otherPoints(databases: string[]): Promise<Standing["other"]> {
  for (const database of databases) {
    const [measurement] = texts((await ask(`SHOW MEASUREMENTS ON ${quoted(database)} LIMIT 1`)).frames[0], "name");
    if (measurement !== undefined) return { database, measurement };
  }
  return null;
}
