// Where the rows are: shards with their rows and bytes, files, log and maintenance, and the settings in force.

import { Figure } from "../activity/page";
import { newest, readMetrics } from "../activity/metrics";
import type { Answer, Frame } from "../data/frame";
import { ask } from "../server/run";
import { records } from "../server/schema";
import { revision } from "../server/session";
import { bytes, number, short } from "../ui/numbers";
import { Grid } from "../ui/grid";
import { useLoaded } from "../ui/use_loaded";
import { Columns } from "./columns";
import { Maintenance } from "./maintenance";

const EVERY_MS = 5000;

export function StoragePage() {
  const shards = useLoaded(shardTable, [revision.value], EVERY_MS);
  const read = useLoaded(readMetrics, [revision.value], EVERY_MS);
  const diagnostics = useLoaded(() => ask("SHOW DIAGNOSTICS"), [revision.value]);
  const metrics = newest.value;
  const of = (name: string) => metrics?.sum(name) ?? 0;
  const hits = of("nyala_cache_hits_total");
  const looked = hits + of("nyala_cache_misses_total");
  const rows = of("nyala_rowset_rows");
  return (
    <div class="page">
      <div class="page-head">
        <h1>Storage</h1>
        <span class="facts">A rowset is a file of columns. Rows wait in memory, and in the log, until they are flushed to one.</span>
      </div>
      {read.error !== null && <p class="failure">{read.error}</p>}
      {metrics !== null && (
        <div class="figures">
          <Figure value={short(of("nyala_rowsets"))} words="rowsets" />
          <Figure value={bytes(of("nyala_rowset_bytes"))} words="in rowsets" />
          <Figure value={rows === 0 ? "–" : `${(of("nyala_rowset_bytes") / rows).toFixed(1)} B`} words="per row in rowsets" />
          <Figure value={short(of("nyala_memtable_rows"))} words="rows not yet in rowsets" />
          <Figure value={bytes(of("nyala_log_bytes"))} words="write-ahead log" />
          <Figure value={bytes(of("nyala_history_bytes"))} words="kept for reading the past" />
          <Figure value={looked === 0 ? "–" : `${((hits / looked) * 100).toFixed(1)} %`} words="of blocks found in the cache" />
          <Figure value={`${short(of("nyala_flushes_total"))} / ${short(of("nyala_compactions_total"))}`} words="flushes / merges since the start" />
          <Figure value={short(of("nyala_write_stalls_total"))} words="batches that had to wait" />
          <Figure value={bytes(of("nyala_disk_free_bytes"))} words="free on the disk" />
        </div>
      )}
      <Columns />
      <Maintenance />
      <section class="card" aria-label="Shards">
        <h2>Shards</h2>
        {shards.error !== null && <p class="failure">{shards.error}</p>}
        {shards.value !== undefined && (shards.value.rows === 0 ? <p class="facts">None yet.</p> : <Grid frame={shards.value} label="Shards" fits />)}
      </section>
      <section class="card" aria-label="Server and settings">
        <h2>Server and settings</h2>
        {diagnostics.error !== null && <p class="failure">{diagnostics.error}</p>}
        {diagnostics.value !== undefined && <Diagnostics answer={diagnostics.value} />}
      </section>
    </div>
  );
}

/** `SHOW SHARDS`, with what `SHOW STATS` says of each. */
async function shardTable(): Promise<Frame> {
  const [listed, stats] = await Promise.all([ask("SHOW SHARDS"), ask("SHOW STATS FOR 'shard'")]);
  const sizes = new Map(stats.frames.filter(({ name }) => name === "shard").map((frame) => [frame.tags.id, records(frame)[0]]));
  const rows = listed.frames.flatMap((frame) => records(frame));
  const text = (name: string, of: (row: Record<string, string>) => string) => ({ name, kind: "other" as const, values: rows.map(of) });
  const figure = (name: string, of: (row: Record<string, string>) => number) => ({ name, kind: "number" as const, values: Float64Array.from(rows, of) });
  const size = (row: Record<string, string>, key: string) => Number(sizes.get(row.id)?.[key] ?? NaN);
  return {
    statement: 0,
    name: "shards",
    tags: {},
    rows: rows.length,
    columns: [
      text("shard", (row) => row.id),
      text("database", (row) => row.database),
      text("policy", (row) => row.retention_policy),
      text("from", (row) => row.start_time),
      text("to", (row) => row.end_time),
      text("dropped after", (row) => (row.expiry_time === row.end_time ? "never" : row.expiry_time)),
      figure("rows", (row) => size(row, "rows")),
      figure("bytes on disk", (row) => size(row, "diskBytes")),
      figure("bytes in memory", (row) => size(row, "memoryBytes")),
      text("bytes per row on disk", (row) => (size(row, "diskBytes") > 0 ? number(size(row, "diskBytes") / size(row, "rows")) : "")),
    ],
  };
}

function Diagnostics({ answer }: { answer: Answer }) {
  return (
    <div class="cards">
      {answer.frames.map((frame) => (
        <table class="list" key={frame.name}>
          <caption class="hidden">{frame.name}</caption>
          <thead>
            <tr>
              <th scope="col" colSpan={2}>
                {frame.name}
              </th>
            </tr>
          </thead>
          <tbody>
            {records(frame).flatMap((row, i) =>
              Object.entries(row).filter(([, value]) => value !== "").map(([key, value]) => (
                <tr key={`${i} ${key}`}>
                  <td>{key}</td>
                  <td class="words">
                    <code>{value}</code>
                  </td>
                </tr>
              )),
            )}
          </tbody>
        </table>
      ))}
    </div>
  );
}
