// Saves a query as a panel of a dashboard.

import { useEffect, useRef, useState } from "preact/hooks";
import { onlyReads } from "../dashboards/only_reads";
import { dashboards, save, type Dashboard, type Panel } from "../dashboards/store";
import { rightsOn } from "../server/rights";
import { isAdmin, revision } from "../server/session";
import { Dialog, useDialog } from "../ui/dialog";
import { go } from "../ui/route";
import { say } from "../ui/toast";
import { useLoaded } from "../ui/use_loaded";
import { measurementOf } from "./from_clause";
import { hasSecret } from "./history";

type Query = Pick<Panel, "language" | "text" | "view">;

export function Save({ database, range, ...query }: Query & { database: string; range: Record<string, string> }) {
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
        <Form database={database} range={range} query={query} />
      </Dialog>
    </>
  );
}

const NEW = "";

function Form({ database, range, query }: { database: string; range: Record<string, string>; query: Query }) {
  const [found, setFound] = useState<Dashboard[] | null>(null);
  const [chosen, setChosen] = useState(NEW);
  // Names that will do, so that nobody has to think of one first.
  const [name, setName] = useState(database);
  const [title, setTitle] = useState(measurementOf(query.text) ?? "");
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
    const panel: Panel = { ...query, title, size: "half" };
    const known = found?.find((dashboard) => dashboard.name === chosen);
    const changed = known !== undefined ? { ...known, panels: [...known.panels, panel] } : { name, version: 0, panels: [panel], range };
    try {
      await save(database, changed);
      go("dashboards", { db: database, name: changed.name });
    } catch (error) {
      say((error as Error).message, "bad");
    }
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
      <p class="facts">It is saved in the database {database}: everybody who may read it sees the panel.</p>
      <div class="buttons">
        <button type="submit" class="primary">
          Save
        </button>
      </div>
    </form>
  );
}
