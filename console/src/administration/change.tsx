// Changes of an administrator: a statement that is run, and a button that asks first.

import { useState } from "preact/hooks";
import { forget } from "../server/schema";
import { ask } from "../server/run";
import { Confirm, useDialog } from "../ui/dialog";
import { say } from "../ui/toast";

/** Runs a statement, says how it went, and tells whether it went well. */
export async function change(statement: string, done: string): Promise<boolean> {
  try {
    await ask(statement);
    forget();
    say(done);
    return true;
  } catch (error) {
    say((error as Error).message, "bad");
    return false;
  }
}

interface DropProps {
  what: string;
  name: string;
  words: string;
  statement: string;
  /** Whether the name must be typed: for what takes data with it. */
  typed?: boolean;
  onDone(): void;
}

export function DropButton({ what, name, words, statement, typed = false, onDone }: DropProps) {
  const dialog = useDialog();
  return (
    <>
      <button type="button" class="plain bad" aria-label={`Drop ${what} ${name}`} onClick={dialog.open}>
        Drop
      </button>
      <Confirm
        dialog={dialog}
        title={`Drop ${what} “${name}”?`}
        words={words}
        action="Drop"
        typed={typed ? name : undefined}
        onConfirm={async () => {
          if (await change(statement, `Dropped ${what} “${name}”.`)) onDone();
        }}
      />
    </>
  );
}

/** The state of a form's fields. */
export function useFields<T extends Record<string, string>>(initial: T) {
  const [values, setValues] = useState(initial);
  const bind = (key: keyof T & string) => ({
    name: key,
    value: values[key],
    onInput: (event: { currentTarget: { value: string } }) => setValues({ ...values, [key]: event.currentTarget.value }),
  });
  return { values, bind, reset: () => setValues(initial) };
}

export const DURATION = "(INF|inf|0|0s|([0-9]+(ns|u|µ|ms|s|m|h|d|w))+)";
export const DURATION_WORDS = "such as 7d, 12h or 52w; INF keeps for ever";
