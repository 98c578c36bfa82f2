// Continuous queries: listed, created, dropped.

import { useState } from "preact/hooks";
import { name as quoted } from "../server/quoting";
import { ask } from "../server/run";
import { records } from "../server/schema";
import { ListCard } from "../ui/list_card";
import type { Column } from "../ui/table";
import { say } from "../ui/toast";
import { useLoaded } from "../ui/use_loaded";
import { change, DropButton } from "./change";

const EXAMPLE = `CREATE CONTINUOUS QUERY "hourly" ON "home"
BEGIN
  SELECT mean("celsius") AS "celsius" INTO "temperature_hourly" FROM "temperature" GROUP BY time(1h), *
END`;

interface ContinuousQuery {
  database: string;
  name: string;
  query: string;
}

const COLUMNS: Column<ContinuousQuery>[] = [
  { head: "Name", cell: ({ name }) => name },
  { head: "Database", cell: ({ database }) => database },
  { head: "Query", words: true, cell: ({ query }) => <code>{query}</code> },
];

async function continuousQueries(): Promise<ContinuousQuery[]> {
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
      <ListCard
        title="Continuous queries"
        list={list}
        none="None yet."
        columns={COLUMNS}
        keyOf={({ database, name }) => `${database}\n${name}`}
        actions={({ database, name }) => (
          <DropButton
            what="continuous query"
            name={name}
            words="It stops. What it has written stays."
            statement={`DROP CONTINUOUS QUERY ${quoted(name)} ON ${quoted(database)}`}
            onDone={list.again}
          />
        )}
      />
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
