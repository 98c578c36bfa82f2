// Loads something for a component, again when what it depends on changes, and keeps the old value meanwhile.

import { useEffect, useState } from "preact/hooks";

export interface Loaded<T> {
  value: T | undefined;
  error: string | null;
  again(): void;
}

export function useLoaded<T>(load: () => Promise<T>, dependencies: unknown[], everyMs = 0): Loaded<T> {
  const [state, setState] = useState<{ value: T | undefined; error: string | null }>({ value: undefined, error: null });
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    let timer = 0;
    const once = async () => {
      try {
        const value = await load();
        if (isCurrent) setState({ value, error: null });
      } catch (error) {
        if (isCurrent) setState((state) => ({ value: state.value, error: (error as Error).message }));
      }
      if (isCurrent && everyMs > 0) timer = window.setTimeout(whenSeen, everyMs);
    };
    // A page that nobody sees asks for nothing.
    const whenSeen = () => (document.hidden ? (timer = window.setTimeout(whenSeen, everyMs)) : void once());
    void once();
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [...dependencies, asked, everyMs]);
  return { ...state, again: () => setAsked((count) => count + 1) };
}
