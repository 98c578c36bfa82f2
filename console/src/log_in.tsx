// The form for a log-in, and the one for the first administrator. Both send what is typed in a header or body, never in a URL.

import { useState } from "preact/hooks";
import { text, name as quoted } from "./server/quoting";
import { ask, run } from "./server/run";
import { logIn, logInReason, needsFirstAdmin } from "./server/session";
import { Mark } from "./ui/icons";

export function LogIn() {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState<string | null>(null);
  const isFirst = needsFirstAdmin.value;

  const submit = async (event: Event) => {
    event.preventDefault();
    setError(null);
    try {
      if (isFirst) {
        await ask(`CREATE USER ${quoted(user)} WITH PASSWORD ${text(password)} WITH ALL PRIVILEGES`);
        needsFirstAdmin.value = false;
      } else {
        await check(user, password);
      }
      logIn(user, password);
    } catch (failed) {
      setError((failed as Error).message);
    }
  };
  return (
    <main class="log-in">
      <form class="card" onSubmit={submit}>
        <div class="brand">
          <Mark />
          <span>nyala</span>
        </div>
        <h1>{isFirst ? "Create the first administrator" : "Log in"}</h1>
        <p class="facts">{isFirst ? "This server asks for log-ins and has no user yet." : logInReason.value}</p>
        <label class="field">
          <span>User</span>
          <input name="user" autocomplete="username" required value={user} onInput={(event) => setUser(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>Password</span>
          <input
            name="password"
            type="password"
            autocomplete={isFirst ? "new-password" : "current-password"}
            required
            value={password}
            onInput={(event) => setPassword(event.currentTarget.value)}
          />
        </label>
        {error !== null && (
          <p class="failure" role="alert">
            {error}
          </p>
        )}
        <button class="primary" type="submit">
          {isFirst ? "Create and log in" : "Log in"}
        </button>
        <p class="facts">The log-in is kept by this tab only, and ends when it is closed.</p>
      </form>
    </main>
  );
}

/** Rejects if the server does not accept the credentials. */
async function check(user: string, password: string): Promise<void> {
  await run("influxql", "SHOW DATABASES", "", { credentials: { user, password } }).answer;
}
