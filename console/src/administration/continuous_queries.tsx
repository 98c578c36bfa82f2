// Continuous queries: listed, created, dropped.

import { useState } from "preact/hooks";
import { name as quoted } from "../server/quoting";
import { ask } from "../server/run";
import { records } from "../server/schema";
import { say } from "../ui/toast";
import { useLoaded } from "../ui/use_loaded";
import { change, DropButton } from "./change";

const EXAMPLE = `CREATE CONTINUOUS QUERY "hourly" ON "home"
BEGIN
  SELECT mean("celsius") AS "celsius" INTO "temperature_hourly" FROM "temperature" GROUP BY time(1h), *
END`;

async function continuousQueries() {
  const { frames } = await ask("SHOW CONTINUOUS QUERIES");
  return frames.flatMap((frame) => records(frame).map(({ name, query }) => ({ database: frame.name, name, query })));
}

export function ContinuousQueries() {
  const list = useLoaded(continuousQueries, []);
  const [statement, setStatement] = useState("");
  const create = async (event: Event) => {
    event.preventDefault();
    if (!/^\s*CREATE\s+CONTINUOUS\s+QUERY\b/i.test(statement)) {
      return say("The statement must begin with CREATE CONTINUOUS QUERY. Others go to the query page.", "bad");
    }
    if (!(await change(statement, "Created."))) return;
    setStatement("");
    list.again();
  };
  return (
    <>
      <section class="card" aria-label="Continuous queries">
        <h2>Continuous queries</h2>
        {list.error !== null && <p class="failure">{list.error}</p>}
        {list.value?.length === 0 && <p class="facts">None yet.</p>}
        {list.value !== undefined && list.value.length > 0 && (
          <div class="scroll" tabIndex={0} role="region" aria-label="List of continuous queries">
            <table class="list">
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">Database</th>
                  <th scope="col">Query</th>
                  <th scope="col">
                    <span class="hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {list.value.map((one) => (
                  <tr key={`${one.database}\n${one.name}`}>
                    <td>{one.name}</td>
                    <td>{one.database}</td>
                    <td>
                      <code>{one.query}</code>
                    </td>
                    <td class="actions">
                      <DropButton
                        what="continuous query"
                        name={one.name}
                        words="It stops. What it has written stays."
                        statement={`DROP CONTINUOUS QUERY ${quoted(one.name)} ON ${quoted(one.database)}`}
                        onDone={list.again}
                      />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
      <form class="card" onSubmit={create} aria-label="New continuous query">
        <h2>New continuous query</h2>
        <textarea rows={5} required aria-label="Statement" placeholder={EXAMPLE} value={statement} onInput={(event) => setStatement(event.currentTarget.value)} />
        <div class="buttons">
          <button type="submit" class="primary">
            Create
          </button>
          <button type="button" class="quiet" onClick={() => setStatement(EXAMPLE)}>
            Start from the example
          </button>
        </div>
      </form>
    </>
  );
}
