// What measurements and tables take, the largest first; and what the columns of one of them take on disk, and how they are encoded.

import { useMemo, useState } from "preact/hooks";
import type { Frame } from "../data/frame";
import { name as quoted } from "../server/quoting";
import { ask } from "../server/run";
import * as schema from "../server/schema";
import { revision } from "../server/session";
import { Grid } from "../ui/grid";
import { bytes, number } from "../ui/numbers";
import { Table, type Column } from "../ui/table";
import { useLoaded } from "../ui/use_loaded";

/** More of them are not shown. */
const LISTED_MAX = 10_000;
/** More names are not offered; one that is typed is found. */
const OFFERED_MAX = 1000;
const FROM = "console-storage-names";

const KINDS: Record<string, string> = {
  series: "which rows belong to which series",
  keys: "keys of rows",
  other: "indexes, last rows, dropped columns",
  memory: "rows in memory, in no file yet",
};

async function sizes(database: string): Promise<Frame | undefined> {
  if (database === "") return undefined;
  return (await ask(`SHOW STORAGE ON ${quoted(database)} LIMIT ${LISTED_MAX}`)).frames[0];
}

export function Columns() {
  const databases = useLoaded(schema.databases, [revision.value]);
  const [chosenDatabase, setDatabase] = useState("");
  const database = chosenDatabase || databases.value?.find((name) => name !== "_internal") || "";
  const listed = useLoaded(() => sizes(database), [database, revision.value]);
  const names = useMemo(() => [...new Set(schema.texts(listed.value, "name"))], [listed.value]);
  const [typed, setTyped] = useState("");
  const table = typed || names[0] || "";
  const report = useLoaded(
    async () => (database === "" || table === "" ? [] : (await ask(`SHOW STORAGE ON ${quoted(database)} FROM ${quoted(table)}`)).frames),
    [database, table, revision.value],
  );
  return (
    <section class="card" aria-label="Measurements and columns">
      <div class="card-head">
        <h2>Measurements and columns</h2>
        {listed.value?.rows === LISTED_MAX && <span class="facts">The largest {number(LISTED_MAX)}.</span>}
      </div>
      <div class="toolbar">
        <label class="field-inline">
          Database
          <select
            value={database}
            onChange={(event) => {
              setDatabase(event.currentTarget.value);
              setTyped("");
            }}
          >
            {databases.value?.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label class="field-inline">
          Measurement or table
          <input list={FROM} value={table} autocomplete="off" onChange={(event) => setTyped(event.currentTarget.value)} />
        </label>
        <datalist id={FROM}>
          {names.slice(0, OFFERED_MAX).map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <button
          type="button"
          class="quiet"
          onClick={() => {
            listed.again();
            report.again();
          }}
        >
          Read again
        </button>
      </div>
      {listed.error !== null && <p class="failure">{listed.error}</p>}
      {listed.value !== undefined && listed.value.rows > 0 && <Grid frame={listed.value} label="Measurements and tables" fits />}
      {report.error !== null && <p class="failure">{report.error}</p>}
      {report.error === null && report.value?.length === 0 && <p class="facts">Nothing is stored yet.</p>}
      {report.error === null && report.value?.map((frame) => <Parts key={frame.tags.retention_policy ?? ""} frame={frame} />)}
    </section>
  );
}

type Row = Record<string, string>;

function columnsOf(total: number): Column<Row>[] {
  return [
    { head: "Column", words: true, cell: ({ column, kind }) => (column === "" ? <span class="facts">{KINDS[kind] ?? kind}</span> : <code>{column}</code>) },
    { head: "Type", cell: ({ type }) => type },
    { head: "Encoding", cell: ({ encoding }) => encoding },
    { head: "Values", right: true, cell: ({ values }) => (values === "0" ? "" : number(Number(values))) },
    { head: "Bytes", right: true, cell: (row) => bytes(Number(row.bytes)) },
    {
      head: "Bytes per value",
      right: true,
      cell: ({ bytes_per_value, kind }) => (bytes_per_value === "" || kind === "memory" ? "" : Number(bytes_per_value).toFixed(2)),
    },
    { head: "Of the whole", right: true, cell: (row) => (row.kind === "memory" || total === 0 ? "" : `${((Number(row.bytes) / total) * 100).toFixed(1)} %`) },
  ];
}

function Parts({ frame }: { frame: Frame }) {
  const rows = schema.records(frame);
  const total = rows.filter(({ kind }) => kind !== "memory").reduce((sum, row) => sum + Number(row.bytes), 0);
  const policy = frame.tags.retention_policy;
  const caption = policy === undefined ? frame.name : `${frame.name}, policy ${policy}`;
  return (
    <Table
      label={`What ${caption} takes`}
      caption={`${caption}: ${bytes(total)} on disk`}
      columns={columnsOf(total)}
      rows={rows}
      keyOf={({ column, kind, type, encoding }) => [kind, column, type, encoding].join("\n")}
    />
  );
}
