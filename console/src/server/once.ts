// Answers that are kept until something changes, and their rows as texts.

import { cell, type Frame } from "../data/frame";

const kept = new Map<string, Promise<unknown>>();

/** Forgets everything: after changes, or for another user. */
export const forget = () => kept.clear();

export function once<T>(key: string, load: () => Promise<T>): Promise<T> {
  let found = kept.get(key) as Promise<T> | undefined;
  if (found === undefined) {
    found = load();
    kept.set(key, found);
    found.catch(() => kept.delete(key));
  }
  return found;
}

/** The cells of a column, as texts. */
export function texts(frame: Frame | undefined, column: string): string[] {
  const found = frame?.columns.find((c) => c.name === column);
  return found === undefined || frame === undefined ? [] : Array.from({ length: frame.rows }, (_, row) => cell(found, row));
}

/** The rows of a frame as objects of texts. */
export function records(frame: Frame | undefined): Record<string, string>[] {
  if (frame === undefined) return [];
  return Array.from({ length: frame.rows }, (_, row) =>
    Object.fromEntries(frame.columns.map((column) => [column.name, cell(column, row)])),
  );
}
