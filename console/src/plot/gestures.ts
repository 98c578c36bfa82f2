// What the mouse, fingers and the wheel do to the range of a plot: one finger, or a drag with shift, moves it; two fingers and
// the wheel zoom; a drag selects, where the plot does not do that itself. Up and down, a finger scrolls the page
// (`touch-action` of the frame).

import { followed, zoomed, type Range } from "./range";

export interface Target {
  shown(): Range;
  /** Where the plot is, without its axes. */
  area(): { left: number; width: number };
  /** Draws another range for the moment; null: the range that it has. */
  preview(range: Range | null): void;
  commit(range: Range): void;
  /** Marks what is being selected, in shares of the width; null: nothing. Without it a drag is somebody else's. */
  select?(shares: [number, number] | null): void;
}

/** Whoever moved less has tapped or clicked. */
const MOVED_MIN_PIXELS = 5;
const WHEEL_STEP = 1.3;

/** Listens until the function that it gives is called. */
export function listen(frame: HTMLElement, target: Target): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  /** Where each finger, or the mouse, was and is. */
  const held = new Map<number, { begun: number; now: number }>();
  let begun: Range | null = null;
  let next: Range | null = null;
  let selecting: { id: number; from: number; to: number } | null = null;

  const shareOf = ({ clientX }: MouseEvent) => {
    const { left, width } = target.area();
    return (clientX - left) / width;
  };
  const follow = () => {
    const places = [...held.values()];
    next = followed(begun!, places.map((place) => place.begun), places.map((place) => place.now));
    target.preview(next);
  };
  /** A finger more or less: those that are there begin again from where they are. */
  const begin = () => {
    begun = next ?? target.shown();
    for (const place of held.values()) place.begun = place.now;
  };
  const isMoved = (from: number, to: number) => Math.abs(from - to) * target.area().width >= MOVED_MIN_PIXELS;

  const onDown = (event: PointerEvent) => {
    const share = shareOf(event);
    if (event.pointerType === "touch" || (event.button === 0 && event.shiftKey)) {
      held.set(event.pointerId, { begun: share, now: share });
      begin();
    } else if (event.button === 0 && target.select !== undefined && share >= 0 && share <= 1) {
      selecting = { id: event.pointerId, from: share, to: share };
    } else return;
    frame.setPointerCapture(event.pointerId);
  };
  const onMove = (event: PointerEvent) => {
    const place = held.get(event.pointerId);
    if (place !== undefined) {
      place.now = shareOf(event);
      if (next !== null || held.size > 1 || isMoved(place.begun, place.now)) follow();
    } else if (selecting?.id === event.pointerId) {
      selecting.to = Math.min(Math.max(shareOf(event), 0), 1);
      if (isMoved(selecting.from, selecting.to)) target.select!([Math.min(selecting.from, selecting.to), Math.max(selecting.from, selecting.to)]);
    }
  };
  const onUp = (event: PointerEvent) => {
    if (held.delete(event.pointerId)) {
      if (held.size > 0) return begin();
      const range = next;
      next = null;
      if (range === null) return;
      if (event.type === "pointerup") target.commit(range);
      else target.preview(null);
    } else if (selecting?.id === event.pointerId) {
      const { from, to } = selecting;
      selecting = null;
      target.select!(null);
      if (event.type !== "pointerup" || !isMoved(from, to)) return;
      const { from: begin, to: end } = target.shown();
      const at = (share: number) => begin + (end - begin) * share;
      target.commit({ from: at(Math.min(from, to)), to: at(Math.max(from, to)) });
    }
  };
  const onWheel = (event: WheelEvent) => {
    // A wheel alone scrolls the page, unless somebody has chosen the plot.
    if (!event.ctrlKey && !event.shiftKey && !event.altKey && document.activeElement !== frame) return;
    event.preventDefault();
    // With shift, browsers turn the wheel sideways.
    const by = event.deltaY === 0 ? event.deltaX : event.deltaY;
    target.commit(zoomed(target.shown(), by > 0 ? WHEEL_STEP : 1 / WHEEL_STEP, shareOf(event)));
  };
  frame.addEventListener("pointerdown", onDown, { signal });
  frame.addEventListener("pointermove", onMove, { signal });
  frame.addEventListener("pointerup", onUp, { signal });
  frame.addEventListener("pointercancel", onUp, { signal });
  frame.addEventListener("wheel", onWheel, { signal, passive: false });
  return () => stop.abort();
}
