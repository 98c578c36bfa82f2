// The menu of queries that were run before.

import { Dialog, useDialog } from "../ui/dialog";
import { utc } from "../ui/times";
import { clearHistory, past, type Past } from "./history";

export function PastQueries({ onChoose }: { onChoose(past: Past): void }) {
  const dialog = useDialog();
  return (
    <>
      <button type="button" class="quiet" onClick={dialog.open}>
        History
      </button>
      <Dialog dialog={dialog} title="Queries of this browser">
        {past.value.length === 0 ? (
          <p class="empty">Nothing yet. Queries that were run are listed here, except those with passwords or keys.</p>
        ) : (
          <ul class="past">
            {past.value.map((entry) => (
              <li key={entry.at}>
                <button
                  type="button"
                  onClick={() => {
                    onChoose(entry);
                    dialog.close();
                  }}
                >
                  <code>{entry.text}</code>
                  <span class="facts">
                    {entry.language === "sql" ? "SQL" : "InfluxQL"} · {entry.database} · {utc(entry.at)}
                  </span>
                </button>
              </li>
            ))}
          </ul>
        )}
        <div class="buttons">
          <button type="button" class="quiet" onClick={clearHistory} disabled={past.value.length === 0}>
            Forget all
          </button>
        </div>
      </Dialog>
    </>
  );
}
