// A text with a button that copies it.

import { say } from "../ui/toast";

export function Snippet({ text }: { text: string }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied.");
    } catch {
      say("The browser does not allow copying here. Select the text instead.", "bad");
    }
  };
  return (
    <div class="snippet">
      <pre tabIndex={0}>{text}</pre>
      <button type="button" onClick={() => void copy()}>
        Copy
      </button>
    </div>
  );
}
