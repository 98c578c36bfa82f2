// A panel: a query that is asked again when the range changes or the time has come, and its answer.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Answer } from "../data/frame";
import { NoRows } from "../query/no_rows";
import { rangeParams } from "../query/range_picker";
import { resolve, substitute, type TimeRange } from "../query/variables";
import { AnswerView } from "../query/views";
import { run, type QueryError, type Run } from "../server/run";
import { go } from "../ui/route";
import { onlyReads } from "./only_reads";
import type { Panel } from "./store";

interface Props {
  panel: Panel;
  database: string;
  range: TimeRange;
  /** Counts up when the panel should ask again. */
  turn: number;
  onRange(range: TimeRange): void;
  onChange: ((panel: Panel | null) => void) | null;
  onMove: ((by: number) => void) | null;
}

const SIZES: [Panel["size"], string][] = [
  ["narrow", "Quarter"],
  ["half", "Half"],
  ["wide", "Full width"],
];

export function PanelView({ panel, database, range, turn, onRange, onChange, onMove }: Props) {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [error, setError] = useState<string | null>(null);
  const current = useRef<Run | null>(null);
  const reads = onlyReads(panel);

  useEffect(() => {
    if (!reads) return;
    const { text } = substitute(panel.text, panel.language, range);
    const started = run(panel.language, text, database, { onlyReads: true });
    current.current = started;
    started.answer.then(
      (answer) => {
        if (current.current !== started) return;
        setAnswer(answer);
        setError(answer.errors[0] ?? null);
      },
      (failed: QueryError) => {
        if (current.current === started && failed.failure.cancelled !== true) setError(failed.message);
      },
    );
    return () => {
      current.current = null;
      started.cancel();
    };
  }, [panel.text, panel.language, database, range, turn]);

  const open = () => go("query", { language: panel.language, db: database, q: panel.text, view: panel.view, ...rangeParams(range) }, reads);
  const title = panel.title || "Untitled";
  return (
    <section class={`panel ${panel.size}`} aria-label={title}>
      <div class="panel-head">
        {onChange === null ? (
          <h2 title={title}>{title}</h2>
        ) : (
          <>
            <input aria-label="Title of the panel" value={panel.title} onInput={(event) => onChange({ ...panel, title: event.currentTarget.value })} />
            <select aria-label="Width" value={panel.size} onChange={(event) => onChange({ ...panel, size: event.currentTarget.value as Panel["size"] })}>
              {SIZES.map(([size, words]) => (
                <option key={size} value={size}>
                  {words}
                </option>
              ))}
            </select>
            <button type="button" class="plain" aria-label={`Move ${title} back`} onClick={() => onMove?.(-1)}>
              ←
            </button>
            <button type="button" class="plain" aria-label={`Move ${title} on`} onClick={() => onMove?.(1)}>
              →
            </button>
            <button type="button" class="plain bad" aria-label={`Remove ${title}`} onClick={() => onChange(null)}>
              ✕
            </button>
          </>
        )}
        {onChange === null && (
          <button type="button" class="plain" onClick={open} aria-label={`Open ${title} as a query`}>
            Open
          </button>
        )}
      </div>
      <div class="panel-body">
        {!reads && <p class="note">This statement does not only read, or has a word such as DROP or nextval in it, so a dashboard does not run it. Open it to see it.</p>}
        {error !== null && <p class="failure">{error}</p>}
        {answer !== null && (
          <AnswerView
            answer={answer}
            view={panel.view}
            label={title}
            range={panel.text.includes("$timeFilter") ? resolve(range) : null}
            onRange={(next) => next !== null && onRange({ from: Math.floor(next.from), to: Math.ceil(next.to) })}
            none={<NoRows key={JSON.stringify([panel.text, range])} asked={{ language: panel.language, text: panel.text, database, range }} onRange={onRange} />}
          />
        )}
      </div>
    </section>
  );
}
