// Which statements a dashboard runs by itself.

import type { Panel } from "./store";

/** No statement that changes something is without one of these. */
const CHANGES = /\b(ALTER|CALL|COMMENT|COPY|CREATE|DELETE|DO|DROP|EXECUTE|GRANT|INSERT|INTO|KILL|MERGE|PREPARE|REVOKE|SET|TRUNCATE|UNDO|UPDATE|UPSERT)\b/i;

/** Functions of SQL that change something, hold others up, or end what they do. */
const ACTS = /\b(nextval|setval|set_config|pg_sleep\w*|pg_(try_)?advisory\w*|pg_(cancel|terminate)_backend|pg_notify|pg_reload_conf|pg_rotate_logfile|lo_\w+|dblink\w*)\b/i;

/** A name in which letters are written as numbers could be any of these. */
const HIDES = /\bU&["']/i;

/**
 * Whether a panel only reads. A dashboard asks by itself, and whoever may write to the database could have put a statement
 * into it that changes or drops something with the rights of whoever looks.
 *
 * Nothing is taken for a text or a comment, whose ends the languages see at different places: the words must not stand
 * anywhere. So some panels are refused that are harmless. What a view does is not seen here: the server is told, too, that
 * panels only read.
 */
export function onlyReads({ language, text }: Pick<Panel, "language" | "text">): boolean {
  const starts = language === "sql" ? /^\s*(SELECT|WITH|SHOW|VALUES)\b/i : /^\s*(SELECT|SHOW)\b/i;
  const statements = text.split(";").filter((statement) => statement.trim() !== "");
  return statements.length > 0 && statements.every((statement) => starts.test(statement)) && ![CHANGES, ACTS, HIDES].some((words) => words.test(text));
}
