// Where in the console the user is: `#/query?db=home&q=…`. It stands in the URL's fragment, which browsers do not send.

import { signal } from "@preact/signals";

export interface Route {
  page: string;
  params: URLSearchParams;
  /** Differs each time that somebody went there, but not when the page notes something in its URL. */
  visit: number;
}

let visits = 0;

const read = (): Route => {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { page: path, params: new URLSearchParams(query), visit: visits };
};

export const route = signal<Route>(read());
addEventListener("hashchange", arrive);

function arrive(): void {
  visits++;
  route.value = read();
}

/** What a page hands to the next one beyond the URL: that its query may run at once. */
let handed = false;

/** The link to a place. */
export function link(page: string, params: Record<string, string> = {}): string {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== ""));
  return `#/${page}${query.size > 0 ? `?${query}` : ""}`;
}

export function go(page: string, params: Record<string, string> = {}, runs = false): void {
  handed = runs;
  const to = link(page, params);
  if (location.hash === to) arrive();
  else location.hash = to;
}

/** Changes the URL without going anywhere. */
export function note(page: string, params: Record<string, string>): void {
  history.replaceState(null, "", link(page, params));
  route.value = read();
}

/**
 * Whether the console itself, not a link from elsewhere, asked for the page's query. A link must never run a statement by
 * itself: it could drop a database. What runs by itself only reads, whoever asked for it.
 */
export function mayRun(): boolean {
  const may = handed;
  handed = false;
  return may;
}
