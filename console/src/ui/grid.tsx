// A table of any number of rows, of which only those in sight are in the page.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { cell, isNull, type Column, type Frame } from "../data/frame";

const ROW_PIXELS = 28;
/** Browsers lose count beyond some ten million pixels; a longer table scrolls in larger steps. */
const HEIGHT_MAX_PIXELS = 8_000_000;
const EXTRA_ROWS = 8;

interface Sort {
  column: number;
  descending: boolean;
}

interface Props {
  frame: Frame;
  label: string;
  /** As high as its rows, up to a bound, instead of as high as there is room. */
  fits?: boolean;
}

const FITTING_MAX_PIXELS = 360;

export function Grid({ frame, label, fits = false }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 400 });
  const [sort, setSort] = useState<Sort | null>(null);
  const order = useMemo(() => (sort === null ? null : sorted(frame, sort)), [frame, sort]);
  const widths = useMemo(() => frame.columns.map((column) => widthOf(column, frame.rows)), [frame]);

  useLayoutEffect(() => {
    const element = scroller.current!;
    const measure = () => setView((view) => ({ ...view, height: element.clientHeight }));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    setSort(null);
    scroller.current!.scrollTop = 0;
    setView((view) => ({ ...view, top: 0 }));
  }, [frame]);

  const full = frame.rows * ROW_PIXELS;
  const height = Math.min(full, HEIGHT_MAX_PIXELS);
  const visible = Math.ceil(view.height / ROW_PIXELS);
  const share = height <= view.height ? 0 : Math.min(1, view.top / (height - view.height + ROW_PIXELS));
  const firstShown = full <= HEIGHT_MAX_PIXELS ? Math.floor(view.top / ROW_PIXELS) : Math.floor(share * Math.max(0, frame.rows - visible + 1));
  const first = Math.max(0, firstShown - EXTRA_ROWS);
  const last = Math.min(frame.rows, firstShown + visible + EXTRA_ROWS);
  const offset = full <= HEIGHT_MAX_PIXELS ? first * ROW_PIXELS : Math.min(view.top, height - visible * ROW_PIXELS) - (firstShown - first) * ROW_PIXELS;
  const columns = { gridTemplateColumns: widths.map((width) => `${width}fr`).join(" ") };
  // Head and rows are as wide as each other, and at least as wide as their texts.
  const least = { minWidth: `${widths.reduce((sum, width) => sum + width, 0)}ch` };

  return (
    <div
      class="grid"
      ref={scroller}
      style={fits ? { height: `${Math.min((frame.rows + 1) * ROW_PIXELS + 18, FITTING_MAX_PIXELS)}px`, flex: "none", minHeight: "0" } : undefined}
      tabIndex={0}
      role="table"
      aria-label={label}
      aria-rowcount={frame.rows + 1}
      aria-colcount={frame.columns.length}
      onScroll={(event) => {
        const { scrollTop } = event.currentTarget;
        setView((view) => ({ ...view, top: scrollTop }));
      }}
    >
      <div role="rowgroup" class="grid-head" style={least}>
        <div role="row" class="grid-row" style={columns} aria-rowindex={1}>
          {frame.columns.map((column, i) => (
            <div
              role="columnheader"
              key={i}
              class={column.kind === "number" ? "right" : ""}
              aria-sort={sort?.column === i ? (sort.descending ? "descending" : "ascending") : "none"}
            >
              <button type="button" onClick={() => setSort(next(sort, i))}>
                {column.name}
                <span aria-hidden="true">{sort?.column === i ? (sort.descending ? " ↓" : " ↑") : ""}</span>
              </button>
            </div>
          ))}
        </div>
      </div>
      <div role="rowgroup" class="grid-body" style={{ ...least, height: `${height}px` }}>
        <div class="grid-window" role="presentation" style={{ transform: `translateY(${Math.max(0, offset)}px)` }}>
          {Array.from({ length: Math.max(0, last - first) }, (_, i) => {
            const row = order === null ? first + i : order[first + i];
            return (
              <div role="row" class="grid-row" key={first + i} style={columns} aria-rowindex={first + i + 2}>
                {frame.columns.map((column, c) => (
                  <Cell key={c} column={column} row={row} />
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

function Cell({ column, row }: { column: Column; row: number }) {
  const isMissing = isNull(column, row);
  const text = isMissing ? "null" : cell(column, row);
  const kind = isMissing ? "null" : column.kind === "number" ? "right" : column.kind === "time" ? "time" : "";
  return (
    <div role="cell" class={kind} title={text.length > 30 ? text : undefined}>
      {text}
    </div>
  );
}

const next = (sort: Sort | null, column: number): Sort | null => {
  if (sort?.column !== column) return { column, descending: false };
  return sort.descending ? null : { column, descending: true };
};

function sorted(frame: Frame, { column, descending }: Sort): Uint32Array {
  const of = frame.columns[column];
  const order = Uint32Array.from({ length: frame.rows }, (_, row) => row);
  const sign = descending ? -1 : 1;
  if (of.kind === "other") {
    // Numbers, also those beyond 2^53, are compared as numbers, and everything else as it is shown.
    const isNumber = of.values.every((value) => value === null || typeof value === "number" || typeof value === "bigint");
    const keys = isNumber ? (of.values as (number | bigint | null)[]) : Array.from({ length: frame.rows }, (_, row) => cell(of, row));
    return order.sort((a, b) => {
      const [left, right] = [keys[a], keys[b]];
      if (left === null || right === null) return Number(left === null) - Number(right === null) || a - b;
      return sign * (left < right ? -1 : left > right ? 1 : 0) || a - b;
    });
  }
  const keys = of.kind === "time" ? of.ms : of.kind === "text" ? ranked(of) : of.values;
  // Nulls come last.
  return order.sort((a, b) => (Number.isNaN(keys[a]) ? 1 : 0) - (Number.isNaN(keys[b]) ? 1 : 0) || sign * (keys[a] - keys[b]) || a - b);
}

/** The place of each row's text among all texts; NaN is no text. */
function ranked({ codes, texts }: Extract<Column, { kind: "text" }>): Float64Array {
  const sorted = [...new Set(texts)].filter((text) => text !== null).sort();
  const ranks = new Map(sorted.map((text, rank) => [text, rank]));
  const rankOf = texts.map((text) => (text === null ? NaN : ranks.get(text)!));
  return Float64Array.from(codes, (code) => rankOf[code]);
}

/** The width of a column after its first rows, in characters. */
function widthOf(column: Column, rows: number): number {
  let longest = column.name.length + 2;
  for (let row = 0; row < Math.min(rows, 50); row++) longest = Math.max(longest, cell(column, row).length);
  return Math.min(longest, 60) + 4;
}
