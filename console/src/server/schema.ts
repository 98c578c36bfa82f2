// What there is: databases, policies, measurements, fields, tags. Asked for when needed, and kept until something changes.

import type { Answer } from "../data/frame";
import { forget, once, records, texts } from "./once";
import { name, sqlText } from "./quoting";
import { needsRead } from "./rights";
import { ask, askSql } from "./run";

export { forget, records, texts };

export interface Field {
  name: string;
  type: string;
}

const first = (answer: Answer, column: string) => texts(answer.frames[0], column);

/** The answer to a statement that needs READ on a database. */
async function reading(database: string, statement: string): Promise<Answer> {
  await needsRead(database);
  return ask(statement);
}

export const databases = () => once("databases", async () => first(await ask("SHOW DATABASES"), "name"));

export const policies = (database: string) =>
  once(`policies ${database}`, async () =>
    records((await reading(database, `SHOW RETENTION POLICIES ON ${name(database)}`)).frames[0]),
  );

export const measurements = (database: string) =>
  once(`measurements ${database}`, async () => first(await reading(database, `SHOW MEASUREMENTS ON ${name(database)}`), "name"));

export const fields = (database: string, measurement: string) =>
  once(`fields ${database}\n${measurement}`, async (): Promise<Field[]> => {
    const answer = await reading(database, `SHOW FIELD KEYS ON ${name(database)} FROM ${name(measurement)}`);
    return records(answer.frames[0]).map((row) => ({ name: row.fieldKey, type: row.fieldType }));
  });

/** Beyond so many measurements, and fields of one, no fields are offered to who has named no measurement yet. */
const LOOKED_MAX = { measurements: 200, fields: 50 };

/** The fields of all measurements of a database, up to a bound, each with the measurements that have it. */
export const allFields = (database: string) =>
  once(`all fields ${database}`, async (): Promise<(Field & { measurements: string[] })[]> => {
    const looked = (await measurements(database)).slice(0, LOOKED_MAX.measurements);
    if (looked.length === 0) return [];
    const from = looked.map(name).join(", ");
    const { frames } = await reading(database, `SHOW FIELD KEYS ON ${name(database)} FROM ${from} LIMIT ${LOOKED_MAX.fields}`);
    const found = new Map<string, Field & { measurements: string[] }>();
    for (const frame of frames) {
      for (const { fieldKey, fieldType } of records(frame)) {
        const field = found.get(fieldKey) ?? { name: fieldKey, type: fieldType, measurements: [] };
        found.set(fieldKey, field);
        field.measurements.push(frame.name);
      }
    }
    return [...found.values()];
  });

export const tags = (database: string, measurement: string) =>
  once(`tags ${database}\n${measurement}`, async () =>
    first(await reading(database, `SHOW TAG KEYS ON ${name(database)} FROM ${name(measurement)}`), "tagKey"),
  );

/** The first values of a tag. */
export const tagValues = (database: string, measurement: string, tag: string) =>
  once(`values ${database}\n${measurement}\n${tag}`, async () => {
    const from = `SHOW TAG VALUES ON ${name(database)} FROM ${name(measurement)}`;
    return first(await reading(database, `${from} WITH KEY = ${name(tag)} LIMIT 200`), "value");
  });

/** Estimates of cardinality: what the server can say without listing. */
export async function cardinality(database: string, measurement?: string): Promise<number | null> {
  const from = measurement === undefined ? "" : ` FROM ${name(measurement)}`;
  const answer = await reading(database, `SHOW SERIES CARDINALITY ON ${name(database)}${from}`);
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
