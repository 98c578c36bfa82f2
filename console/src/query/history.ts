// Queries that were run before, kept by this browser. Statements that may hold a secret are never kept.

import { signal } from "@preact/signals";
import type { Language } from "../data/request";

export interface Past {
  text: string;
  language: Language;
  database: string;
  at: number;
}

const STORED = "nyala.history";
const KEPT_MAX = 100;

/** Words beside which secrets stand: of CREATE USER, SET PASSWORD, and of options of COPY. */
const NAMES_SECRET = /passw(or)?d|secret|access_?key|credential/i;
/** A URL with a user, who may have a password: of CREATE SUBSCRIPTION. Where it ends is not known for sure, so all is looked at. */
const HAS_USER = /:\/\/[^\s'"]*@/;

/**
 * Whether a statement may hold a secret, and so must not be kept, put into a URL, or saved in a dashboard. It is wrong about
 * some harmless ones, which costs little.
 */
export const hasSecret = (text: string) => NAMES_SECRET.test(text) || HAS_USER.test(text);

export const past = signal<Past[]>(restore());

export function remember(entry: Past): void {
  if (hasSecret(entry.text) || entry.text.length > 20_000) return;
  const others = past.value.filter(({ text, language, database }) => text !== entry.text || language !== entry.language || database !== entry.database);
  past.value = [entry, ...others].slice(0, KEPT_MAX);
  store();
}

export function clearHistory(): void {
  past.value = [];
  store();
}

function store(): void {
  try {
    localStorage.setItem(STORED, JSON.stringify(past.value));
  } catch {
    // A full or forbidden storage only means that nothing is remembered.
  }
}

function restore(): Past[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(STORED) ?? "[]");
    if (!Array.isArray(stored)) return [];
    // Another version may have kept what this one would not.
    const kept = (stored as Past[]).filter(({ text }) => typeof text === "string" && !hasSecret(text));
    if (kept.length < stored.length) localStorage.setItem(STORED, JSON.stringify(kept));
    return kept;
  } catch {
    return [];
  }
}
