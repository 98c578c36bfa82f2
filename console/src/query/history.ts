// Queries that were run before, kept by this browser. Statements that set passwords are never kept.

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

/** Whether a statement may hold a secret, and so must not be kept or put into a URL. */
export const hasSecret = (text: string) => /\bpassword\b/i.test(text);

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
    return Array.isArray(stored) ? (stored as Past[]).filter(({ text }) => typeof text === "string") : [];
  } catch {
    return [];
  }
}
