// Where the keyboard and screen readers go on when what they were at is gone: a row that was dropped, a button that has done its
// work. Browsers let the focus fall to the body, from where Tab begins at the top of the page.

const FOCUSABLE = "button:not(:disabled), a[href], input:not(:disabled), select:not(:disabled), textarea:not(:disabled), summary, [tabindex]";

/** An element, what is around it, and which child of that each of them is. */
interface Place {
  element: Element;
  index: number;
}

let places: Place[] = [];

/** Keeps the focus from falling to the body, as long as the page is there. */
export function keepFocus(root: HTMLElement): void {
  document.addEventListener("focusin", ({ target }) => (places = placesOf(target as Element)));
  document.addEventListener("focusout", () => {
    // Who clicks beside everything wants no focus.
    setTimeout(() => {
      if (document.hasFocus() && isNowhere() && places[0]?.element.isConnected) places = [];
    });
  });
  new MutationObserver(() => {
    const [last] = places;
    if (last === undefined) return;
    if (last.element.isConnected) places = placesOf(last.element);
    else if (isNowhere()) goOn(places);
  }).observe(root, { childList: true, subtree: true });
}

const isNowhere = () => document.activeElement === null || document.activeElement === document.body;

function placesOf(element: Element): Place[] {
  const found: Place[] = [];
  for (let at: Element | null = element; at !== null && at !== document.body; at = at.parentElement) {
    found.push({ element: at, index: [...(at.parentElement?.children ?? [])].indexOf(at) });
  }
  return found;
}

function goOn(lost: Place[]): void {
  places = [];
  const left = lost.findIndex(({ element }) => element.isConnected);
  const around = left < 0 ? null : lost[left].element;
  const isPage = lost[left - 1]?.element.querySelector("h1") !== null;
  const next = around === null ? null : (isPage ? null : neighbour(around, lost[left - 1], lost[0].element)) ?? headingOf(around);
  (next ?? headingOf(document.querySelector("main") ?? document.body))?.focus();
}

/** The same button of the next row, or of the one before; of single buttons, the next. */
function neighbour(around: Element, gone: Place, button: Element): HTMLElement | null {
  const { children } = around;
  const at = Math.min(gone.index, children.length - 1);
  for (const sibling of [children[at], children[at - 1]]) {
    if (sibling === undefined) continue;
    if (gone.element === button) {
      if (sibling.matches(FOCUSABLE)) return sibling as HTMLElement;
    } else if (sibling.tagName === gone.element.tagName && sibling.classList[0] === gone.element.classList[0]) {
      const alike = (of: Element) => [...of.querySelectorAll<HTMLElement>(FOCUSABLE)].filter((one) => one.tagName === button.tagName && one.className === button.className);
      const found = alike(sibling);
      const same = found[alike(gone.element).indexOf(button as HTMLElement)] ?? found[0];
      if (same !== undefined) return same;
    }
  }
  return null;
}

/** What says where one is: the heading of the part of the page, or the part itself if it has a name. */
function headingOf(around: Element): HTMLElement | null {
  const part = around.closest<HTMLElement>("dialog, section, form[aria-label], main");
  if (part === null) return null;
  const heading = part.querySelector<HTMLElement>("h1:not(.hidden), h2, h3");
  const found = heading ?? (part.hasAttribute("aria-label") ? part : document.querySelector<HTMLElement>("main h1"));
  if (found !== null && !found.hasAttribute("tabindex")) found.tabIndex = -1;
  return found;
}
