// Which statements a dashboard runs by itself.

import type { Panel } from "./store";

/** No statement that changes something is without one of these. */
const CHANGES = /\b(ALTER|CALL|COMMENT|COPY|CREATE|DELETE|DO|DROP|EXECUTE|GRANT|INSERT|INTO|KILL|MERGE|PREPARE|REVOKE|SET|TRUNCATE|UNDO|UPDATE|UPSERT)\b/i;

/**
 * Whether a panel only reads. A dashboard asks by itself, and whoever may write to the database could have put a statement
 * into it that changes or drops something with the rights of whoever looks.
 *
 * Nothing is taken for a text or a comment, whose ends the languages see at different places: the words must not stand
 * anywhere. So some panels are refused that are harmless, and none is run that is not.
 */
export function onlyReads({ language, text }: Pick<Panel, "language" | "text">): boolean {
  const starts = language === "sql" ? /^\s*(SELECT|WITH|SHOW|VALUES)\b/i : /^\s*(SELECT|SHOW)\b/i;
  const statements = text.split(";").filter((statement) => statement.trim() !== "");
  return statements.length > 0 && statements.every((statement) => starts.test(statement)) && !CHANGES.test(text);
}
