// The page of queries: editor above, answer below.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Answer } from "../data/frame";
import type { Language } from "../data/request";
import type { Range } from "../plot/plot";
import * as schema from "../server/schema";
import { QueryError, run, type Run } from "../server/run";
import { isOnline, revision } from "../server/session";
import { Choice } from "../ui/choice";
import { bytes, elapsed, plural } from "../ui/numbers";
import { mayRun, note, route } from "../ui/route";
import { say } from "../ui/toast";
import { useLoaded } from "../ui/use_loaded";
import { downloadCsv } from "./download";
import { Editor, type Fault } from "./editor";
import { hasSecret, remember } from "./history";
import { NoRows, type Asked } from "./no_rows";
import { PastQueries } from "./past_queries";
import { RangePicker, rangeOf, rangeParams } from "./range_picker";
import { Save } from "./save";
import { substitute, usesVariables, type TimeRange } from "./variables";
import { AnswerView, VIEWS, VIEW_NAMES, type View } from "./views";

interface Outcome {
  answer: Answer | null;
  asked: Asked | null;
  failure: { message: string; hint?: string } | null;
}

const REFINE_AFTER_MS = 300;
const LANGUAGES = ["influxql", "sql"] as const;

export function QueryPage() {
  const { params } = route.value;
  const [language, setLanguage] = useState<Language>(params.get("language") === "sql" ? "sql" : "influxql");
  const [database, setDatabase] = useState(params.get("db") ?? "");
  const [text, setText] = useState(params.get("q") ?? "");
  const [version, setVersion] = useState(0);
  const [range, setRange] = useState<TimeRange>(rangeOf(params));
  const [view, setView] = useState<View>(VIEWS.find((view) => view === params.get("view")) ?? "line");
  const [zoom, setZoom] = useState<Range | null>(null);
  const [running, setRunning] = useState<{ run: Run; begun: number } | null>(null);
  const [progress, setProgress] = useState({ rows: 0, bytes: 0 });
  const [outcome, setOutcome] = useState<Outcome>({ answer: null, asked: null, failure: null });
  const [fault, setFault] = useState<Fault | null>(null);
  const databases = useLoaded(schema.databases, [revision.value]);
  const current = useRef<Run | null>(null);
  const refining = useRef(0);
  const state = useRef({ language, database, text, view });
  state.current = { language, database, text, view };

  useEffect(() => {
    if (database === "" && databases.value !== undefined && databases.value.length > 0) {
      setDatabase(databases.value.find((name) => name !== "_internal") ?? databases.value[0]);
    }
  }, [databases.value]);

  /** What the page asks by itself only reads: somebody else may have written it, or it was meant to be done once. */
  const start = (asked: TimeRange = range, onlyReads = true) => {
    const { language, database, text, view } = state.current;
    if (text.trim() === "") return;
    current.current?.cancel();
    // A zoom that waits to ask would replace the answer by one of an older range.
    clearTimeout(refining.current);
    // Another query has other points: what was zoomed into may have none of them.
    if (outcome.asked !== null && outcome.asked.text !== text && !usesVariables(text)) setZoom(null);
    const substituted = substitute(text, language, asked);
    const started = run(language, substituted.text, database, { onlyReads, progress: (rows, bytes) => setProgress({ rows, bytes }) });
    current.current = started;
    setProgress({ rows: 0, bytes: 0 });
    setFault(null);
    setRunning({ run: started, begun: performance.now() });
    remember({ text, language, database, at: Date.now() });
    note("query", hasSecret(text) ? { language, db: database } : { language, db: database, q: text, view, ...rangeParams(asked) });
    const ended = (next: Outcome) => {
      if (current.current !== started) return;
      current.current = null;
      setRunning(null);
      setOutcome(next);
    };
    started.answer.then(
      (answer) => {
        if (/\b(create|drop|alter|insert|delete|into)\b/i.test(text)) schema.forget();
        ended({ answer, asked: { language, text, database, range: asked }, failure: answer.errors.length > 0 ? { message: answer.errors.join("\n") } : null });
      },
      (error: QueryError) => {
        const { message, position, hint, cancelled } = error.failure;
        ended({ answer: null, asked: null, failure: { message: cancelled === true ? "Cancelled." : message, hint } });
        if (position !== undefined && current.current === null) setFault({ message, position: substituted.original(position) });
      },
    );
  };

  useEffect(() => {
    if (mayRun()) start();
    return () => current.current?.cancel();
  }, []);

  const changeRange = (next: TimeRange) => {
    setZoom(null);
    setRange(next);
    clearTimeout(refining.current);
    if (usesVariables(text) && outcome.answer !== null) start(next);
  };

  /** Shows the range at once from what is there, and then asks for it with an interval that suits it. */
  const changeZoom = (next: Range | null) => {
    setZoom(next);
    clearTimeout(refining.current);
    if (!usesVariables(state.current.text)) return;
    refining.current = window.setTimeout(() => {
      if (next === null) return start(range);
      const asked = { from: Math.floor(next.from), to: Math.ceil(next.to) };
      start(asked);
    }, REFINE_AFTER_MS);
  };

  const share = async () => {
    if (hasSecret(text)) return say("This statement may hold a password or a key, so it is not put into a link.", "bad");
    const shown = zoom === null ? range : { from: Math.floor(zoom.from), to: Math.ceil(zoom.to) };
    note("query", { language, db: database, q: text, view, ...rangeParams(shown) });
    try {
      await navigator.clipboard.writeText(location.href);
      say("The link is in the clipboard. Who opens it sees the query; it runs when they press Run.");
    } catch {
      say("Copy the address of this page: it has the query.");
    }
  };

  const download = async () => {
    try {
      await downloadCsv(language, substitute(text, language, zoom ?? range).text, database);
    } catch (error) {
      say((error as Error).message, "bad");
    }
  };

  const { answer, asked, failure } = outcome;
  return (
    <div class="page query-page">
      <h1 class="hidden">Query</h1>
      <div class="toolbar">
        <Choice
          label="Language"
          options={LANGUAGES}
          value={language}
          onChoose={setLanguage}
          words={(one) => (one === "sql" ? "SQL" : "InfluxQL")}
          look="segmented"
        />
        <label class="field-inline">
          Database
          <select value={database} onChange={(event) => setDatabase(event.currentTarget.value)}>
            {[...new Set([database, ...(databases.value ?? [])])].map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <RangePicker range={range} onChange={changeRange} />
        <span class="buttons">
          <PastQueries
            onChoose={(past) => {
              setLanguage(past.language);
              setDatabase(past.database);
              setText(past.text);
              setVersion(version + 1);
              setFault(null);
            }}
          />
          <button type="button" class="quiet" onClick={share} disabled={text === ""}>
            Share
          </button>
          <Save language={language} database={database} text={text} view={view} range={range} onFault={setFault} />
          {running === null ? (
            <button type="button" class="primary" onClick={() => start(zoom ?? range, false)} disabled={text.trim() === "" || !isOnline.value}>
              Run
            </button>
          ) : (
            <button type="button" class="danger" onClick={() => running.run.cancel()}>
              Cancel
            </button>
          )}
        </span>
      </div>
      <Editor
        text={text}
        version={version}
        language={language}
        database={database}
        fault={fault}
        onChange={(next) => {
          // Whoever presses Control and Enter at once runs what is there, not what was drawn last.
          state.current.text = next;
          setText(next);
          setFault(null);
        }}
        onRun={() => start(zoom ?? range, false)}
      />
      {failure !== null && (
        <div class="failure" role="alert">
          <p>{failure.message}</p>
          {failure.hint !== undefined && <p class="hint">{failure.hint}</p>}
        </div>
      )}
      <section class="result" aria-label="Answer" aria-busy={running !== null}>
        <div class="result-bar">
          <Choice label="View" options={VIEWS} value={view} onChoose={setView} words={(one) => VIEW_NAMES[one]} />
          <span class="spacer" />
          <p class="facts" role="status">
            {running !== null ? <Clock begun={running.begun} progress={progress} /> : answer !== null && facts(answer)}
          </p>
          {zoom !== null && (
            <span class="buttons">
              <button type="button" class="quiet" onClick={() => changeZoom(scaled(zoom, 2))}>
                Zoom out
              </button>
              <button type="button" class="quiet" onClick={() => changeZoom(null)}>
                Show all
              </button>
            </span>
          )}
          {answer !== null && answer.rows > 0 && (
            <button type="button" class="quiet" onClick={download}>
              CSV
            </button>
          )}
        </div>
        {answer?.cut === true && <p class="note">The answer goes on: these are its first {plural(answer.rows, "row")}. Narrow the query, or download all as CSV.</p>}
        {answer?.notes.map((words) => <p class="note" key={words}>{words}</p>)}
        <div class="result-body">
          {answer !== null ? (
            <AnswerView answer={answer} view={view} label="Answer" range={zoom} onRange={changeZoom} none={asked === null ? undefined : <NoRows key={asked.text} asked={asked} onRange={changeRange} />} />
          ) : (
            failure === null && <Invitation />
          )}
        </div>
      </section>
    </div>
  );
}

const scaled = ({ from, to }: Range, factor: number): Range => {
  const edge = ((to - from) * (factor - 1)) / 2;
  return { from: from - edge, to: to + edge };
};

function facts({ rows, bytes: size, elapsedMs, frames }: Answer): string {
  const series = frames.length > 1 ? `${plural(frames.length, "series", "series")}, ` : "";
  return `${series}${plural(rows, "row")}, ${bytes(size)} in ${elapsed(elapsedMs)}`;
}

function Clock({ begun, progress }: { begun: number; progress: { rows: number; bytes: number } }) {
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 100);
    return () => clearInterval(timer);
  }, []);
  const rows = progress.rows > 0 ? ` · ${plural(progress.rows, "row")}, ${bytes(progress.bytes)}` : "";
  return (
    <span class="clock">
      {elapsed(Math.max(0, now - begun))}
      {rows}
    </span>
  );
}

function Invitation() {
  return (
    <div class="empty">
      <p>
        Write a query, or pick a field in the <a href="#/explore">explorer</a>.
      </p>
      <p>
        With <code>$timeFilter</code> and <code>$interval</code> the query follows the range above, and zooming into the plot asks
        again with a finer interval.
      </p>
    </div>
  );
}
