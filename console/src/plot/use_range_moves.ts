// The moves of a plot's range that lines and heat maps share: by keys, buttons, mouse, wheel and fingers.

import { useEffect, useRef } from "preact/hooks";
import { listen, type Target } from "./gestures";
import { panned, zoomed, type Range } from "./range";

interface Asked extends Pick<Target, "area" | "preview" | "select"> {
  frame: { current: HTMLElement | null };
  shown: Range;
  /** Told the range; null: it cannot be moved. */
  onRange: ((range: Range | null) => void) | null;
}

export interface Moves {
  zoom(factor: number): void;
  pan(share: number): void;
  all(): void;
}

export const ZOOM = 2;
export const PAN = 0.2;

export function useRangeMoves(asked: Asked): Moves {
  const latest = useRef(asked);
  latest.current = asked;
  const isMovable = asked.onRange !== null;
  useEffect(() => {
    if (!isMovable) return;
    const now = () => latest.current;
    return listen(now().frame.current!, {
      shown: () => now().shown,
      area: () => now().area(),
      preview: (range) => now().preview(range),
      commit: (range) => {
        now().onRange?.(range);
        // Who was told has drawn the range by then, or does not want it.
        setTimeout(() => now().preview(null), 50);
      },
      select: now().select === undefined ? undefined : (shares) => now().select!(shares),
    });
  }, [isMovable]);
  const tell = (range: Range | null) => latest.current.onRange?.(range);
  return {
    zoom: (factor) => tell(zoomed(latest.current.shown, factor)),
    pan: (share) => tell(panned(latest.current.shown, share)),
    all: () => tell(null),
  };
}

/** Does what a key says, and tells whether it said something. */
export function moveByKey(event: KeyboardEvent, { zoom, pan, all }: Moves): boolean {
  const actions: Record<string, () => void> = {
    "+": () => zoom(1 / ZOOM),
    "=": () => zoom(1 / ZOOM),
    "-": () => zoom(ZOOM),
    ArrowLeft: () => pan(-PAN),
    ArrowRight: () => pan(PAN),
    "0": all,
    Escape: all,
  };
  const action = actions[event.key];
  if (action === undefined || event.ctrlKey || event.metaKey || event.altKey) return false;
  event.preventDefault();
  action();
  return true;
}
