// The first steps: write a point, see it. For who has just started the server, and has read nothing yet.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { firstNumber, plotQuery, quoted as shortlyQuoted } from "../query/plot_query";
import { newestOf, reachOf } from "../query/range_with_data";
import { rangeParams } from "../query/range_picker";
import { name as quoted } from "../server/quoting";
import { ask, write } from "../server/run";
import * as schema from "../server/schema";
import { isAdmin, revision } from "../server/session";
import { Choice } from "../ui/choice";
import { plural } from "../ui/numbers";
import { go } from "../ui/route";
import { say } from "../ui/toast";
import { useLoaded } from "../ui/use_loaded";
import { MEASUREMENT, snippet, WAYS, type Way } from "./snippets";
import { Snippet } from "./snippet_view";
import { standing, type Standing } from "./standing";

const EVERY_MS = 3000;

export function StartPage() {
  const [way, setWay] = useState<Way>("curl");
  const [busy, setBusy] = useState(false);
  const who = isAdmin.value;
  const found = useLoaded(async () => (who === null ? undefined : standing()), [revision.value, who], EVERY_MS);
  const now = found.value;
  // A button that is disabled for the moment would lose the focus: it only says so.
  const writePoint = async ({ database, isMissing }: Standing) => {
    if (database === null || busy) return;
    setBusy(true);
    try {
      if (isMissing) await ask(`CREATE DATABASE ${quoted(database)}`);
      const celsius = (20 + Math.random() * 3).toFixed(2);
      await write(database, `${MEASUREMENT},room=kitchen celsius=${celsius}`);
      schema.forget();
      say(`Written: ${celsius} °C in the kitchen.`);
      found.again();
    } catch (error) {
      say((error as Error).message, "bad");
    } finally {
      setBusy(false);
    }
  };
  const database = now?.database ?? null;
  return (
    <div class="page start">
      <div class="hero">
        <h1>Write a first point</h1>
        <p>
          A point is a time with values. It belongs to a measurement, such as <code>{MEASUREMENT}</code>, and its tags, such as{" "}
          <code>room=kitchen</code>, say what was measured. There is nothing to define before.
        </p>
      </div>
      {found.error !== null && <p class="failure">{found.error}</p>}
      {now?.lacks && (
        <section class="card" aria-label="What is missing">
          <p>{now.lacks.words}</p>
          <Snippet text={now.lacks.statement} />
        </section>
      )}
      {now !== undefined && database !== null && (
        <>
          <Step number={1} title="Let the console write one">
            <p class="facts">
              It writes a temperature with the time of now to the database <code>{database}</code>
              {now.isMissing ? ", which it creates." : "."}
            </p>
            <div class="buttons">
              <button type="button" class="primary" onClick={() => void writePoint(now)} aria-disabled={busy}>
                Write a point
              </button>
              <span class="facts" role="status">
                {written(now)}
              </span>
            </div>
          </Step>
          <Step number={2} title="Or write from your own programs">
            <Choice label="Way to write" options={WAYS} value={way} onChoose={setWay} />
            <Snippet text={snippet(way, database, now.mayCreate)} />
          </Step>
        </>
      )}
      {now !== undefined && (database !== null || now.other !== null) && (
        <Step number={database === null ? 1 : 3} title="See it">
          <div class="buttons">
            <See now={now} />
          </div>
        </Step>
      )}
    </div>
  );
}

function Step({ number, title, children }: { number: number; title: string; children: ComponentChildren }) {
  return (
    <section class="card step" aria-label={`Step ${number}`}>
      <span class="step-number" aria-hidden="true">
        {number}
      </span>
      <div class="stack">
        <h2>{title}</h2>
        {children}
      </div>
    </section>
  );
}

function written({ points, other, lacks }: Standing): string {
  if (points > 0) return plural(points, "point is", "points are") + " there.";
  if (other !== null) return `There are points of “${other.measurement}” in “${other.database}”.`;
  // Who may not read does not know.
  return lacks === null ? "No points yet." : "";
}

/** Plots the points of the example, or whatever else there is. */
function See({ now: { database, points, other } }: { now: Standing }) {
  const example = () =>
    go("query", { language: "influxql", db: database ?? "", q: `SELECT celsius FROM ${MEASUREMENT} WHERE $timeFilter GROUP BY *`, last: "15m", view: "line" }, true);
  const plot = async ({ database, measurement }: NonNullable<Standing["other"]>) => {
    try {
      const field = firstNumber(await schema.fields(database, measurement));
      if (field === undefined) return;
      const source = shortlyQuoted(measurement);
      const reach = await reachOf(database, source, [field.name]);
      const range = rangeParams(reach === null ? { last: "1h" } : newestOf(reach));
      go("query", { language: "influxql", db: database, q: plotQuery(source, field), view: "line", ...range }, true);
    } catch (error) {
      say((error as Error).message, "bad");
    }
  };
  return (
    <button type="button" class="primary" disabled={points === 0 && other === null} onClick={() => (points > 0 || other === null ? example() : void plot(other))}>
      {other === null ? "Plot the temperatures" : `Plot “${other.measurement}”`}
    </button>
  );
}
