// What there is: databases, policies, measurements, fields, tags. Asked for when needed, and kept until something changes.

import { cell, type Answer, type Frame } from "../data/frame";
import { name, sqlText } from "./quoting";
import { ask, askSql } from "./run";

export interface Field {
  name: string;
  type: string;
}

const kept = new Map<string, Promise<unknown>>();

/** Forgets everything: after changes, or for another user. */
export const forget = () => kept.clear();

function once<T>(key: string, load: () => Promise<T>): Promise<T> {
  let found = kept.get(key) as Promise<T> | undefined;
  if (found === undefined) {
    found = load();
    kept.set(key, found);
    found.catch(() => kept.delete(key));
  }
  return found;
}

/** The cells of a column, as texts. */
export function texts(frame: Frame | undefined, column: string): string[] {
  const found = frame?.columns.find((c) => c.name === column);
  return found === undefined || frame === undefined ? [] : Array.from({ length: frame.rows }, (_, row) => cell(found, row));
}

/** The rows of a frame as objects of texts. */
export function records(frame: Frame | undefined): Record<string, string>[] {
  if (frame === undefined) return [];
  return Array.from({ length: frame.rows }, (_, row) =>
    Object.fromEntries(frame.columns.map((column) => [column.name, cell(column, row)])),
  );
}

const first = (answer: Answer, column: string) => texts(answer.frames[0], column);

export const databases = () => once("databases", async () => first(await ask("SHOW DATABASES"), "name"));

export const policies = (database: string) =>
  once(`policies ${database}`, async () =>
    records((await ask(`SHOW RETENTION POLICIES ON ${name(database)}`)).frames[0]),
  );

export const measurements = (database: string) =>
  once(`measurements ${database}`, async () => first(await ask(`SHOW MEASUREMENTS ON ${name(database)}`), "name"));

export const fields = (database: string, measurement: string) =>
  once(`fields ${database}\n${measurement}`, async (): Promise<Field[]> => {
    const answer = await ask(`SHOW FIELD KEYS ON ${name(database)} FROM ${name(measurement)}`);
    return records(answer.frames[0]).map((row) => ({ name: row.fieldKey, type: row.fieldType }));
  });

export const tags = (database: string, measurement: string) =>
  once(`tags ${database}\n${measurement}`, async () =>
    first(await ask(`SHOW TAG KEYS ON ${name(database)} FROM ${name(measurement)}`), "tagKey"),
  );

/** The first values of a tag. */
export const tagValues = (database: string, measurement: string, tag: string) =>
  once(`values ${database}\n${measurement}\n${tag}`, async () => {
    const from = `SHOW TAG VALUES ON ${name(database)} FROM ${name(measurement)}`;
    return first(await ask(`${from} WITH KEY = ${name(tag)} LIMIT 200`), "value");
  });

/** Estimates of cardinality: what the server can say without listing. */
export async function cardinality(database: string, measurement?: string): Promise<number | null> {
  const from = measurement === undefined ? "" : ` FROM ${name(measurement)}`;
  const answer = await ask(`SHOW SERIES CARDINALITY ON ${name(database)}${from}`);
  const column = answer.frames[0]?.columns.find((c) => c.kind === "number");
  return column?.kind === "number" ? column.values[0] : null;
}

/** What SQL can read beside measurements: tables and views. */
export const tables = (database: string) =>
  once(`tables ${database}`, async () => {
    const query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY table_name LIMIT 1000";
    return first(await askSql(query, database), "table_name");
  });

/** The columns of a table or measurement, as SQL sees them. */
export const columns = (database: string, table: string) =>
  once(`columns ${database}\n${table}`, async (): Promise<Field[]> => {
    const query = `SELECT column_name, data_type FROM information_schema.columns WHERE table_name = ${sqlText(table)} ORDER BY ordinal_position LIMIT 1000`;
    const answer = await askSql(query, database);
    return records(answer.frames[0]).map((row) => ({ name: row.column_name, type: row.data_type }));
  });
