// What the columns of a measurement, or of a table, take on disk, and how they are encoded.

import { useState } from "preact/hooks";
import type { Frame } from "../data/frame";
import { name as quoted } from "../server/quoting";
import { ask } from "../server/run";
import * as schema from "../server/schema";
import { revision } from "../server/session";
import { bytes, number } from "../ui/numbers";
import { useLoaded } from "../ui/use_loaded";

/** More names are not offered; one that is typed is found. */
const OFFERED_MAX = 1000;
const FROM = "console-storage-names";

const KINDS: Record<string, string> = {
  series: "which rows belong to which series",
  keys: "keys of rows",
  other: "indexes, last rows, dropped columns",
  memory: "rows in memory, in no file yet",
};

/** Measurements, and tables of SQL; a program built without SQL has none. */
async function names(database: string): Promise<string[]> {
  if (database === "") return [];
  const [measurements, tables] = await Promise.all([schema.measurements(database), schema.tables(database).catch(() => [])]);
  return [...new Set([...measurements, ...tables])];
}

export function Columns() {
  const databases = useLoaded(schema.databases, [revision.value]);
  const [chosenDatabase, setDatabase] = useState("");
  const database = chosenDatabase || databases.value?.find((name) => name !== "_internal") || "";
  const known = useLoaded(() => names(database), [database, revision.value]);
  const [typed, setTyped] = useState("");
  const table = typed || known.value?.[0] || "";
  const report = useLoaded(
    async () => (database === "" || table === "" ? [] : (await ask(`SHOW STORAGE ON ${quoted(database)} FROM ${quoted(table)}`)).frames),
    [database, table, revision.value],
  );
  return (
    <section class="card" aria-label="Columns">
      <h2>Columns</h2>
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
          {known.value?.slice(0, OFFERED_MAX).map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <button type="button" class="quiet" onClick={report.again}>
          Read again
        </button>
      </div>
      {report.error !== null && <p class="failure">{report.error}</p>}
      {report.error === null && report.value?.length === 0 && <p class="facts">Nothing is stored yet.</p>}
      {report.error === null && report.value?.map((frame) => <Parts key={frame.tags.retention_policy ?? ""} frame={frame} />)}
    </section>
  );
}

function Parts({ frame }: { frame: Frame }) {
  const rows = schema.records(frame);
  const onDisk = rows.filter(({ kind }) => kind !== "memory");
  const total = onDisk.reduce((sum, row) => sum + Number(row.bytes), 0);
  const policy = frame.tags.retention_policy;
  const caption = policy === undefined ? frame.name : `${frame.name}, policy ${policy}`;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`What ${caption} takes`}>
      <table class="list">
        <caption>
          {caption}: {bytes(total)} on disk
        </caption>
        <thead>
          <tr>
            {["Column", "Type", "Encoding"].map((head) => (
              <th scope="col" key={head}>
                {head}
              </th>
            ))}
            {["Values", "Bytes", "Bytes per value", "Of the whole"].map((head) => (
              <th scope="col" class="right" key={head}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              <td>{row.column === "" ? <span class="facts">{KINDS[row.kind] ?? row.kind}</span> : <code>{row.column}</code>}</td>
              <td>{row.type}</td>
              <td>{row.encoding}</td>
              <td class="right">{row.values === "0" ? "" : number(Number(row.values))}</td>
              <td class="right">{bytes(Number(row.bytes))}</td>
              <td class="right">{row.bytes_per_value === "" || row.kind === "memory" ? "" : Number(row.bytes_per_value).toFixed(2)}</td>
              <td class="right">{row.kind === "memory" || total === 0 ? "" : `${((Number(row.bytes) / total) * 100).toFixed(1)} %`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
