// Who asks, and whether the server answers. Credentials are in memory and in the tab's sessionStorage, and end with the tab.

import { signal } from "@preact/signals";

const STORED = "nyala.authorization";

export interface Identity {
  user: string;
  authorization: string;
}

/** The user who has logged in. */
export const identity = signal<Identity | null>(restore());

/** Why the log-in form is shown; null: it is not. */
export const logInReason = signal<string | null>(null);

/** Whether the server demands that the first administrator be created. */
export const needsFirstAdmin = signal(false);

/** Whether the user may see what administrators see; null while unknown. */
export const isAdmin = signal<boolean | null>(null);

/** Whether the server can be reached. */
export const isOnline = signal(true);

/** Counts up when everything shown should be asked for again: after a log-in, or when the server is back. */
export const revision = signal(0);

/** The header that credentials are sent in. */
export function authorizationOf(user: string, password: string): string {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}

export function logIn(user: string, password: string): void {
  identity.value = { user, authorization: authorizationOf(user, password) };
  sessionStorage.setItem(STORED, JSON.stringify(identity.value));
  logInReason.value = null;
  revision.value++;
}

export function logOut(reason: string): void {
  identity.value = null;
  isAdmin.value = null;
  sessionStorage.removeItem(STORED);
  logInReason.value = reason;
}

/** Takes note of how a request ended. */
export function noteStatus(status: number): void {
  if (status === 0) return wentOffline();
  if (status === 401) {
    const had = identity.value !== null;
    logOut(had ? "The server no longer accepts this log-in. Please log in again." : "This server asks for a log-in.");
  }
}

let probing = false;

/** Asks every second whether the server is back. */
function wentOffline(): void {
  isOnline.value = false;
  if (probing) return;
  probing = true;
  const probe = async () => {
    try {
      const response = await fetch("/ready", { cache: "no-store", credentials: "omit" });
      if (!response.ok) throw new Error("not ready");
      probing = false;
      isOnline.value = true;
      revision.value++;
    } catch {
      setTimeout(probe, 1000);
    }
  };
  setTimeout(probe, 1000);
}

function restore(): Identity | null {
  try {
    const stored = JSON.parse(sessionStorage.getItem(STORED) ?? "null") as Identity | null;
    return stored !== null && typeof stored.authorization === "string" ? stored : null;
  } catch {
    return null;
  }
}
