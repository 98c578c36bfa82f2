// The flushes and merges that run, with how far they are, and those that wait.

import { ask } from "../server/run";
import { records } from "../server/schema";
import { revision } from "../server/session";
import { ListCard } from "../ui/list_card";
import { bytes, number } from "../ui/numbers";
import type { Column } from "../ui/table";
import { useLoaded } from "../ui/use_loaded";

const EVERY_MS = 2000;

type Task = Record<string, string>;

const COLUMNS: Column<Task>[] = [
  { head: "Work", cell: ({ work }) => work },
  { head: "Of", cell: (task) => [task.database, task.retention_policy, task.measurement].filter((part) => part !== "").join(" / ") || "all tables" },
  { head: "From", cell: ({ start_time }) => start_time },
  { head: "To", cell: ({ end_time }) => end_time },
  { head: "Files", right: true, cell: ({ files }) => (files === "0" ? "" : number(Number(files))) },
  { head: "Rows", right: true, cell: ({ rows }) => number(Number(rows)) },
  { head: "Bytes", right: true, cell: (task) => bytes(Number(task.bytes)) },
  { head: "State", right: true, cell: ({ state, done_percent }) => (state === "runs" ? `${done_percent} % done` : "waits") },
];

export function Maintenance() {
  const tasks = useLoaded(async () => records((await ask("SHOW MAINTENANCE")).frames[0]), [revision.value], EVERY_MS);
  return (
    <ListCard
      title="Maintenance"
      about="A flush writes rows from memory to files, a merge makes one file of several."
      list={tasks}
      none="Nothing runs, and nothing waits."
      columns={COLUMNS}
      keyOf={(_, i) => i}
    />
  );
}
