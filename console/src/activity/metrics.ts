// Asks for the server's metrics, and keeps their rates while the console is open.

import { signal } from "@preact/signals";
import { get } from "../server/run";
import { parseMetrics, type Sample } from "./metrics_text";

export class Metrics {
  constructor(
    readonly at: number,
    readonly samples: Sample[],
  ) {}

  /** The sum of the samples of a metric whose labels fit. */
  sum(name: string, fits: (labels: Record<string, string>) => boolean = () => true): number {
    return this.samples.reduce((sum, sample) => (sample.name === name && fits(sample.labels) ? sum + sample.value : sum), 0);
  }

  all(name: string): Sample[] {
    return this.samples.filter((sample) => sample.name === name);
  }
}

/** Rates between two readings. */
export interface Rates {
  at: number;
  rows: number;
  queries: number;
  logBytes: number;
}

const KEPT_MAX = 900;

export const newest = signal<Metrics | null>(null);
export const rates = signal<Rates[]>([]);

const isQuery = ({ path }: Record<string, string>) => path === "/query" || path === "/api/sql" || path === "/api/v1/prom/read";

export async function readMetrics(): Promise<Metrics> {
  const read = new Metrics(Date.now(), parseMetrics(await get("/metrics")));
  const before = newest.value;
  newest.value = read;
  if (before !== null) {
    const seconds = (read.at - before.at) / 1000;
    // A counter that went back belongs to a server that was started again.
    const rate = (of: (metrics: Metrics) => number) => Math.max(0, of(read) - of(before)) / seconds;
    const next: Rates = {
      at: read.at,
      rows: rate((metrics) => metrics.sum("nyala_rows_written_total")),
      queries: rate((metrics) => metrics.sum("nyala_http_requests_total", isQuery) + metrics.sum("nyala_postgres_statements_total")),
      logBytes: rate((metrics) => metrics.sum("nyala_log_bytes_total")),
    };
    if (seconds > 0.2) rates.value = [...rates.value.slice(-KEPT_MAX), next];
  }
  return read;
}
