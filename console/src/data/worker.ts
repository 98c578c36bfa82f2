// Sends queries and reads their answers, away from the thread that draws. Answers come in pieces (lines of JSON), so none is
// ever held as one text, and a query whose user has left is aborted, which ends it on the server, too.

import { ColumnBuilder, type Answer, type Frame } from "./frame";
import { parse } from "./json";
import { unitAt, unitsOf } from "./position";
import type { Ask, Failure, FromWorker, ToWorker } from "./request";

const CHUNK_ROWS = 20_000;
const PROGRESS_MS = 150;

const running = new Map<number, AbortController>();

const post = (message: FromWorker, transfer: Transferable[] = []) =>
  (self as unknown as { postMessage(m: unknown, t: Transferable[]): void }).postMessage(message, transfer);

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if ("cancel" in data) running.get(data.id)?.abort();
  else void answer(data.id, data.ask);
};

async function answer(id: number, ask: Ask): Promise<void> {
  const abort = new AbortController();
  running.set(id, abort);
  const begun = performance.now();
  try {
    const response = await send(ask, abort.signal);
    if (!response.ok) return post({ id, failure: await failureOf(response, ask) });
    const collector = ask.language === "sql" ? new SqlCollector() : new InfluxCollector();
    let told = begun;
    let bytes = 0;
    let cut = false;
    for await (const line of lines(response, (read) => (bytes = read))) {
      collector.take(parse(line));
      if (performance.now() - told > PROGRESS_MS) {
        told = performance.now();
        post({ id, rows: collector.rows, bytes });
      }
      if (collector.rows >= ask.rowsMax) {
        cut = true;
        break;
      }
    }
    if (cut) abort.abort();
    const { frames, errors, notes, rows } = collector.finish();
    const whole: Answer = { frames, errors, notes, rows, bytes, cut, elapsedMs: performance.now() - begun };
    post({ id, answer: whole }, frames.flatMap(buffers));
  } catch (error) {
    const cancelled = abort.signal.aborted;
    const unreachable = error instanceof TypeError;
    const words = unreachable ? "the server cannot be reached, or closed the connection" : String((error as Error).message);
    post({ id, failure: { status: unreachable ? 0 : -1, cancelled, message: cancelled ? "cancelled" : words } });
  } finally {
    running.delete(id);
  }
}

function send(ask: Ask, signal: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {};
  if (ask.authorization !== null) headers["Authorization"] = ask.authorization;
  // Without credentials of its own the browser does not open its log-in window when the server says 401.
  const rights = ask.onlyReads ? "?read_only=true" : "";
  const common = { method: "POST", credentials: "omit", cache: "no-store", signal } as const;
  if (ask.language === "sql") {
    headers["Accept"] = "application/vnd.nyala.table+jsonl";
    headers["Content-Type"] = "application/json";
    return fetch(`/api/sql${rights}`, { ...common, headers, body: JSON.stringify({ query: ask.text, db: ask.database }) });
  }
  const body = new URLSearchParams({
    db: ask.database,
    q: ask.text,
    epoch: "ns",
    chunked: "true",
    chunk_size: String(CHUNK_ROWS),
  });
  headers["Accept"] = "application/json";
  return fetch(`/query${rights}`, { ...common, headers, body });
}

async function failureOf(response: Response, ask: Ask): Promise<Failure> {
  const text = await response.text();
  const failure: Failure = { status: response.status, message: text.trim() || response.statusText };
  try {
    const said = JSON.parse(text) as { error?: string; position?: number; hint?: string; detail?: string; code?: string };
    if (said.error !== undefined) failure.message = said.error;
    if (said.detail !== undefined) failure.message += ` (${said.detail})`;
    if (said.code !== undefined) failure.code = said.code;
    if (said.hint !== undefined) failure.hint = said.hint;
    if (said.position !== undefined) failure.position = unitsOf(ask.text, said.position - 1);
  } catch {
    // A proxy may answer in words; they are shown as they are.
  }
  const place = / at line (\d+), char (\d+)$/.exec(failure.message);
  if (place !== null) failure.position = unitAt(ask.text, Number(place[1]), Number(place[2]));
  return failure;
}

