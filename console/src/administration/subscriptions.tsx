// Subscriptions: where points are sent on to.

import * as schema from "../server/schema";
import { name as quoted, text } from "../server/quoting";
import { ask } from "../server/run";
import { records } from "../server/schema";
import { ListCard } from "../ui/list_card";
import type { Column } from "../ui/table";
import { useLoaded } from "../ui/use_loaded";
import { change, DropButton, useFields } from "./change";

type Subscription = Record<string, string>;

const COLUMNS: Column<Subscription>[] = [
  { head: "Name", cell: ({ name }) => name },
  { head: "Of", cell: ({ database, retention_policy }) => `${database}.${retention_policy}` },
  { head: "Mode", cell: ({ mode }) => mode },
  { head: "Destinations", words: true, cell: ({ destinations }) => <code>{destinations}</code> },
];

async function subscriptions(): Promise<Subscription[]> {
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
      <ListCard
        title="Subscriptions"
        list={list}
        none="None yet. A subscription sends a copy of each written point to another server."
        columns={COLUMNS}
        keyOf={({ database, retention_policy, name }) => `${database}\n${retention_policy}\n${name}`}
        actions={({ database, retention_policy, name }) => (
          <DropButton
            what="subscription"
            name={name}
            words="Points are no longer sent to its destinations."
            statement={`DROP SUBSCRIPTION ${quoted(name)} ON ${quoted(database)}.${quoted(retention_policy)}`}
            onDone={list.again}
          />
        )}
      />
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
