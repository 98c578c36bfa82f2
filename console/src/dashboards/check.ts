// Asks the server about the query of a panel before it is saved: whether it can be run at all.

import type { Failure, Language } from "../data/request";
import { substitute, type TimeRange } from "../query/variables";
import { QueryError, run } from "../server/run";

/** What a server says of a query that it does not run. */
export interface Doubt {
  message: string;
  hint?: string;
  /** Where in the query, in units of UTF-16 from 0. */
  position?: number;
  /** It is no query, and never will be; otherwise it may work some day, or for somebody else. */
  isFinal: boolean;
}

/** Who runs for so long has been read and begun. */
const LONGEST_MS = 3000;
const SYNTAX_ERROR = "42601";
const UNKNOWN_TABLE = "42P01";

/** Null if the query runs, or will as soon as there is what it names. As a panel would ask, so nothing is changed. */
export async function doubtOf(language: Language, text: string, database: string, range: TimeRange): Promise<Doubt | null> {
  const substituted = substitute(text, language, range);
  // The first rows say enough.
  const started = run(language, substituted.text, database, { onlyReads: true, rowsMax: 1 });
  const timer = setTimeout(started.cancel, LONGEST_MS);
  try {
    const [message] = (await started.answer).errors;
    return message === undefined ? null : { message, isFinal: false };
  } catch (error) {
    if (!(error instanceof QueryError)) throw error;
    const doubt = doubtIn(language, error.failure);
    return doubt?.position === undefined ? doubt : { ...doubt, position: substituted.original(doubt.position) };
  } finally {
    clearTimeout(timer);
  }
}

/** What a failure says about the query. */
export function doubtIn(language: Language, { cancelled, status, code, message, hint, position }: Failure): Doubt | null {
  if (cancelled === true || (language === "sql" && code === UNKNOWN_TABLE)) return null;
  // InfluxQL's statements are read, all of them, before one runs.
  return { message, hint, position, isFinal: language === "sql" ? code === SYNTAX_ERROR : status === 400 };
}
