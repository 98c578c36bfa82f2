// Databases and their retention policies.

import { policies } from "../server/schema";
import * as schema from "../server/schema";
import { name as quoted } from "../server/quoting";
import { Table } from "../ui/table";
import { useLoaded } from "../ui/use_loaded";
import { change, DropButton, DURATION, DURATION_WORDS, useFields } from "./change";

export function Databases() {
  const list = useLoaded(schema.databases, []);
  const { values, bind, reset } = useFields({ name: "", duration: "" });
  const create = async (event: Event) => {
    event.preventDefault();
    const policy = values.duration === "" ? "" : ` WITH DURATION ${values.duration}`;
    if (!(await change(`CREATE DATABASE ${quoted(values.name)}${policy}`, `Created database “${values.name}”.`))) return;
    reset();
    list.again();
  };
  return (
    <>
      <form class="card" onSubmit={create} aria-label="New database">
        <h2>New database</h2>
        <div class="toolbar">
          <input {...bind("name")} required placeholder="Name" aria-label="Name of the database" />
          <input {...bind("duration")} pattern={DURATION} title={DURATION_WORDS} placeholder="Keep for: ever" aria-label={`Keep points for, ${DURATION_WORDS}`} />
          <button type="submit" class="primary">
            Create
          </button>
        </div>
      </form>
      {list.error !== null && <p class="failure">{list.error}</p>}
      {list.value?.map((database) => (
        <Database key={database} database={database} onDropped={list.again} />
      ))}
    </>
  );
}

function Database({ database, onDropped }: { database: string; onDropped(): void }) {
  const list = useLoaded(() => policies(database), [database]);
  const { values, bind, reset } = useFields({ name: "", duration: "" });
  const create = async (event: Event) => {
    event.preventDefault();
    const statement = `CREATE RETENTION POLICY ${quoted(values.name)} ON ${quoted(database)} DURATION ${values.duration} REPLICATION 1`;
    if (!(await change(statement, `Created policy “${values.name}”.`))) return;
    reset();
    list.again();
  };
  return (
    <section class="card" aria-label={`Database ${database}`}>
      <div class="card-head">
        <h2>{database}</h2>
        <span class="spacer" />
        <DropButton
          what="database"
          name={database}
          typed
          words="All its points, tables and dashboards are dropped. This cannot be undone."
          statement={`DROP DATABASE ${quoted(database)}`}
          onDone={onDropped}
        />
      </div>
      {list.error !== null && <p class="failure">{list.error}</p>}
      <Table
        label={`Retention policies of ${database}`}
        columns={[
          {
            head: "Retention policy",
            cell: ({ name, default: isDefault }) => (
              <>
                {name} {isDefault === "true" && <span class="tag">default</span>}
              </>
            ),
          },
          { head: "Points are kept", words: true, cell: (policy) => <Duration database={database} policy={policy} onDone={list.again} /> },
          { head: "Shards of", cell: ({ shardGroupDuration }) => shardGroupDuration },
        ]}
        rows={list.value ?? []}
        keyOf={({ name }) => name}
        actions={(policy) => (
          <>
            {policy.default !== "true" && (
              <button
                type="button"
                class="plain"
                onClick={async () => {
                  const statement = `ALTER RETENTION POLICY ${quoted(policy.name)} ON ${quoted(database)} DEFAULT`;
                  if (await change(statement, `“${policy.name}” is the default now.`)) list.again();
                }}
              >
                Make default
              </button>
            )}
            <DropButton
              what="policy"
              name={policy.name}
              typed
              words="All points in this policy are dropped. This cannot be undone."
              statement={`DROP RETENTION POLICY ${quoted(policy.name)} ON ${quoted(database)}`}
              onDone={list.again}
            />
          </>
        )}
      />
      <form class="toolbar" onSubmit={create} aria-label={`New policy of ${database}`}>
        <input {...bind("name")} required placeholder="New policy" aria-label="Name of the policy" />
        <input {...bind("duration")} required pattern={DURATION} title={DURATION_WORDS} placeholder="Keep for, such as 7d" aria-label={`Keep points for, ${DURATION_WORDS}`} />
        <button type="submit" class="quiet">
          Add
        </button>
      </form>
    </section>
  );
}

function Duration({ database, policy, onDone }: { database: string; policy: Record<string, string>; onDone(): void }) {
  const { values, bind } = useFields({ duration: "" });
  const set = async (event: Event) => {
    event.preventDefault();
    const statement = `ALTER RETENTION POLICY ${quoted(policy.name)} ON ${quoted(database)} DURATION ${values.duration}`;
    if (await change(statement, `“${policy.name}” keeps points for ${values.duration} now.`)) onDone();
  };
  return (
    <form class="buttons" onSubmit={set}>
      <span>{policy.duration === "0s" ? "for ever" : `for ${policy.duration}`}</span>
      <details>
        <summary>change</summary>
        <span class="buttons">
          <input {...bind("duration")} required pattern={DURATION} title={DURATION_WORDS} aria-label={`Keep points of ${policy.name} for, ${DURATION_WORDS}`} />
          <button type="submit" class="quiet">
            Set
          </button>
        </span>
        <span class="facts">A shorter time drops older points.</span>
      </details>
    </form>
  );
}
