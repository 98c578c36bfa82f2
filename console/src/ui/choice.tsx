// One of a few: a radio group. One of its buttons is reached with Tab; arrow keys, Home and End choose among them, as the
// practices of WAI-ARIA say.

interface Props<T extends string> {
  label: string;
  options: readonly T[];
  value: T;
  onChoose(option: NoInfer<T>): void;
  /** The words of an option; without it, the option itself. */
  words?(option: NoInfer<T>): string;
  look?: "tabs" | "segmented";
}

export function Choice<T extends string>({ label, options, value, onChoose, words, look = "tabs" }: Props<T>) {
  const onKeyDown = (event: KeyboardEvent) => {
    const to = moved(event.key, options.indexOf(value), options.length);
    if (to === null || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    onChoose(options[to]);
    (event.currentTarget as HTMLElement).querySelectorAll("button")[to].focus();
  };
  return (
    <div class={look} role="radiogroup" aria-label={label} onKeyDown={onKeyDown}>
      {options.map((option) => (
        <button
          key={option}
          type="button"
          role="radio"
          aria-checked={option === value}
          tabIndex={option === value ? 0 : -1}
          onClick={() => onChoose(option)}
        >
          {words === undefined ? option : words(option)}
        </button>
      ))}
    </div>
  );
}

/** Where a key leads from one of so many options; null: nowhere. */
export function moved(key: string, from: number, count: number): number | null {
  switch (key) {
    case "ArrowRight":
    case "ArrowDown":
      return (from + 1) % count;
    case "ArrowLeft":
    case "ArrowUp":
      return (from + count - 1) % count;
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}
