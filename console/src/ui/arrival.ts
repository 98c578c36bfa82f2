// Where the keyboard and screen readers go on after a change of the page: at its heading. The focus would stay in the menu
// otherwise, or fall to the body together with the button that had it.

import { useEffect, useRef } from "preact/hooks";
import { route } from "./route";

/** Moves the focus after somebody went to a place, unless they stayed on the page and the focus did, too. */
export function useArrival(page: string): void {
  const { visit } = route.value;
  const before = useRef<{ page: string; visit: number } | null>(null);
  useEffect(() => {
    const old = before.current;
    before.current = { page, visit };
    // Who opens the console begins where browsers begin, also if they are led to the first steps.
    if (old === null || (old.page === "" && old.visit === visit)) return;
    const hasLeft = old.page !== page && old.visit !== visit;
    if (hasLeft || document.activeElement === null || document.activeElement === document.body) focusHeading();
  }, [page, visit]);
}

function focusHeading(): void {
  const heading = document.querySelector<HTMLElement>("main h1");
  if (heading !== null) heading.tabIndex = -1;
  (heading ?? document.querySelector("main"))?.focus({ preventScroll: true });
}
