// A table of a few rows, each of which is in the page; `grid.tsx` is for many. A column is its head and what its cells show.

import type { ComponentChildren } from "preact";

export interface Column<T> {
  head: string;
  /** Of numbers, which stand at the right. */
  right?: boolean;
  /** Of free text, which may be broken into lines. Names, numbers and times are not: the table is moved aside instead. */
  words?: boolean;
  cell(row: T): ComponentChildren;
}

interface Props<T> {
  label: string;
  caption?: string;
  columns: Column<T>[];
  rows: T[];
  /** Different for each row. */
  keyOf(row: T, index: number): string | number;
  /** The buttons of a row. */
  actions?(row: T): ComponentChildren;
}

export function Table<T>({ label, caption, columns, rows, keyOf, actions }: Props<T>) {
  const look = ({ right, words }: Column<T>) => (right === true ? "right" : words === true ? "words" : undefined);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="list">
        {caption !== undefined && <caption>{caption}</caption>}
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" class={look(column)} key={column.head}>
                {column.head}
              </th>
            ))}
            {actions !== undefined && (
              <th scope="col">
                <span class="hidden">Actions</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={keyOf(row, i)}>
              {columns.map((column) => (
                <td class={look(column)} key={column.head}>
                  {column.cell(row)}
                </td>
              ))}
              {actions !== undefined && <td class="actions">{actions(row)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
