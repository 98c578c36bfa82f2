// The queries that run now, with a button that ends one, and the slowest that this page has seen.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { ask } from "../server/run";
import { records } from "../server/schema";
import { revision } from "../server/session";
import { Confirm, useDialog } from "../ui/dialog";
import { ListCard } from "../ui/list_card";
import { elapsed } from "../ui/numbers";
import { Table, type Column } from "../ui/table";
import { say } from "../ui/toast";
import { useLoaded } from "../ui/use_loaded";
import { durationMs } from "./duration";

interface Running {
  id: string;
  text: string;
  database: string;
  ms: number;
  status: string;
}

const EVERY_MS = 1000;
const OWN = "SHOW QUERIES";
const SLOWEST_MAX = 10;

const COLUMNS: Column<Running>[] = [
  { head: "Query", words: true, cell: ({ text }) => <code class="statement">{text}</code> },
  { head: "Database", cell: ({ database }) => database },
  { head: "For", right: true, cell: ({ ms }) => elapsed(ms) },
];
const keyOf = ({ id, text }: Running) => `${id} ${text}`;

const slowest = signal<Running[]>([]);

async function running(): Promise<Running[]> {
  const rows = records((await ask(OWN)).frames[0]);
  const found = rows
    .filter(({ query }) => query !== OWN)
    .map(({ qid, query, database, duration, status }) => ({ id: qid, text: query, database, ms: durationMs(duration), status }));
  const others = slowest.value.filter((old) => !found.some((now) => now.id === old.id && now.text === old.text));
  slowest.value = [...others, ...found].sort((a, b) => b.ms - a.ms).slice(0, SLOWEST_MAX);
  return found.sort((a, b) => b.ms - a.ms);
}

export function RunningQueries() {
  const list = useLoaded(running, [revision.value], EVERY_MS);
  const [chosen, setChosen] = useState<Running | null>(null);
  const dialog = useDialog();
  const kill = async () => {
    if (chosen === null) return;
    try {
      await ask(`KILL QUERY ${BigInt(chosen.id)}`);
      say(`Query ${chosen.id} was told to end.`);
    } catch (error) {
      say((error as Error).message, "bad");
    }
  };
  return (
    <>
      <ListCard
        title="Running queries"
        list={list}
        none="None at this moment."
        columns={COLUMNS}
        keyOf={keyOf}
        actions={(row) => (
          <button
            type="button"
            class="plain bad"
            onClick={() => {
              setChosen(row);
              dialog.open();
            }}
          >
            Cancel
          </button>
        )}
      />
      {slowest.value.length > 0 && (
        <section class="card" aria-label="Slowest queries">
          <div class="card-head">
            <h2>Slowest queries</h2>
            <span class="facts">Of those that ran at the moments when this page looked, once a second.</span>
          </div>
          <Table label="Slowest queries, as a table" columns={COLUMNS} rows={slowest.value} keyOf={keyOf} />
        </section>
      )}
      <Confirm
        dialog={dialog}
        title="End this query?"
        words={<code class="statement">{chosen?.text}</code>}
        action="End the query"
        onConfirm={() => void kill()}
      />
    </>
  );
}
