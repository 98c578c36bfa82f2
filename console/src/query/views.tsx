// The ways to look at an answer.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Answer } from "../data/frame";
import { tables } from "../data/tables";
import { HeatMap } from "../plot/heat_map";
import { Plot, type Range } from "../plot/plot";
import { drawing, SERIES_MAX } from "../plot/series";
import { SingleValue } from "../plot/single_value";
import { Grid } from "../ui/grid";
import { plural } from "../ui/numbers";

export const VIEWS = ["line", "area", "bars", "heat", "value", "table"] as const;
export type View = (typeof VIEWS)[number];

export const VIEW_NAMES: Record<View, string> = {
  line: "Line",
  area: "Area",
  bars: "Bars",
  heat: "Heat map",
  value: "Value",
  table: "Table",
};

interface Props {
  answer: Answer;
  view: View;
  label: string;
  range: Range | null;
  onRange(range: Range | null): void;
  legend?: boolean;
  /** What is shown instead of an answer without rows. */
  none?: ComponentChildren;
}

export function AnswerView({ answer, view, label, range, onRange, legend, none }: Props) {
  // A heat map does not tell series apart.
  const seriesMax = view === "heat" ? Infinity : SERIES_MAX;
  const drawn = useMemo(() => (view === "table" ? null : drawing(answer.frames, seriesMax)), [answer, view === "table", seriesMax]);
  if (answer.rows === 0) return <>{none ?? <p class="empty">No rows in the chosen range.</p>}</>;
  if (drawn === null || view === "table") return <Tables answer={answer} label={label} />;
  if (drawn.series.length === 0) {
    return (
      <>
        <p class="note">This answer has no numbers over time, so here is the table.</p>
        <Tables answer={answer} label={label} />
      </>
    );
  }
  return (
    <>
      {drawn.left > 0 && <p class="note">{plural(drawn.left, "further series is", "further series are")} not shown. Narrow the query, or look at the table.</p>}
      {view === "heat" ? (
        <HeatMap drawing={drawn} range={range} onRange={onRange} label={label} />
      ) : view === "value" ? (
        <SingleValue drawing={drawn} />
      ) : (
        <Plot drawing={drawn} style={view} range={range} onRange={onRange} label={label} legend={legend} />
      )}
    </>
  );
}

function Tables({ answer, label }: { answer: Answer; label: string }) {
  const all = useMemo(() => tables(answer.frames), [answer]);
  const [chosen, setChosen] = useState(0);
  const frame = all[Math.min(chosen, all.length - 1)];
  if (frame === undefined) return null;
  return (
    <div class="tables">
      {all.length > 1 && (
        <label class="field-inline">
          Table
          <select value={chosen} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
            {all.map((table, i) => (
              <option key={i} value={i}>
                {i + 1}: {table.name || "rows"} ({plural(table.rows, "row")})
              </option>
            ))}
          </select>
        </label>
      )}
      <Grid frame={frame} label={`${label}: ${frame.name || "rows"}`} />
    </div>
  );
}
