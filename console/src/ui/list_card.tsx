// A part of a page that lists what the server was asked for, says why there is nothing to see, and shows the rows that there are.

import type { ComponentChildren } from "preact";
import { isOnline } from "../server/session";
import { Table, type Column } from "./table";
import type { Loaded } from "./use_loaded";

interface Props<T> {
  title: string;
  /** A sentence beside the title. */
  about?: string;
  list: Loaded<T[]>;
  /** What is said when there are none. */
  none: string;
  columns: Column<T>[];
  keyOf(row: T, index: number): string | number;
  actions?(row: T): ComponentChildren;
}

export function ListCard<T>({ title, about, list, none, ...table }: Props<T>) {
  const { value, error } = list;
  return (
    <section class="card" aria-label={title}>
      <div class="card-head">
        <h2>{title}</h2>
        {about !== undefined && <span class="facts">{about}</span>}
      </div>
      {error !== null && <p class="failure">{error}</p>}
      {error === null && isOnline.value && value?.length === 0 && <p class="facts">{none}</p>}
      {value !== undefined && value.length > 0 && <Table label={`${title}, as a table`} rows={value} {...table} />}
    </section>
  );
}
