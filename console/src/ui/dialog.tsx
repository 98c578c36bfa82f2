// A dialog above the page: closed by Escape, by its button, and by a click beside it.

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface DialogState {
  isOpen: boolean;
  open(): void;
  close(): void;
}

export function useDialog(): DialogState {
  const [isOpen, setIsOpen] = useState(false);
  return { isOpen, open: () => setIsOpen(true), close: () => setIsOpen(false) };
}

interface Props {
  dialog: DialogState;
  title: string;
  children: ComponentChildren;
}

export function Dialog({ dialog, title, children }: Props) {
  return dialog.isOpen ? <Opened dialog={dialog} title={title} children={children} /> : null;
}

function Opened({ dialog, title, children }: Props) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const shown = element.current!;
    shown.showModal();
    // An open dialog that is taken out of the page takes the focus with it; one that is closed gives it back.
    return () => shown.close();
  }, []);
  return (
    <dialog
      ref={element}
      aria-labelledby={id}
      onClose={dialog.close}
      onClick={(event) => event.target === element.current && dialog.close()}
    >
      <h2 id={id}>{title}</h2>
      {children}
      {/* The last, so that the browser focuses the first field or button of the dialog instead. */}
      <button type="button" class="quiet dialog-close" onClick={dialog.close} aria-label="Close">
        ✕
      </button>
    </dialog>
  );
}

interface ConfirmProps {
  dialog: DialogState;
  title: string;
  words: ComponentChildren;
  action: string;
  /** What must be typed before the action is possible. */
  typed?: string;
  onConfirm(): void;
}

/** Asks before something that cannot be undone. */
export function Confirm({ dialog, title, words, action, typed, onConfirm }: ConfirmProps) {
  const [text, setText] = useState("");
  return (
    <Dialog dialog={dialog} title={title}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          dialog.close();
          setText("");
          onConfirm();
        }}
      >
        <p>{words}</p>
        {typed !== undefined && (
          <label class="field">
            <span>
              Type <code>{typed}</code> to confirm
            </span>
            <input value={text} onInput={(event) => setText(event.currentTarget.value)} autocomplete="off" />
          </label>
        )}
        <div class="buttons">
          {/* The least dangerous one is focused first. */}
          <button type="button" class="quiet" onClick={dialog.close}>
            Keep
          </button>
          <button type="submit" class="danger" disabled={typed !== undefined && text !== typed}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
