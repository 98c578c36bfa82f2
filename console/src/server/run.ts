// Runs queries in the worker.

import type { Answer } from "../data/frame";
import type { Ask, Failure, FromWorker, Language } from "../data/request";
import { authorizationOf, identity, isOnline, noteStatus } from "./session";

/** More rows are not held by the page: it says so, and offers the download. */
export const ROWS_MAX = 2_000_000;

export class QueryError extends Error {
  constructor(readonly failure: Failure) {
    super(failure.message);
  }
}

export interface Run {
  answer: Promise<Answer>;
  cancel(): void;
}

interface Waiting {
  resolve(answer: Answer): void;
  reject(error: QueryError): void;
  progress?: (rows: number, bytes: number) => void;
}

let worker: Worker | null = null;
let last = 0;
const waiting = new Map<number, Waiting>();

interface Options {
  /** Told how much has come. */
  progress?(rows: number, bytes: number): void;
  /** Instead of those of who has logged in. */
  credentials?: { user: string; password: string };
  /** The server is to refuse whatever changes something. */
  onlyReads?: boolean;
  /** After so many rows the query is ended. */
  rowsMax?: number;
}

/** Sends a query. Its answer rejects with a QueryError. */
export function run(language: Language, text: string, database: string, { progress, credentials, onlyReads = false, rowsMax = ROWS_MAX }: Options = {}): Run {
  const port = (worker ??= start());
  const id = ++last;
  const authorization =
    credentials === undefined
      ? (identity.value?.authorization ?? null)
      : authorizationOf(credentials.user, credentials.password);
  const ask: Ask = { language, text, database, authorization, rowsMax, onlyReads };
  const answer = new Promise<Answer>((resolve, reject) => waiting.set(id, { resolve, reject, progress }));
  port.postMessage({ id, ask });
  return { answer, cancel: () => port.postMessage({ id, cancel: true }) };
}

/** The answer to statements of InfluxQL; the first error of one rejects. */
export async function ask(text: string, database = ""): Promise<Answer> {
  const answer = await run("influxql", text, database).answer;
  if (answer.errors.length > 0) throw new QueryError({ status: 200, message: answer.errors[0] });
  return answer;
}

/** The answer to a statement of SQL. */
export const askSql = (text: string, database: string): Promise<Answer> => run("sql", text, database).answer;

/** The policy of the page lets no text become script or markup; this one address is allowed by name. */
function workerUrl(): string {
  const path = "/console/worker.js";
  const { trustedTypes } = window as unknown as {
    trustedTypes?: { createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): string } };
  };
  return trustedTypes?.createPolicy("worker", { createScriptURL: () => path }).createScriptURL(path) ?? path;
}

function start(): Worker {
  const started = new Worker(workerUrl());
  started.onmessage = ({ data }: MessageEvent<FromWorker>) => {
    const waits = waiting.get(data.id);
    if (waits === undefined) return;
    if ("rows" in data) return waits.progress?.(data.rows, data.bytes);
    waiting.delete(data.id);
    if ("answer" in data) {
      isOnline.value = true;
      return waits.resolve(data.answer);
    }
    if (data.failure.cancelled !== true) noteStatus(data.failure.status);
    waits.reject(new QueryError(data.failure));
  };
  return started;
}

/** A text of the server, such as its metrics. */
export async function get(path: string): Promise<string> {
  const headers: Record<string, string> = {};
  if (identity.value !== null) headers["Authorization"] = identity.value.authorization;
  let response: Response;
  try {
    response = await fetch(path, { headers, credentials: "omit", cache: "no-store" });
  } catch {
    noteStatus(0);
    throw new QueryError({ status: 0, message: "the server cannot be reached" });
  }
  const text = await response.text();
  if (response.ok) return text;
  noteStatus(response.status);
  throw new QueryError({ status: response.status, message: text.trim() || response.statusText });
}

/** Writes points in line protocol. */
export async function write(database: string, lines: string): Promise<void> {
  const headers: Record<string, string> = {};
  if (identity.value !== null) headers["Authorization"] = identity.value.authorization;
  const path = `/write?db=${encodeURIComponent(database)}`;
  const response = await fetch(path, { method: "POST", body: lines, headers, credentials: "omit" });
  if (response.ok) return;
  noteStatus(response.status);
  const text = await response.text();
  let message = text.trim();
  try {
    message = (JSON.parse(text) as { error: string }).error;
  } catch {
    // Shown as it is.
  }
  throw new QueryError({ status: response.status, message });
}
