// What can stand at the cursor: keywords, functions and variables, and what the schema has: measurements after FROM, fields
// and tags of the measurement that the statement names (before it names one, fields of all), values of a tag after its comparison.

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { Language } from "../data/request";
import { name, shortName, sqlName, sqlText, text } from "../server/quoting";
import * as schema from "../server/schema";
import { plural } from "../ui/numbers";
import { measurementOf, unquoted } from "./from_clause";
import { INFLUXQL_FUNCTIONS, INFLUXQL_KEYWORDS, INFLUXQL_RESERVED, SQL_FUNCTIONS, SQL_KEYWORDS, VARIABLES } from "./keywords";

interface Place {
  language: Language;
  database: string;
}

const SQL_RESERVED: ReadonlySet<string> = new Set(SQL_KEYWORDS);

/** The source of completions for a place that may change. */
export function completions(place: () => Place) {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const { language, database } = place();
    const word = context.matchBefore(/\$?[\w]*|"[^"\n]*/);
    if (word === null || (word.from === word.to && !context.explicit && !/[\s("]$/.test(before(context)))) return null;
    const statement = statementAround(context);
    const quoted = (of: string) =>
      language === "sql"
        ? /^[a-z_][a-z0-9_]*$/.test(of) && !SQL_RESERVED.has(of.toUpperCase()) ? of : sqlName(of)
        : shortName(of, INFLUXQL_RESERVED);
    const option = (label: string, type: string, detail: string, boost: number): Completion => ({
      label: word.text.startsWith('"') ? (language === "sql" ? sqlName(label) : name(label)) : label,
      displayLabel: label,
      apply: quoted(label),
      type,
      detail,
      boost,
    });

    const compared = /("(?:[^"\\]|\\.)+"|[\w]+)\s*(?:=|!=|<>)\s*('?)([^'\s]*)$/.exec(before(context));
    const measurement = measurementOf(statement.text);
    if (compared !== null && measurement !== null) {
      const values = await quietly(schema.tagValues(database, measurement, unquoted(compared[1])));
      if (values.length > 0) {
        const from = context.pos - compared[2].length - compared[3].length;
        const apply = language === "sql" ? sqlText : text;
        return { from, options: values.map((value) => ({ label: apply(value), displayLabel: value, type: "text" })), filter: true };
      }
    }
    const options: Completion[] = [];
    const clause = clauseOf(statement.text.slice(0, context.pos - statement.from - word.text.length));
    if (clause === "FROM" || clause === "JOIN" || clause === "UPDATE" || clause === "MEASUREMENT") {
      const measurements = await quietly(schema.measurements(database));
      options.push(...measurements.map((of) => option(of, "class", "measurement", 60)));
      if (language === "sql") options.push(...(await quietly(schema.tables(database))).map((of) => option(of, "class", "table", 60)));
    } else if (clause === "ON" || clause === "DATABASE") {
      options.push(...(await quietly(schema.databases())).map((of) => option(of, "namespace", "database", 60)));
    } else if (measurement === null && clause === "SELECT") {
      const fields = await quietly(schema.allFields(database));
      const where = ({ measurements }: { measurements: string[] }) => (measurements.length === 1 ? measurements[0] : plural(measurements.length, "measurement"));
      options.push(...fields.map((field) => option(field.name, "property", `${field.type} · ${where(field)}`, 50)));
    } else if (measurement !== null && language === "sql") {
      const columns = await quietly(schema.columns(database, measurement));
      options.push(...columns.map((column) => option(column.name, "property", column.type, 50)));
    } else if (measurement !== null && clause !== "LIMIT") {
      const [fields, tags] = await Promise.all([
        quietly(schema.fields(database, measurement)),
        quietly(schema.tags(database, measurement)),
      ]);
      const grouping = clause === "GROUP BY";
      options.push(...fields.map((field) => option(field.name, "property", field.type, grouping ? 0 : 50)));
      options.push(...tags.map((tag) => option(tag, "enum", "tag", 40)));
    }
    const [keywords, functions] = language === "sql" ? [SQL_KEYWORDS, SQL_FUNCTIONS] : [INFLUXQL_KEYWORDS, INFLUXQL_FUNCTIONS];
    if (word.text !== "" || context.explicit) {
      options.push(...keywords.map((label): Completion => ({ label, type: "keyword", boost: -10 })));
      options.push(
        ...functions.map((label): Completion => ({ label, type: "function", boost: -20, apply: `${label}(` })),
      );
      options.push(...VARIABLES.map((variable): Completion => ({ ...variable, type: "constant", boost: 10 })));
    }
    return options.length === 0 ? null : { from: word.from, options, validFor: /^(?:\$?\w*|"[^"\n]*)$/ };
  };
}

const before = (context: CompletionContext) => context.state.sliceDoc(Math.max(0, context.pos - 300), context.pos);

/** A schema that cannot be asked for gives no completions. */
async function quietly<T>(list: Promise<T[]>): Promise<T[]> {
  try {
    return await list;
  } catch {
    return [];
  }
}

function statementAround(context: CompletionContext): { text: string; from: number } {
  const all = context.state.doc.toString();
  const from = all.lastIndexOf(";", context.pos - 1) + 1;
  const end = all.indexOf(";", context.pos);
  return { text: all.slice(from, end < 0 ? undefined : end), from };
}

const CLAUSES = /\b(SELECT|FROM|JOIN|WHERE|GROUP\s+BY|ORDER\s+BY|LIMIT|ON|DATABASE|UPDATE|SET|MEASUREMENT|HAVING)\b/gi;

/** The clause that a text ends in. */
function clauseOf(text: string): string {
  const found = [...text.replace(/'(?:[^'\\]|\\.)*'/g, "''").matchAll(CLAUSES)].at(-1);
  return found === undefined ? "" : found[1].toUpperCase().replace(/\s+/g, " ");
}
