// Dashboards of a database: the list, and one of them with its panels.

import { useEffect, useState } from "preact/hooks";
import { RangePicker, rangeOf, rangeParams } from "../query/range_picker";
import type { TimeRange } from "../query/variables";
import { rightsOn } from "../server/rights";
import * as schema from "../server/schema";
import { isOnline, revision } from "../server/session";
import { Confirm, Dialog, useDialog } from "../ui/dialog";
import { plural } from "../ui/numbers";
import { go, link, route } from "../ui/route";
import { say } from "../ui/toast";
import { useLoaded } from "../ui/use_loaded";
import { PanelView } from "./panel_view";
import { dashboards, drop, save, type Dashboard } from "./store";

export function DashboardsPage() {
  const { params } = route.value;
  const databases = useLoaded(schema.databases, [revision.value]);
  const database = params.get("db") ?? databases.value?.find((name) => name !== "_internal") ?? "";
  const found = useLoaded(async () => (database === "" ? [] : dashboards(database)), [database, revision.value]);
  const mayWrite = useLoaded(async () => database !== "" && (await rightsOn(database)).writes, [database, revision.value]).value === true;
  const name = params.get("name");
  const chosen = found.value?.find((dashboard) => dashboard.name === name);
  if (chosen !== undefined) return <One key={`${database}\n${chosen.name}`} database={database} saved={chosen} mayWrite={mayWrite} onSaved={found.again} />;
  return (
    <div class="page">
      <div class="page-head">
        <h1>Dashboards</h1>
        <label class="field-inline">
          Database
          <select value={database} onChange={(event) => go("dashboards", { db: event.currentTarget.value })}>
            {[...new Set([database, ...(databases.value ?? [])])].map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
        <span class="spacer" />
        {mayWrite && <New database={database} />}
      </div>
      {found.error !== null && <p class="failure">{found.error}</p>}
      {name !== null && found.value !== undefined && <p class="note">There is no dashboard “{name}” in this database.</p>}
      {found.value?.length === 0 ? (
        <div class="empty">
          <p>No dashboards yet. They are saved in the database that they show, so everybody who may read it sees them.</p>
          {mayWrite && (
            <p>
              Create one, then add panels with “Save” on the <a href={link("query", { db: database })}>query page</a>.
            </p>
          )}
        </div>
      ) : (
        <ul class="cards">
          {found.value?.map((dashboard) => (
            <li key={dashboard.name}>
              <a class="card dashboard-card" href={link("dashboards", { db: database, name: dashboard.name })}>
                <h2>{dashboard.name}</h2>
                <span class="facts">{plural(dashboard.panels.length, "panel")}</span>
              </a>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function New({ database }: { database: string }) {
  const dialog = useDialog();
  const [name, setName] = useState("");
  const create = async (event: Event) => {
    event.preventDefault();
    try {
      await save(database, { name, version: 0, panels: [], range: { last: "1h" } });
      dialog.close();
      revision.value++;
      go("dashboards", { db: database, name });
    } catch (error) {
      say((error as Error).message, "bad");
    }
  };
  return (
    <>
      <button type="button" class="primary" onClick={dialog.open}>
        New dashboard
      </button>
      <Dialog dialog={dialog} title="New dashboard">
        <form class="stack" onSubmit={create}>
          <label class="field">
            <span>Name</span>
            <input value={name} required maxLength={200} onInput={(event) => setName(event.currentTarget.value)} />
          </label>
          <p class="facts">It is saved in the database {database}.</p>
          <div class="buttons">
            <button class="primary" type="submit">
              Create
            </button>
          </div>
        </form>
      </Dialog>
    </>
  );
}

const REFRESH: [number, string][] = [
  [0, "never"],
  [5, "5 s"],
  [10, "10 s"],
  [30, "30 s"],
  [60, "1 min"],
  [300, "5 min"],
];

interface OneProps {
  database: string;
  saved: Dashboard;
  /** Whether the user may change it. */
  mayWrite: boolean;
  onSaved(): void;
}

function One({ database, saved, mayWrite, onSaved }: OneProps) {
  const [draft, setDraft] = useState<Dashboard | null>(null);
  const [range, setRange] = useState<TimeRange>(rangeOf(new URLSearchParams(saved.range)));
  const [every, setEvery] = useState(Number(saved.range.refresh ?? 0));
  const [turn, setTurn] = useState(0);
  const dropping = useDialog();
  const shown = draft ?? saved;

  useEffect(() => {
    if (every <= 0) return;
    const timer = setInterval(() => {
      if (!document.hidden && isOnline.value) setTurn((turn) => turn + 1);
    }, every * 1000);
    return () => clearInterval(timer);
  }, [every]);

  const keep = async () => {
    try {
      await save(database, { ...shown, range: { ...rangeParams(range), refresh: String(every) } });
      setDraft(null);
      onSaved();
      say("Saved.");
    } catch (error) {
      say((error as Error).message, "bad");
    }
  };
  const change = (i: number, panel: Dashboard["panels"][number] | null) =>
    setDraft({ ...shown, panels: panel === null ? shown.panels.toSpliced(i, 1) : shown.panels.with(i, panel) });
  const move = (i: number, by: number) => {
    const to = i + by;
    if (to < 0 || to >= shown.panels.length) return;
    const panels = [...shown.panels];
    [panels[i], panels[to]] = [panels[to], panels[i]];
    setDraft({ ...shown, panels });
  };
  return (
    <div class="page">
      <div class="page-head">
        <a href={link("dashboards", { db: database })}>Dashboards</a>
        <h1>{saved.name}</h1>
        <span class="tag">{database}</span>
        <span class="spacer" />
        <RangePicker range={range} onChange={setRange} />
        <label class="field-inline">
          Refresh
          <select value={every} onChange={(event) => setEvery(Number(event.currentTarget.value))}>
            {REFRESH.map(([seconds, words]) => (
              <option key={seconds} value={seconds}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <button type="button" class="quiet" onClick={() => setTurn(turn + 1)}>
          Now
        </button>
        {!mayWrite ? null : draft === null ? (
          <button type="button" class="quiet" onClick={() => setDraft(saved)}>
            Edit
          </button>
        ) : (
          <>
            <button type="button" class="primary" onClick={keep}>
              Save
            </button>
            <button type="button" class="quiet" onClick={() => setDraft(null)}>
              Discard
            </button>
            <button type="button" class="quiet" onClick={dropping.open}>
              Drop
            </button>
          </>
        )}
      </div>
      {shown.panels.length === 0 && (
        <p class="empty">
          <span>
            No panels yet. {mayWrite && <><a href={link("query", { db: database })}>Write a query</a> and press “Save”.</>}
          </span>
        </p>
      )}
      <div class="panels">
        {shown.panels.map((panel, i) => (
          <PanelView
            key={i}
            panel={panel}
            database={database}
            range={range}
            turn={turn + revision.value}
            onRange={setRange}
            onChange={draft === null ? null : (next) => change(i, next)}
            onMove={draft === null ? null : (by) => move(i, by)}
          />
        ))}
      </div>
      <Confirm
        dialog={dropping}
        title="Drop this dashboard?"
        words={`“${saved.name}” is dropped for everybody. The data that it shows stay.`}
        action="Drop"
        onConfirm={async () => {
          try {
            await drop(database, saved.name);
            revision.value++;
            go("dashboards", { db: database });
          } catch (error) {
            say((error as Error).message, "bad");
          }
        }}
      />
    </div>
  );
}
