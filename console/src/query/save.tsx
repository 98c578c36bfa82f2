// Saves a query as a panel of a dashboard.

import { useEffect, useRef, useState } from "preact/hooks";
import { doubtOf, type Doubt } from "../dashboards/check";
import { onlyReads } from "../dashboards/only_reads";
import { dashboards, save, type Dashboard, type Panel } from "../dashboards/store";
import { rightsOn } from "../server/rights";
import { isAdmin, revision } from "../server/session";
import { Dialog, useDialog } from "../ui/dialog";
import { go } from "../ui/route";
import { say } from "../ui/toast";
import { useLoaded } from "../ui/use_loaded";
import type { Fault } from "./editor";
import { measurementOf } from "./from_clause";
import { hasSecret } from "./history";
import { rangeParams } from "./range_picker";
import type { TimeRange } from "./variables";

type Query = Pick<Panel, "language" | "text" | "view">;

interface Place {
  database: string;
  range: TimeRange;
  /** Told where the query has an error. */
  onFault(fault: Fault): void;
}

export function Save({ database, range, onFault, ...query }: Query & Place) {
  const dialog = useDialog();
  const rights = useLoaded(async () => (database === "" ? null : rightsOn(database)), [database, revision.value, isAdmin.value]);
  if (rights.value?.writes !== true) return null;
  return (
    <>
      <button
        type="button"
        class="quiet"
        title="As a panel of a dashboard, which runs only what reads"
        onClick={dialog.open}
        disabled={query.text.trim() === "" || database === "" || !onlyReads(query) || hasSecret(query.text)}
      >
        Save
      </button>
      <Dialog dialog={dialog} title="Save as a panel">
        <Form database={database} range={range} onFault={onFault} query={query} />
      </Dialog>
    </>
  );
}

const NEW = "";

function Form({ database, range, onFault, query }: Place & { query: Query }) {
  const [found, setFound] = useState<Dashboard[] | null>(null);
  const [chosen, setChosen] = useState(NEW);
  // Names that will do, so that nobody has to think of one first.
  const [name, setName] = useState(database);
  const [title, setTitle] = useState(measurementOf(query.text) ?? "");
  const [doubt, setDoubt] = useState<Doubt | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  useEffect(() => {
    dashboards(database).then(
      (list) => {
        setFound(list);
        setChosen(list[0]?.name ?? NEW);
      },
      (error: Error) => say(error.message, "bad"),
    );
  }, [database]);
  // The fields come after the dialog has been opened.
  const first = useRef<HTMLSelectElement>(null);
  useEffect(() => first.current?.focus(), [found === null]);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy || doubt?.isFinal === true) return;
    setIsBusy(true);
    try {
      await checkAndSave();
    } catch (error) {
      say((error as Error).message, "bad");
    } finally {
      setIsBusy(false);
    }
  };
  const checkAndSave = async () => {
    // Who has been told, and saves again, means it.
    const found = doubt === null ? await doubtOf(query.language, query.text, database, range) : null;
    if (found !== null) {
      setDoubt(found);
      if (found.position !== undefined) onFault({ message: found.message, position: found.position });
      return;
    }
    await keep();
  };
  const keep = async () => {
    const panel: Panel = { ...query, title, size: "half" };
    const known = found?.find((dashboard) => dashboard.name === chosen);
    const changed = known !== undefined ? { ...known, panels: [...known.panels, panel] } : { name, version: 0, panels: [panel], range: rangeParams(range) };
    await save(database, changed);
    go("dashboards", { db: database, name: changed.name });
  };
  if (found === null) return <p class="facts">Looking for dashboards…</p>;
  return (
    <form class="stack" onSubmit={submit}>
      <label class="field">
        <span>Dashboard</span>
        <select ref={first} value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
          {found.map((dashboard) => (
            <option key={dashboard.name} value={dashboard.name}>
              {dashboard.name}
            </option>
          ))}
          <option value={NEW}>A new one</option>
        </select>
      </label>
      {chosen === NEW && (
        <label class="field">
          <span>Name of the dashboard</span>
          <input name="dashboard" required maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
      )}
      <label class="field">
        <span>Title of the panel</span>
        <input name="title" maxLength={200} value={title} onInput={(event) => setTitle(event.currentTarget.value)} />
      </label>
      <div class="field">
        <span id="panel-query">Query</span>
        <pre class="panel-query" tabIndex={0} role="group" aria-labelledby="panel-query" aria-describedby={doubt === null ? undefined : "panel-doubt"}>
          {query.text}
        </pre>
        <div role="alert" id="panel-doubt">
          {doubt !== null && (
            <div class="failure">
              <p>{doubt.message}</p>
              {doubt.hint !== undefined && <p class="hint">{doubt.hint}</p>}
              <p class="hint">{doubt.isFinal ? "A panel that cannot be run is not saved. Correct the query first." : "The panel would show this error. Save it if that will change."}</p>
            </div>
          )}
        </div>
      </div>
      <p class="facts">It is saved in the database {database}: everybody who may read it sees the panel.</p>
      <div class="buttons">
        <button type="submit" class="primary" aria-disabled={isBusy || doubt?.isFinal === true}>
          {doubt?.isFinal === false ? "Save anyway" : "Save"}
        </button>
      </div>
    </form>
  );
}
