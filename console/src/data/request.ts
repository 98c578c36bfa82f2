// What the page asks the worker for, and what it says in return.

import type { Answer } from "./frame";

export type Language = "influxql" | "sql";

/** A query, ready to be sent. Its credentials travel in a header, never in the URL. */
export interface Ask {
  language: Language;
  text: string;
  database: string;
  authorization: string | null;
  rowsMax: number;
  /** The server is to refuse whatever changes something. */
  onlyReads: boolean;
}

/** Why there is no answer. */
export interface Failure {
  message: string;
  /** The status of the response; 0: the server could not be reached. */
  status: number;
  /** Where in the text, in units of UTF-16 from 0. */
  position?: number;
  hint?: string;
  /** The code of SQL's errors. */
  code?: string;
  cancelled?: boolean;
}

export type ToWorker = { id: number; ask: Ask } | { id: number; cancel: true };

export type FromWorker =
  | { id: number; rows: number; bytes: number }
  | { id: number; answer: Answer }
  | { id: number; failure: Failure };
