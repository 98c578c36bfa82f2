// The queries that run now, with a button that ends one.

import { useState } from "preact/hooks";
import { ask } from "../server/run";
import { records } from "../server/schema";
import { revision } from "../server/session";
import { Confirm, useDialog } from "../ui/dialog";
import { ListCard } from "../ui/list_card";
import { elapsed } from "../ui/numbers";
import { type Column } from "../ui/table";
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

const COLUMNS: Column<Running>[] = [
  { head: "Query", words: true, cell: ({ text }) => <code class="statement">{text}</code> },
  { head: "Database", cell: ({ database }) => database },
  { head: "For", right: true, cell: ({ ms }) => elapsed(ms) },
];
const keyOf = ({ id, text }: Running) => `${id} ${text}`;

async function running(): Promise<Running[]> {
  const rows = records((await ask(OWN)).frames[0]);
  const found = rows
    .filter(({ query }) => query !== OWN)
    .map(({ qid, query, database, duration, status }) => ({ id: qid, text: query, database, ms: durationMs(duration), status }));
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
