// Users and what they may do.

import * as schema from "../server/schema";
import { name as quoted, text } from "../server/quoting";
import { ask } from "../server/run";
import { records } from "../server/schema";
import { useLoaded } from "../ui/use_loaded";
import { change, DropButton, useFields } from "./change";
import { Dialog, useDialog } from "../ui/dialog";

interface User {
  name: string;
  isAdmin: boolean;
  grants: { database: string; privilege: string }[];
}

async function users(): Promise<User[]> {
  const listed = records((await ask("SHOW USERS")).frames[0]);
  return Promise.all(
    listed.map(async ({ user, admin }) => {
      // What was revoked is listed as nothing, as InfluxDB does.
      const grants = records((await ask(`SHOW GRANTS FOR ${quoted(user)}`)).frames[0]).filter(({ privilege }) => privilege !== "NO PRIVILEGES");
      return { name: user, isAdmin: admin === "true", grants: grants.map(({ database, privilege }) => ({ database, privilege })) };
    }),
  );
}

export function Users() {
  const list = useLoaded(users, []);
  const databases = useLoaded(schema.databases, []);
  const { values, bind, reset } = useFields({ name: "", password: "", kind: "user" });
  const create = async (event: Event) => {
    event.preventDefault();
    const all = values.kind === "admin" ? " WITH ALL PRIVILEGES" : "";
    const statement = `CREATE USER ${quoted(values.name)} WITH PASSWORD ${text(values.password)}${all}`;
    if (!(await change(statement, `Created user “${values.name}”.`))) return;
    reset();
    list.again();
  };
  return (
    <>
      <form class="card" onSubmit={create} aria-label="New user">
        <h2>New user</h2>
        <div class="toolbar">
          <input {...bind("name")} required autocomplete="off" placeholder="Name" aria-label="Name of the user" />
          <input {...bind("password")} required type="password" autocomplete="new-password" placeholder="Password" aria-label="Password" />
          <select {...bind("kind")} aria-label="Kind of user">
            <option value="user">User with grants</option>
            <option value="admin">Administrator</option>
          </select>
          <button type="submit" class="primary">
            Create
          </button>
        </div>
        <p class="facts">Log-ins are asked for only if the server runs with --auth-enabled.</p>
      </form>
      {list.error !== null && <p class="failure">{list.error}</p>}
      {list.value?.length === 0 && <p class="empty">No users yet.</p>}
      {list.value?.map((user) => (
        <UserCard key={user.name} user={user} databases={databases.value ?? []} again={list.again} />
      ))}
    </>
  );
}

function UserCard({ user, databases, again }: { user: User; databases: string[]; again(): void }) {
  const { values, bind } = useFields({ privilege: "READ", database: "" });
  const database = values.database || databases[0] || "";
  const run = async (statement: string, done: string) => {
    if (await change(statement, done)) again();
  };
  const to = quoted(user.name);
  return (
    <section class="card" aria-label={`User ${user.name}`}>
      <div class="card-head">
        <h2>{user.name}</h2>
        {user.isAdmin && <span class="tag">administrator</span>}
        <span class="spacer" />
        <button
          type="button"
          class="plain"
          onClick={() =>
            user.isAdmin
              ? run(`REVOKE ALL PRIVILEGES FROM ${to}`, `“${user.name}” is no administrator any more.`)
              : run(`GRANT ALL PRIVILEGES TO ${to}`, `“${user.name}” is an administrator now.`)
          }
        >
          {user.isAdmin ? "Make a user with grants" : "Make an administrator"}
        </button>
        <Password user={user.name} />
        <DropButton what="user" name={user.name} words="What this user has written stays." statement={`DROP USER ${to}`} onDone={again} />
      </div>
      {!user.isAdmin && (
        <>
          <div class="chips">
            {user.grants.length === 0 && <span class="facts">No grants yet.</span>}
            {user.grants.map(({ database, privilege }) => (
              <span class="tag grant" key={database}>
                {privilege} on {database}
                <button
                  type="button"
                  class="plain bad"
                  aria-label={`Revoke ${privilege} on ${database} from ${user.name}`}
                  onClick={() => run(`REVOKE ${privilege === "ALL PRIVILEGES" ? "ALL" : privilege} ON ${quoted(database)} FROM ${to}`, "Revoked.")}
                >
                  ✕
                </button>
              </span>
            ))}
          </div>
          <form
            class="toolbar"
            onSubmit={(event) => {
              event.preventDefault();
              void run(`GRANT ${values.privilege} ON ${quoted(database)} TO ${to}`, "Granted.");
            }}
          >
            <select {...bind("privilege")} aria-label="Privilege">
              <option>READ</option>
              <option>WRITE</option>
              <option>ALL</option>
            </select>
            <label class="field-inline">
              on
              <select {...bind("database")} value={database} aria-label="Database">
                {databases.map((name) => (
                  <option key={name} value={name}>
                    {name}
                  </option>
                ))}
              </select>
            </label>
            <button type="submit" class="quiet" disabled={database === ""}>
              Grant
            </button>
          </form>
        </>
      )}
    </section>
  );
}

function Password({ user }: { user: string }) {
  const dialog = useDialog();
  const { values, bind, reset } = useFields({ password: "" });
  return (
    <>
      <button type="button" class="plain" onClick={dialog.open}>
        Set password
      </button>
      <Dialog dialog={dialog} title={`New password of “${user}”`}>
        <form
          class="stack"
          onSubmit={async (event) => {
            event.preventDefault();
            if (!(await change(`SET PASSWORD FOR ${quoted(user)} = ${text(values.password)}`, "The password is set."))) return;
            reset();
            dialog.close();
          }}
        >
          <label class="field">
            <span>Password</span>
            <input {...bind("password")} type="password" required autocomplete="new-password" />
          </label>
          <div class="buttons">
            <button type="submit" class="primary">
              Set
            </button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
