// The frame of all pages: navigation, theme, log-in, and whether the server answers.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { ActivityPage } from "./activity/page";
import { AdministrationPage } from "./administration/page";
import { DashboardsPage } from "./dashboards/page";
import { ExplorePage } from "./explore/page";
import { LogIn } from "./log_in";
import { QueryPage } from "./query/page";
import { StartPage } from "./start/page";
import { StoragePage } from "./storage/page";
import { isAdministrator, rightsOn } from "./server/rights";
import type { QueryError } from "./server/run";
import { databases, forget, measurements } from "./server/schema";
import { identity, isAdmin, isOnline, logInReason, logOut, needsFirstAdmin, revision } from "./server/session";
import { useArrival } from "./ui/arrival";
import { Icon, Mark } from "./ui/icons";
import { link, note, route } from "./ui/route";
import { theme, type Theme } from "./ui/theme";
import { Toasts } from "./ui/toast";

interface Page {
  path: string;
  name: string;
  view: () => preact.JSX.Element;
  adminOnly?: boolean;
}

const PAGES: Page[] = [
  { path: "query", name: "Query", view: QueryPage },
  { path: "explore", name: "Explore", view: ExplorePage },
  { path: "dashboards", name: "Dashboards", view: DashboardsPage },
  { path: "activity", name: "Activity", view: ActivityPage, adminOnly: true },
  { path: "storage", name: "Storage", view: StoragePage, adminOnly: true },
  { path: "administration", name: "Administration", view: AdministrationPage, adminOnly: true },
  { path: "start", name: "First steps", view: StartPage },
];

/** Whether the user sees no database. */
const seesNothing = signal(false);

export function App() {
  useEffect(() => {
    forget();
    void findOut();
  }, [revision.value]);
  const isLoggedOut = logInReason.value !== null || needsFirstAdmin.value;
  useArrival(isLoggedOut ? "log-in" : route.value.page);
  if (isLoggedOut) {
    return (
      <>
        <Offline />
        <LogIn />
      </>
    );
  }
  const pages = PAGES.filter((page) => page.adminOnly !== true || isAdmin.value === true);
  const page = pages.find(({ path }) => path === route.value.page) ?? pages[0];
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={skip}>
        To the content
      </a>
      <Side pages={pages} page={page} />
      <main id="main" tabIndex={-1}>
        <Offline isOver />
        {isAdmin.value === false && seesNothing.value && page.path !== "start" && <NoGrants />}
        <page.view key={`${page.path} ${identity.value?.user ?? ""} ${page.path === "query" ? route.value.visit : ""}`} />
      </main>
      <Toasts />
    </div>
  );
}

/** The pages beside the content; on a narrow screen a menu above it. */
function Side({ pages, page }: { pages: Page[]; page: Page }) {
  const [isOpen, setIsOpen] = useState(false);
  const close = () => setIsOpen(false);
  return (
    <header class={isOpen ? "side open" : "side"} onKeyDown={(event) => event.key === "Escape" && close()}>
      <a class="brand" href={link(pages[0].path)} aria-label="nyala">
        <Mark />
        <span>nyala</span>
      </a>
      <span class="side-page">{page.name}</span>
      <button type="button" class="quiet side-menu" aria-expanded={isOpen} aria-controls="pages" onClick={() => setIsOpen(!isOpen)}>
        Menu
      </button>
      <nav id="pages" aria-label="Pages">
        {pages.map(({ path, name }) => (
          <a key={path} href={link(path)} aria-current={path === page.path ? "page" : undefined} onClick={close}>
            <Icon name={path} />
            <span>{name}</span>
          </a>
        ))}
      </nav>
      <Foot />
    </header>
  );
}

/** Whether a log-in is needed, and what the user may see. */
async function findOut(): Promise<void> {
  try {
    // Everybody may ask this. So it tells whether there is somebody to log in as.
    seesNothing.value = (await databases()).length === 0;
    isAdmin.value = await isAdministrator();
  } catch (error) {
    const { status, message } = (error as QueryError).failure;
    if (/create admin user first/.test(message)) needsFirstAdmin.value = true;
    else if (status !== 0 && status !== 401) isAdmin.value = false;
  }
  if (isAdmin.value !== null) await welcome().catch(() => undefined);
}

/** Who comes to a server without data is led to the first steps. */
async function welcome(): Promise<void> {
  if (route.value.page !== "") return;
  const names = (await databases()).filter((name) => name !== "_internal");
  for (const name of names.slice(0, 20)) if ((await rightsOn(name)).reads && (await measurements(name)).length > 0) return;
  // Who opens the console has not gone anywhere, and goes back to where they came from.
  if (route.value.page === "") note("start", {});
}

const skip = (event: Event) => {
  event.preventDefault();
  document.getElementById("main")?.focus();
};

/** Why a user sees nothing. */
function NoGrants() {
  return (
    <p class="note no-grants">
      Your user “{identity.value?.user}” has no grant, so it sees no database. <a href={link("start")}>What to ask an administrator for</a>
    </p>
  );
}

/** With `isOver`, what stands below was read from the server before. */
function Offline({ isOver = false }: { isOver?: boolean }) {
  if (isOnline.value) return null;
  return (
    <p class="offline" role="alert">
      The server does not answer. Trying again every second…{isOver && " What is shown was read before."}
    </p>
  );
}

function Foot() {
  return (
    <div class="side-foot">
      {identity.value !== null && (
        <div class="user">
          <span>{identity.value.user}</span>
          <button type="button" class="quiet" onClick={() => logOut("You have logged out.")}>
            Log out
          </button>
        </div>
      )}
      <select aria-label="Theme" value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>
        <option value="system">System theme</option>
        <option value="dark">Dark</option>
        <option value="light">Light</option>
      </select>
    </div>
  );
}