async function* lines(response: Response, count: (bytes: number) => void): AsyncGenerator<string> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let pending: string[] = [];
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.length;
    count(bytes);
    const text = decoder.decode(value, { stream: true });
    let begin = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", begin)) {
      pending.push(text.slice(begin, end));
      const line = pending.join("");
      pending = [];
      begin = end + 1;
      if (line.trim() !== "") yield line;
    }
    pending.push(text.slice(begin));
  }
  const last = pending.join("") + decoder.decode();
  if (last.trim() !== "") yield last;
}

interface Collected {
  frames: Frame[];
  errors: string[];
  notes: string[];
  rows: number;
}

interface Part {
  statement: number;
  name: string;
  tags: Record<string, string>;
  columns: string[];
  builders: ColumnBuilder[];
  rows: number;
}

const finished = (part: Part): Frame => ({
  statement: part.statement,
  name: part.name,
  tags: part.tags,
  columns: part.builders.map((builder) => builder.finish()),
  rows: part.rows,
});

interface InfluxSeries {
  name?: string;
  tags?: Record<string, string>;
  columns: string[];
  values?: unknown[][];
}

interface InfluxDocument {
  error?: string;
  results?: {
    statement_id?: number;
    error?: string;
    series?: InfluxSeries[];
    messages?: { level: string; text: string }[];
  }[];
}

/** Joins the chunks of InfluxQL's answers: a series may go on in the next one. */
class InfluxCollector {
  rows = 0;
  private readonly parts: Part[] = [];
  private readonly errors: string[] = [];
  private readonly notes: string[] = [];

  take(document: unknown): void {
    const { error, results } = document as InfluxDocument;
    if (error !== undefined) this.errors.push(error);
    for (const result of results ?? []) {
      if (result.error !== undefined) this.errors.push(result.error);
      for (const { level, text } of result.messages ?? []) this.notes.push(`${level}: ${text}`);
      for (const series of result.series ?? []) this.add(result.statement_id ?? 0, series);
    }
  }

  finish(): Collected {
    return { frames: this.parts.map(finished), errors: this.errors, notes: this.notes, rows: this.rows };
  }

  private add(statement: number, series: InfluxSeries): void {
    const name = series.name ?? "";
    const tags = { ...series.tags };
    let part = this.parts.at(-1);
    const goesOn =
      part !== undefined &&
      part.statement === statement &&
      part.name === name &&
      same(Object.entries(part.tags).flat(), Object.entries(tags).flat()) &&
      same(part.columns, series.columns);
    if (part === undefined || !goesOn) {
      const builders = series.columns.map((column) => new ColumnBuilder(column, column === "time"));
      part = { statement, name, tags, columns: series.columns, builders, rows: 0 };
      this.parts.push(part);
    }
    for (const row of series.values ?? []) {
      for (let i = 0; i < part.builders.length; i++) part.builders[i].push(row[i]);
      part.rows++;
      this.rows++;
    }
  }
}

const same = (a: string[], b: string[]) => a.length === b.length && a.every((item, i) => item === b[i]);

/** Rows of SQL: a line with columns and types, then a line per row. */
class SqlCollector {
  rows = 0;
  private part: Part | null = null;

  take(line: unknown): void {
    if (this.part === null) {
      const { columns, types } = line as { columns: string[]; types: string[] };
      const builders = columns.map((name, i) => new ColumnBuilder(name, types[i].startsWith("timestamp")));
      this.part = { statement: 0, name: "", tags: {}, columns, builders, rows: 0 };
      return;
    }
    const row = line as unknown[];
    for (let i = 0; i < this.part.builders.length; i++) this.part.builders[i].push(row[i]);
    this.part.rows++;
    this.rows++;
  }

  finish(): Collected {
    return { frames: this.part === null ? [] : [finished(this.part)], errors: [], notes: [], rows: this.rows };
  }
}

function buffers(frame: Frame): Transferable[] {
  return frame.columns.flatMap((column) => {
    if (column.kind === "time") return [column.ns.buffer, column.ms.buffer];
    if (column.kind === "text") return [column.codes.buffer];
    return column.kind === "number" ? [column.values.buffer] : [];
  }) as Transferable[];
}
