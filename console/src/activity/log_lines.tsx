// The last lines of the server's log, with a choice of levels and a filter.

import { useEffect, useState } from "preact/hooks";
import { get } from "../server/run";
import { revision } from "../server/session";
import { Choice } from "../ui/choice";
import { Table, type Column } from "../ui/table";
import { utc } from "../ui/times";
import { useLoaded } from "../ui/use_loaded";

interface Line {
  number: number;
  time: string;
  level: string;
  target: string;
  message: string;
  fields: string;
}

interface Lines {
  level: string;
  lines: Line[];
}

const EVERY_MS = 2000;
const SHOWN_MAX = 200;
const LEVELS = ["error", "warn", "info", "debug"] as const;

const COLUMNS: Column<Line>[] = [
  { head: "Time", cell: ({ time }) => utc(time) },
  { head: "Level", cell: ({ level }) => <span class={level === "error" || level === "warn" ? "bad" : undefined}>{level}</span> },
  {
    head: "Event",
    words: true,
    cell: ({ message, fields }) => (
      <>
        {message} <code>{fields}</code>
      </>
    ),
  },
  { head: "Part", cell: ({ target }) => <span class="facts">{target}</span> },
];

export function LogLines() {
  const [level, setLevel] = useState<(typeof LEVELS)[number]>("info");
  const [filter, setFilter] = useState("");
  const [held, setHeld] = useState<Line[] | null>(null);
  const read = useLoaded(async () => JSON.parse(await get(`/debug/log/lines?level=${level}`)) as Lines, [level, revision.value], EVERY_MS);
  useEffect(() => setHeld(null), [level]);
  const words = filter.toLowerCase();
  const lines = (held ?? read.value?.lines ?? []).filter((line) => `${line.target} ${line.message} ${line.fields}`.toLowerCase().includes(words));
  const shown = lines.slice(-SHOWN_MAX).reverse();
  return (
    <section class="card" aria-label="Log">
      <div class="card-head">
        <h2>Log</h2>
        {read.value !== undefined && <span class="facts">Its level is {read.value.level}; the last 1000 lines are kept in memory.</span>}
      </div>
      <div class="toolbar">
        <Choice label="Least level" options={LEVELS} value={level} onChoose={setLevel} />
        <input type="search" placeholder="Filter" aria-label="Filter the log" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        <button type="button" class="quiet" aria-pressed={held !== null} onClick={() => setHeld(held === null ? (read.value?.lines ?? []) : null)}>
          {held === null ? "Hold" : "Go on"}
        </button>
      </div>
      {read.error !== null && <p class="failure">{read.error}</p>}
      {read.value !== undefined && shown.length === 0 && <p class="facts">No such lines.</p>}
      {shown.length > 0 && (
        <div class="log">
          <Table label="Lines of the log, the newest first" columns={COLUMNS} rows={shown} keyOf={(line) => line.number} />
        </div>
      )}
      {lines.length > SHOWN_MAX && <p class="facts">and {lines.length - SHOWN_MAX} older ones: filter them</p>}
    </section>
  );
}
