// Short messages at the edge of the page, read aloud by screen readers.

import { signal } from "@preact/signals";

interface Toast {
  id: number;
  words: string;
  kind: "good" | "bad";
}

const shown = signal<Toast[]>([]);
let last = 0;

export function say(words: string, kind: Toast["kind"] = "good"): void {
  const id = ++last;
  shown.value = [...shown.value.slice(-3), { id, words, kind }];
  setTimeout(() => (shown.value = shown.value.filter((toast) => toast.id !== id)), kind === "bad" ? 10_000 : 5000);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.value.map(({ id, words, kind }) => (
        <p key={id} class={`toast ${kind}`}>
          {words}
        </p>
      ))}
    </div>
  );
}
