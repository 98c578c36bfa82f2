// What the server does now: rates, memory by purpose, health, and the queries that run.

import { useMemo, useRef } from "preact/hooks";
import { color } from "../plot/colors";
import { Plot } from "../plot/plot";
import type { Drawing } from "../plot/series";
import { get } from "../server/run";
import { isOnline, revision } from "../server/session";
import { isDark } from "../ui/theme";
import { bytes, short } from "../ui/numbers";
import { Table } from "../ui/table";
import { useLoaded } from "../ui/use_loaded";
import { LogLines } from "./log_lines";
import { newest, rates, readMetrics, type Rates } from "./metrics";
import { RunningQueries } from "./running_queries";
import { SlowestQueries } from "./slowest_queries";

const EVERY_MS = 2000;

/** What uses memory, in words; the names of other components are shown as they are. */
const PURPOSES: Record<string, string> = {
  memtable: "rows not yet in files",
  block_cache: "cache of blocks",
  in_flight: "requests being received",
  rowset_index: "indexes of files",
  series_index: "index of series",
  query: "queries",
  subscribers: "queues of subscribers",
  uncharged: "the program itself, and what it cannot name",
  maintenance: "flushes and merges",
};

interface Health {
  status: string;
  message: string;
  checks: { name: string; status: string; message: string }[];
}

export function ActivityPage() {
  const read = useLoaded(readMetrics, [revision.value], EVERY_MS);
  const health = useLoaded(async () => JSON.parse(await healthText()) as Health, [revision.value], 5 * EVERY_MS);
  // What was said before the server fell silent is not known any more.
  const known = isOnline.value && health.error === null ? health.value : undefined;
  const isUnknown = known === undefined && (health.value !== undefined || health.error !== null);
  const metrics = newest.value;
  const last = rates.value.at(-1);
  return (
    <div class="page">
      <div class="page-head">
        <h1>Activity</h1>
        <span class="facts">Read every two seconds; the plots begin when this page was opened.</span>
        <span class="spacer" />
        {isUnknown && <span class="bad">? health not known</span>}
        {known !== undefined && (
          <span class={known.status === "pass" ? "good" : "bad"}>
            {known.status === "pass" ? "✓" : "✕"} {known.message}
          </span>
        )}
      </div>
      {read.error !== null && <p class="failure">{read.error}</p>}
      {known?.checks.map((check) => (
        <p class="failure" key={check.name}>
          {check.name}: {check.message}
        </p>
      ))}
      <div class="figures">
        <Figure value={last === undefined ? "…" : short(last.rows)} words="rows written a second" />
        <Figure value={last === undefined ? "…" : short(last.queries)} words="queries a second" />
        <Figure value={metrics === null ? "…" : short(metrics.sum("nyala_series"))} words="series in use" />
        <Figure value={metrics === null ? "…" : short(metrics.sum("nyala_connections") + metrics.sum("nyala_postgres_connections"))} words="connections" />
        <Figure value={metrics === null ? "…" : bytes(metrics.sum("process_resident_memory_bytes"))} words="memory of the process" />
        <Figure value={metrics === null ? "…" : bytes(metrics.sum("nyala_disk_free_bytes"))} words="free on the disk" />
      </div>
      <div class="cards wide-cards">
        <RatePlot title="Rows written a second" of={(rates) => rates.rows} />
        <RatePlot title="Queries a second" of={(rates) => rates.queries} />
      </div>
      <RunningQueries />
      <SlowestQueries />
      <Memory />
      <LogLines />
    </div>
  );
}

/** The health is also an answer when it is bad: then its status is 503. */
async function healthText(): Promise<string> {
  try {
    return await get("/health");
  } catch (error) {
    const text = (error as Error).message;
    if (text.startsWith("{")) return text;
    throw error;
  }
}

export function Figure({ value, words }: { value: string; words: string }) {
  return (
    <div class="figure">
      <strong>{value}</strong>
      <span>{words}</span>
    </div>
  );
}

function RatePlot({ title, of }: { title: string; of(rates: Rates): number }) {
  const since = useRef(Date.now());
  const drawing = useMemo((): Drawing => {
    const ms = Float64Array.from(rates.value, ({ at }) => at);
    const values = Float64Array.from(rates.value, of);
    const to = ms.at(-1) ?? since.current;
    return { series: [{ label: title, ms, values }], left: 0, from: Math.min(ms[0] ?? to, to - 60_000), to, points: ms.length };
  }, [rates.value]);
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <Plot drawing={drawing} style="area" range={null} onRange={null} label={title} legend={false} height={180} />
    </section>
  );
}

function Memory() {
  const metrics = newest.value;
  const dark = isDark.value;
  if (metrics === null) return null;
  const limit = metrics.sum("nyala_memory_limit_bytes");
  const parts = metrics.all("nyala_memory_bytes").map(({ labels, value }, i) => ({ name: labels.component, value, color: color(i, dark) }));
  const used = parts.reduce((sum, { value }) => sum + value, 0);
  const sorted = [...parts].sort((a, b) => b.value - a.value);
  return (
    <section class="card" aria-label="Memory by purpose">
      <div class="card-head">
        <h2>Memory by purpose</h2>
        <span class="facts">
          {bytes(used)} of {bytes(limit)}
        </span>
      </div>
      <div class="meter" role="img" aria-label={`${bytes(used)} of ${bytes(limit)} are used`}>
        {sorted.map((part) => (
          <span key={part.name} style={{ width: `${(part.value / limit) * 100}%`, background: part.color }} />
        ))}
      </div>
      <Table
        label="Memory by purpose, as a table"
        columns={[
          {
            head: "For",
            words: true,
            cell: ({ name, color }) => (
              <>
                <span class="swatch" style={{ background: color }} />
                {PURPOSES[name] ?? name}
              </>
            ),
          },
          { head: "Component", cell: ({ name }) => <code>{name}</code> },
          { head: "Bytes", right: true, cell: ({ value }) => bytes(value) },
          { head: "Of the limit", right: true, cell: ({ value }) => `${((value / limit) * 100).toFixed(1)} %` },
        ]}
        rows={sorted}
        keyOf={({ name }) => name}
      />
    </section>
  );
}
