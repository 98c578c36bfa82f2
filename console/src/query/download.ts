// The whole answer as CSV, as the server writes it: nothing is rounded, and nothing left out. The query is asked again for it, so
// it only reads: what it changes was changed when it was run.

import type { Language } from "../data/request";
import { QueryError } from "../server/run";
import { identity, noteStatus } from "../server/session";

export async function downloadCsv(language: Language, text: string, database: string): Promise<void> {
  const headers: Record<string, string> = { Accept: "text/csv" };
  if (identity.value !== null) headers["Authorization"] = identity.value.authorization;
  const common = { method: "POST", credentials: "omit", cache: "no-store" } as const;
  let response: Response;
  if (language === "sql") {
    headers["Content-Type"] = "application/json";
    response = await fetch("/api/sql?read_only=true", { ...common, headers, body: JSON.stringify({ query: text, db: database }) });
  } else {
    // Chunks make the server send what it has instead of holding all of it.
    const body = new URLSearchParams({ db: database, q: text, chunked: "true" });
    response = await fetch("/query?read_only=true", { ...common, headers, body });
  }
  if (!response.ok) {
    noteStatus(response.status);
    throw new QueryError({ status: response.status, message: (await response.text()).trim() });
  }
  const url = URL.createObjectURL(await response.blob());
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = `nyala-${new Date().toISOString().slice(0, 19).replace(/:/g, "")}.csv`;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
