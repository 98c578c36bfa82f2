// The frames of an answer as tables: series of the same columns are one table, with their tags as columns.

import type { Column, Frame } from "./frame";

/** Tables of an answer, in its order. */
export function tables(frames: Frame[]): Frame[] {
  const groups = new Map<string, Frame[]>();
  for (const frame of frames) {
    const key = JSON.stringify([frame.statement, frame.columns.map(({ name }) => name), Object.keys(frame.tags)]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [frame]);
    else group.push(frame);
  }
  return [...groups.values()].map(merged);
}

function merged(group: Frame[]): Frame {
  const [first] = group;
  const tagKeys = Object.keys(first.tags);
  if (group.length === 1 && tagKeys.length === 0) return first;
  const rows = group.reduce((sum, frame) => sum + frame.rows, 0);
  const names = new Set(group.map(({ name }) => name));
  const labels: [string, (frame: Frame) => string][] = tagKeys.map((key) => [key, (frame) => frame.tags[key]]);
  if (names.size > 1) labels.unshift(["name", (frame) => frame.name]);
  const columns: Column[] = labels.map(([name, of]) => {
    const codes = new Uint32Array(rows);
    let at = 0;
    group.forEach((frame, code) => {
      codes.fill(code, at, at + frame.rows);
      at += frame.rows;
    });
    return { name, kind: "text", codes, texts: group.map(of) };
  });
  const time = first.columns.findIndex(({ kind }) => kind === "time");
  first.columns.forEach((_, i) => columns.push(concatenated(group.map((frame) => frame.columns[i]), rows)));
  // The time comes first, as it does without tags.
  if (time >= 0) columns.unshift(...columns.splice(labels.length + time, 1));
  return { statement: first.statement, name: names.size > 1 ? "" : first.name, tags: {}, columns, rows };
}

function concatenated(parts: Column[], rows: number): Column {
  const { name } = parts[0];
  if (parts.every((part) => part.kind === "time")) {
    const ns = new BigInt64Array(rows);
    const ms = new Float64Array(rows);
    let at = 0;
    for (const part of parts) {
      ns.set(part.ns, at);
      ms.set(part.ms, at);
      at += part.ns.length;
    }
    return { name, kind: "time", ns, ms };
  }
  if (parts.every((part) => part.kind === "number")) {
    const values = new Float64Array(rows);
    let at = 0;
    for (const part of parts) {
      values.set(part.values, at);
      at += part.values.length;
    }
    return { name, kind: "number", values };
  }
  const values: unknown[] = [];
  for (const part of parts) {
    if (part.kind === "text") for (const code of part.codes) values.push(part.texts[code]);
    else if (part.kind === "other") for (const value of part.values) values.push(value);
    else if (part.kind === "number") for (const value of part.values) values.push(Number.isNaN(value) ? null : value);
    else for (const value of part.ns) values.push(value);
  }
  return { name, kind: "other", values };
}
