// Tokens: what programs log in with. A secret is shown once, here, and is kept nowhere.

import { useState } from "preact/hooks";
import * as schema from "../server/schema";
import { name as quoted } from "../server/quoting";
import { ask } from "../server/run";
import { records } from "../server/schema";
import { useLoaded } from "../ui/use_loaded";
import { say } from "../ui/toast";
import { DropButton, useFields } from "./change";

const listed = async () => records((await ask("SHOW TOKENS")).frames[0]);
const userNames = async () => records((await ask("SHOW USERS")).frames[0]).map(({ user }) => user);

export function Tokens() {
  const list = useLoaded(listed, []);
  const users = useLoaded(userNames, []);
  const databases = useLoaded(schema.databases, []);
  const [made, setMade] = useState<{ name: string; secret: string } | null>(null);
  const { values, bind, reset } = useFields({ name: "", user: "", database: "", privilege: "READ", expires: "90d" });
  const user = values.user || users.value?.[0] || "";
  const create = async (event: Event) => {
    event.preventDefault();
    const scope = values.database === "" ? "" : ` ON ${quoted(values.database)} ${values.privilege}`;
    const expires = values.expires === "" ? "" : ` EXPIRES IN ${values.expires}`;
    try {
      const answer = await ask(`CREATE TOKEN ${quoted(values.name)} FOR ${quoted(user)}${scope}${expires}`);
      setMade({ name: values.name, secret: records(answer.frames[0])[0].token });
    } catch (error) {
      return say((error as Error).message, "bad");
    }
    reset();
    list.again();
  };
  return (
    <>
      <form class="card" onSubmit={create} aria-label="New token">
        <h2>New token</h2>
        <div class="toolbar">
          <input {...bind("name")} required autocomplete="off" placeholder="Name" aria-label="Name of the token" />
          <label class="field-inline">
            of
            <select {...bind("user")} value={user} aria-label="User of the token">
              {users.value?.map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          </label>
          <select {...bind("database")} aria-label="What the token allows">
            <option value="">whatever the user may do</option>
            {databases.value?.map((name) => (
              <option key={name} value={name}>
                {`only ${name}`}
              </option>
            ))}
          </select>
          {values.database !== "" && (
            <select {...bind("privilege")} aria-label="Privilege of the token">
              <option>READ</option>
              <option>WRITE</option>
              <option>ALL</option>
            </select>
          )}
          <select {...bind("expires")} aria-label="Until when the token is valid">
            <option value="30d">for 30 days</option>
            <option value="90d">for 90 days</option>
            <option value="365d">for a year</option>
            <option value="">until it is dropped</option>
          </select>
          <button type="submit" class="primary" disabled={user === ""}>
            Create
          </button>
        </div>
        <p class="facts">A program sends it instead of the password, or alone as “Authorization: Token …”. It never allows more than its user may do.</p>
        {made !== null && (
          <div class="stack" role="status">
            <p>
              The secret of “{made.name}”. Copy it now: it is not shown again.
            </p>
            <div class="toolbar">
              <code>{made.secret}</code>
              <button
                type="button"
                class="quiet"
                onClick={() => void navigator.clipboard.writeText(made.secret).then(() => say("Copied."), () => say("The browser does not let this page copy.", "bad"))}
              >
                Copy
              </button>
              <button type="button" class="plain" onClick={() => setMade(null)}>
                Hide
              </button>
            </div>
          </div>
        )}
      </form>
      {list.error !== null && <p class="failure">{list.error}</p>}
      {list.value?.length === 0 && <p class="empty">No tokens yet.</p>}
      {list.value?.map((token) => (
        <section class="card" key={token.name} aria-label={`Token ${token.name}`}>
          <div class="card-head">
            <h2>{token.name}</h2>
            <span class="tag">{token.user}</span>
            <span class="spacer" />
            <DropButton what="token" name={token.name} words="Programs that use it are refused at once." statement={`DROP TOKEN ${quoted(token.name)}`} onDone={list.again} />
          </div>
          <p class="facts">
            {token.allows}. Created {token.created}, expires {token.expires}, last used {token.last_used || "not since the start of the server"}.
          </p>
        </section>
      ))}
    </>
  );
}
