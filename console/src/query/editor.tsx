// The editor of queries. It lives in a shadow tree: there CodeMirror's styles are constructed by script, which the policy of
// the page (no inline styles) allows.

import { autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching } from "@codemirror/language";
import { setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";
import type { Language } from "../data/request";
import { completions } from "./completion";
import { highlighting, languageOf } from "./language";

export interface Fault {
  message: string;
  position: number;
}

interface Props {
  /** What the editor shows at first, and again when `version` changes. In between the editor is the one who knows. */
  text: string;
  version: number;
  language: Language;
  database: string;
  fault: Fault | null;
  onChange(text: string): void;
  onRun(): void;
}

const LABEL = "Query. Control and Enter runs it; Control and Space completes.";

export function Editor(props: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const language = useRef(new Compartment());

  useEffect(() => {
    const root = host.current!.shadowRoot ?? host.current!.attachShadow({ mode: "open" });
    const made = new EditorView({
      root,
      parent: root as unknown as Element,
      state: EditorState.create({
        doc: latest.current.text,
        extensions: [
          Prec.highest(
            keymap.of([
              {
                key: "Mod-Enter",
                run: (editor) => {
                  closeCompletion(editor);
                  latest.current.onRun();
                  return true;
                },
              },
            ]),
          ),
          lineNumbers(),
          history(),
          drawSelection(),
          bracketMatching(),
          closeBrackets(),
          autocompletion({ override: [completions(() => latest.current)], icons: false }),
          keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
          language.current.of(languageOf(latest.current.language)),
          highlighting,
          EditorView.lineWrapping,
          placeholder("SELECT … — Ctrl+Enter runs, Ctrl+Space completes"),
          EditorView.contentAttributes.of({ "aria-label": LABEL, tabindex: "0", spellcheck: "false", autocapitalize: "off" }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange(update.state.doc.toString());
          }),
          appearance,
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, []);

  useEffect(() => {
    const editor = view.current!;
    const old = editor.state.doc.toString();
    if (old !== latest.current.text) editor.dispatch({ changes: { from: 0, to: old.length, insert: latest.current.text } });
  }, [props.version]);

  useEffect(() => {
    view.current!.dispatch({ effects: language.current.reconfigure(languageOf(props.language)) });
  }, [props.language]);

  useEffect(() => {
    const editor = view.current!;
    editor.dispatch(setDiagnostics(editor.state, props.fault === null ? [] : [diagnostic(editor, props.fault)]));
  }, [props.fault]);

  return <div class="editor" ref={host} />;
}

/** Marks the word at the place of a fault. */
function diagnostic(editor: EditorView, { message, position }: Fault): Diagnostic {
  const length = editor.state.doc.length;
  let from = Math.min(Math.max(position, 0), length);
  const rest = /^(?:\w+|"[^"]*"|.)/.exec(editor.state.sliceDoc(from, Math.min(length, from + 200)));
  let to = from + (rest?.[0].length ?? 0);
  if (to === from) from = Math.max(0, from - 1);
  to = Math.max(to, from);
  return { from, to, severity: "error", message };
}

const appearance = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--field)", fontSize: "14px", borderRadius: "8px", height: "100%" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", overflow: "auto", maxHeight: "40vh", minHeight: "var(--editor-height, 96px)" },
  ".cm-content": { caretColor: "var(--accent)", padding: "10px 0" },
  ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--muted)", border: "none" },
  ".cm-placeholder": { color: "var(--muted)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "var(--selection)" },
  ".cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "1px solid var(--line)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "8px", boxShadow: "var(--shadow)", overflow: "hidden" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "13px", maxHeight: "16em" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "4px 10px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent-strong)", color: "var(--on-accent)" },
  ".cm-tooltip-autocomplete ul li[aria-selected] .cm-completionDetail": { color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal", marginLeft: "1.2em" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  // CodeMirror's wave is a picture in a data URL, which the policy of the page refuses.
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-lintPoint-error:after": { borderBottomColor: "var(--bad)" },
  ".cm-diagnostic-error": { borderLeft: "4px solid var(--bad)" },
});
