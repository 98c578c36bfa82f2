// The slowest queries of the last hour, which the server keeps.

import { ask } from "../server/run";
import { records } from "../server/schema";
import { revision } from "../server/session";
import { ListCard } from "../ui/list_card";
import { elapsed } from "../ui/numbers";
import { type Column } from "../ui/table";
import { utc } from "../ui/times";
import { useLoaded } from "../ui/use_loaded";
import { durationMs } from "./duration";

interface Slow {
  id: string;
  text: string;
  database: string;
  user: string;
  ms: number;
  ended: string;
  isKilled: boolean;
}

const EVERY_MS = 5000;

const COLUMNS: Column<Slow>[] = [
  { head: "Query", words: true, cell: ({ text }) => <code class="statement">{text}</code> },
  { head: "Database", cell: ({ database }) => database },
  { head: "User", cell: ({ user }) => user },
  { head: "Ended", cell: ({ ended, isKilled }) => `${utc(ended)}${isKilled ? ", by somebody" : ""}` },
  { head: "Took", right: true, cell: ({ ms }) => elapsed(ms) },
];

async function slowest(): Promise<Slow[]> {
  const rows = records((await ask("SHOW SLOWEST QUERIES")).frames[0]);
  return rows.map(({ qid, query, database, user, duration, ended, status }) => ({
    id: qid,
    text: query,
    database,
    user,
    ms: durationMs(duration),
    ended,
    isKilled: status === "killed",
  }));
}

export function SlowestQueries() {
  const list = useLoaded(slowest, [revision.value], EVERY_MS);
  return (
    <ListCard
      title="Slowest queries"
      about="Of the last hour, in all languages."
      list={list}
      none="None in the last hour."
      columns={COLUMNS}
      keyOf={({ id, ended }) => `${id} ${ended}`}
    />
  );
}
