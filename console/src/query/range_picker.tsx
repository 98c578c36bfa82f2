// The range of time that `$timeFilter` stands for.

import { useState } from "preact/hooks";
import { PRESETS, resolve, type TimeRange } from "./variables";

interface Props {
  range: TimeRange;
  onChange(range: TimeRange): void;
}

const input = (ms: number) => new Date(ms).toISOString().slice(0, 19);
const CUSTOM = "custom";

export function RangePicker({ range, onChange }: Props) {
  const { from, to } = resolve(range);
  const isAbsolute = !("last" in range);
  return (
    <span class="range-picker">
      <label class="field-inline">
        Last
        <select
          value={isAbsolute ? CUSTOM : range.last}
          onChange={(event) => onChange(event.currentTarget.value === CUSTOM ? { from, to } : { last: event.currentTarget.value })}
        >
          {PRESETS.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
          <option value={CUSTOM}>from … to</option>
        </select>
      </label>
      {isAbsolute && (
        <>
          <Moment label="From (UTC)" ms={from} onChange={(next) => next < to && onChange({ from: next, to })} />
          <Moment label="To (UTC)" ms={to} onChange={(next) => next > from && onChange({ from, to: next })} />
        </>
      )}
    </span>
  );
}

function Moment({ label, ms, onChange }: { label: string; ms: number; onChange(ms: number): void }) {
  const [draft, setDraft] = useState<string | null>(null);
  const commit = () => {
    const parsed = draft === null ? NaN : Date.parse(`${draft}Z`);
    if (!Number.isNaN(parsed)) onChange(parsed);
    setDraft(null);
  };
  return (
    <input
      type="datetime-local"
      step="1"
      aria-label={label}
      value={draft ?? input(ms)}
      onInput={(event) => setDraft(event.currentTarget.value)}
      onBlur={commit}
      onKeyDown={(event) => event.key === "Enter" && commit()}
    />
  );
}

/** The range as parameters of a link, and back. */
export const rangeParams = (range: TimeRange): Record<string, string> =>
  "last" in range ? { last: range.last } : { from: String(range.from), to: String(range.to) };

export function rangeOf(params: URLSearchParams): TimeRange {
  const [from, to] = [Number(params.get("from") ?? NaN), Number(params.get("to") ?? NaN)];
  if (from < to && Math.abs(from) < 8.6e15 && Math.abs(to) < 8.6e15) return { from, to };
  return { last: PRESETS.find(([value]) => value === params.get("last"))?.[0] ?? "1h" };
}
