// What the user may do, asked so that nothing is refused: a refused statement is a line of the audit log, which says that
// somebody tried what they must not.

import { name } from "./quoting";
import { ask, askSql, QueryError } from "./run";
import { once, records } from "./once";
import { identity, isAdmin } from "./session";

export interface Rights {
  reads: boolean;
  writes: boolean;
}

const ALL: Rights = { reads: true, writes: true };
/** The server was built without SQL. */
const NOT_IMPLEMENTED = 501;

const isWithoutSql = (error: unknown) => error instanceof QueryError && error.failure.status === NOT_IMPLEMENTED;

/** Whether the user is an administrator, which everybody is if no log-in is asked for. */
export async function isAdministrator(): Promise<boolean> {
  try {
    const { frames } = await askSql("SELECT current_setting('is_superuser') AS is", "");
    return records(frames[0])[0]?.is === "on";
  } catch (error) {
    if (!isWithoutSql(error)) throw error;
  }
  // Only an administrator may ask this.
  return ask("SHOW USERS").then(
    () => true,
    (error: QueryError) => {
      if (error.failure.status === 403) return false;
      throw error;
    },
  );
}

/** What the user may do with the points and tables of a database. */
export function rightsOn(database: string): Promise<Rights> {
  if (isAdmin.value === true) return Promise.resolve(ALL);
  return once(`rights ${database}`, async () => {
    try {
      const asked = "SELECT has_schema_privilege('public', 'USAGE') AS reads, has_schema_privilege('public', 'CREATE') AS writes";
      const [row] = records((await askSql(asked, database)).frames[0]);
      return { reads: row?.reads === "true", writes: row?.writes === "true" };
    } catch (error) {
      if (isWithoutSql(error)) return ALL;
      throw error;
    }
  });
}

/** The statement that gives the user a privilege, for an administrator to run. */
export const grantOf = (privilege: "READ" | "WRITE" | "ALL", database: string) => `GRANT ${privilege} ON ${name(database)} TO ${name(identity.value?.user ?? "…")}`;

/** Rejects, with what to ask for, if the user may not read a database. */
export async function needsRead(database: string): Promise<void> {
  if ((await rightsOn(database)).reads) return;
  throw new QueryError({ status: 403, message: `Your user may not read “${database}”. Ask an administrator for ${grantOf("READ", database)}` });
}
