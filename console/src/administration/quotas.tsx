// Quotas: how much each user may take from the others.

import { name as quoted } from "../server/quoting";
import { ask } from "../server/run";
import { records } from "../server/schema";
import { number } from "../ui/numbers";
import { useLoaded } from "../ui/use_loaded";
import { change, useFields } from "./change";

const QUOTAS = [
  { name: "concurrent_queries", words: "queries at once" },
  { name: "queries_per_minute", words: "queries a minute" },
  { name: "points_per_second", words: "points a second" },
  { name: "bytes_per_second", words: "bytes a second" },
  { name: "query_memory_bytes", words: "bytes of memory of queries" },
  { name: "series_per_database", words: "series in a database" },
] as const;

type Row = Record<string, string>;

/** Every user, with what is limited and how many queries run. */
async function listed(): Promise<Row[]> {
  const [users, quotas] = await Promise.all([ask("SHOW USERS"), ask("SHOW QUOTAS")]);
  const limits = new Map(records(quotas.frames[0]).map((row) => [row.user, row]));
  return records(users.frames[0]).map(({ user }) => limits.get(user) ?? { user });
}

export function Quotas() {
  const list = useLoaded(listed, [], 5000);
  return (
    <>
      <p class="facts">
        What is asked for beyond a quota is refused before it begins. A query that turns out to need more memory than its user may take is ended. 0 is no limit. Quotas
        hold in every language, for tokens, too.
      </p>
      {list.error !== null && <p class="failure">{list.error}</p>}
      {list.value?.length === 0 && <p class="empty">No users yet: quotas belong to users.</p>}
      {list.value?.map((row) => (
        <QuotaForm key={`${row.user} ${QUOTAS.map(({ name }) => row[name])}`} row={row} again={list.again} />
      ))}
    </>
  );
}

function QuotaForm({ row, again }: { row: Row; again(): void }) {
  const { user } = row;
  const { values, bind } = useFields(Object.fromEntries(QUOTAS.map(({ name }) => [name, row[name] ?? "0"])));
  const save = async (event: Event) => {
    event.preventDefault();
    const limits = QUOTAS.map(({ name }) => `${name} = ${BigInt(values[name] || "0")}`).join(", ");
    if (await change(`SET QUOTA FOR ${quoted(user)} ${limits}`, `The quotas of “${user}” are set.`)) again();
  };
  return (
    <form class="card" onSubmit={save} aria-label={`Quotas of ${user}`}>
      <div class="card-head">
        <h2>{user}</h2>
        {row.running_queries !== undefined && <span class="tag">{number(Number(row.running_queries))} queries run</span>}
      </div>
      <div class="toolbar">
        {QUOTAS.map(({ name, words }) => (
          <label class="field" key={name}>
            <span>{words}</span>
            <input {...bind(name)} inputMode="numeric" pattern="[0-9]{1,18}" required size={12} aria-label={`${words} of ${user}`} />
          </label>
        ))}
        <button type="submit" class="quiet">
          Set
        </button>
      </div>
    </form>
  );
}
