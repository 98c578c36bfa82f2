// The query that plots a field.

import { shortName } from "../server/quoting";
import type { Field } from "../server/schema";
import { INFLUXQL_RESERVED } from "./keywords";

const NUMERIC = new Set(["float", "integer", "unsigned"]);

export const quoted = (name: string) => shortName(name, INFLUXQL_RESERVED);

/** Means of a number over the range, or the first points of anything else; `where` and `by` are added to its clauses. */
export const plotQuery = (source: string, field: Field, where = "", by = "") =>
  NUMERIC.has(field.type)
    ? `SELECT mean(${quoted(field.name)}) FROM ${source} WHERE $timeFilter${where} GROUP BY time($interval)${by} fill(none)`
    : `SELECT ${quoted(field.name)} FROM ${source} WHERE $timeFilter${where} LIMIT 1000`;

/** The field that shows most at a first look. */
export const firstNumber = (fields: Field[]): Field | undefined => fields.find(({ type }) => NUMERIC.has(type)) ?? fields[0];
