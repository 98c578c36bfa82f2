// The flushes and merges that run, with how far they are, and those that wait.

import { ask } from "../server/run";
import { records } from "../server/schema";
import { revision } from "../server/session";
import { bytes, number } from "../ui/numbers";
import { useLoaded } from "../ui/use_loaded";

const EVERY_MS = 2000;

export function Maintenance() {
  const tasks = useLoaded(async () => records((await ask("SHOW MAINTENANCE")).frames[0]), [revision.value], EVERY_MS);
  return (
    <section class="card" aria-label="Maintenance">
      <div class="card-head">
        <h2>Maintenance</h2>
        <span class="facts">A flush writes rows from memory to files, a merge makes one file of several.</span>
      </div>
      {tasks.error !== null && <p class="failure">{tasks.error}</p>}
      {tasks.error === null && tasks.value?.length === 0 && <p class="facts">Nothing runs, and nothing waits.</p>}
      {tasks.error === null && tasks.value !== undefined && tasks.value.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Flushes and merges">
          <table class="list">
            <thead>
              <tr>
                {["Work", "Of", "From", "To"].map((head) => (
                  <th scope="col" key={head}>
                    {head}
                  </th>
                ))}
                {["Files", "Rows", "Bytes", "State"].map((head) => (
                  <th scope="col" class="right" key={head}>
                    {head}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {tasks.value.map((task, i) => (
                <tr key={i}>
                  <td>{task.work}</td>
                  <td>{[task.database, task.retention_policy, task.measurement].filter((part) => part !== "").join(" / ") || "all tables"}</td>
                  <td>{task.start_time}</td>
                  <td>{task.end_time}</td>
                  <td class="right">{task.files === "0" ? "" : number(Number(task.files))}</td>
                  <td class="right">{number(Number(task.rows))}</td>
                  <td class="right">{bytes(Number(task.bytes))}</td>
                  <td class="right">{task.state === "runs" ? `${task.done_percent} % done` : "waits"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
