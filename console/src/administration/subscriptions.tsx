// Subscriptions: where points are sent on to.

import * as schema from "../server/schema";
import { name as quoted, text } from "../server/quoting";
import { ask } from "../server/run";
import { records } from "../server/schema";
import { useLoaded } from "../ui/use_loaded";
import { change, DropButton, useFields } from "./change";

async function subscriptions() {
  const { frames } = await ask("SHOW SUBSCRIPTIONS");
  return frames.flatMap((frame) => records(frame).map((row) => ({ ...row, database: frame.name })));
}

export function Subscriptions() {
  const list = useLoaded(subscriptions, []);
  const databases = useLoaded(schema.databases, []);
  const { values, bind, reset } = useFields({ name: "", database: "", policy: "", mode: "ALL", url: "" });
  const database = values.database || databases.value?.[0] || "";
  const policies = useLoaded(async () => (database === "" ? [] : schema.policies(database)), [database]);
  const policy = values.policy || policies.value?.find((one) => one.default === "true")?.name || "";
  const create = async (event: Event) => {
    event.preventDefault();
    const urls = values.url.split(/[\s,]+/).filter(Boolean).map(text).join(", ");
    const statement = `CREATE SUBSCRIPTION ${quoted(values.name)} ON ${quoted(database)}.${quoted(policy)} DESTINATIONS ${values.mode} ${urls}`;
    if (!(await change(statement, `Created subscription “${values.name}”.`))) return;
    reset();
    list.again();
  };
  return (
    <>
      <section class="card" aria-label="Subscriptions">
        <h2>Subscriptions</h2>
        {list.error !== null && <p class="failure">{list.error}</p>}
        {list.value?.length === 0 && <p class="facts">None yet. A subscription sends a copy of each written point to another server.</p>}
        {list.value !== undefined && list.value.length > 0 && (
          <div class="scroll" tabIndex={0} role="region" aria-label="List of subscriptions">
            <table class="list">
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">Of</th>
                  <th scope="col">Mode</th>
                  <th scope="col">Destinations</th>
                  <th scope="col">
                    <span class="hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {list.value.map((one: Record<string, string>) => (
                  <tr key={`${one.database}\n${one.retention_policy}\n${one.name}`}>
                    <td>{one.name}</td>
                    <td>
                      {one.database}.{one.retention_policy}
                    </td>
                    <td>{one.mode}</td>
                    <td>
                      <code>{one.destinations}</code>
                    </td>
                    <td class="actions">
                      <DropButton
                        what="subscription"
                        name={one.name}
                        words="Points are no longer sent to its destinations."
                        statement={`DROP SUBSCRIPTION ${quoted(one.name)} ON ${quoted(one.database)}.${quoted(one.retention_policy)}`}
                        onDone={list.again}
                      />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
      <form class="card" onSubmit={create} aria-label="New subscription">
        <h2>New subscription</h2>
        <div class="toolbar">
          <input {...bind("name")} required placeholder="Name" aria-label="Name of the subscription" />
          <label class="field-inline">
            Database
            <select {...bind("database")} value={database}>
              {databases.value?.map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          </label>
          <label class="field-inline">
            Policy
            <select {...bind("policy")} value={policy}>
              {policies.value?.map(({ name }) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          </label>
          <select {...bind("mode")} aria-label="Mode">
            <option value="ALL">to all destinations</option>
            <option value="ANY">to any destination</option>
          </select>
          <input {...bind("url")} required placeholder="http://other:8086" aria-label="Destinations, separated by commas" />
          <button type="submit" class="primary" disabled={database === "" || policy === ""}>
            Create
          </button>
        </div>
      </form>
    </>
  );
}
