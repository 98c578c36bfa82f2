// The first steps: write a point, see it. For who has just started the server, and has read nothing yet.

import { useState } from "preact/hooks";
import { name as quoted } from "../server/quoting";
import { ask, write } from "../server/run";
import * as schema from "../server/schema";
import { identity, revision } from "../server/session";
import { Choice } from "../ui/choice";
import { go } from "../ui/route";
import { say } from "../ui/toast";
import { useLoaded } from "../ui/use_loaded";

const DATABASE = "home";
const MEASUREMENT = "temperature";

const WAYS = ["curl", "Telegraf", "Python"] as const;
type Way = (typeof WAYS)[number];

export function StartPage() {
  const [way, setWay] = useState<Way>("curl");
  const [busy, setBusy] = useState(false);
  const points = useLoaded(count, [revision.value], 3000);
  const writePoint = async () => {
    setBusy(true);
    try {
      await ask(`CREATE DATABASE ${quoted(DATABASE)}`);
      const celsius = (20 + Math.random() * 3).toFixed(2);
      await write(DATABASE, `${MEASUREMENT},room=kitchen celsius=${celsius}`);
      schema.forget();
      say(`Written: ${celsius} °C in the kitchen.`);
      points.again();
    } catch (error) {
      say((error as Error).message, "bad");
    } finally {
      setBusy(false);
    }
  };
  return (
    <div class="page start">
      <div class="hero">
        <h1>Write a first point</h1>
        <p>
          A point is a time with values. It belongs to a measurement, such as <code>{MEASUREMENT}</code>, and its tags, such as{" "}
          <code>room=kitchen</code>, say what was measured. There is nothing to define before.
        </p>
      </div>
      <section class="card step" aria-label="Step 1">
        <span class="step-number" aria-hidden="true">
          1
        </span>
        <div class="stack">
          <h2>Let the console write one</h2>
          <p class="facts">
            It creates the database <code>{DATABASE}</code> if there is none, and writes a temperature with the time of now.
          </p>
          <div class="buttons">
            <button type="button" class="primary" onClick={() => void writePoint()} disabled={busy}>
              Write a point
            </button>
            <span class="facts" role="status">
              {points.value === undefined || points.value === 0 ? "No points yet." : `${points.value} ${points.value === 1 ? "point is" : "points are"} there.`}
            </span>
          </div>
        </div>
      </section>
      <section class="card step" aria-label="Step 2">
        <span class="step-number" aria-hidden="true">
          2
        </span>
        <div class="stack">
          <h2>Or write from your own programs</h2>
          <Choice label="Way to write" options={WAYS} value={way} onChoose={setWay} />
          <Snippet text={snippet(way)} />
        </div>
      </section>
      <section class="card step" aria-label="Step 3">
        <span class="step-number" aria-hidden="true">
          3
        </span>
        <div class="stack">
          <h2>See it</h2>
          <div class="buttons">
            <button
              type="button"
              class="primary"
              disabled={(points.value ?? 0) === 0}
              onClick={() =>
                go("query", { language: "influxql", db: DATABASE, q: `SELECT celsius FROM ${MEASUREMENT} WHERE $timeFilter`, last: "15m", view: "line" }, true)
              }
            >
              Plot the temperatures
            </button>
          </div>
        </div>
      </section>
    </div>
  );
}

/** The points of the example that are there. */
async function count(): Promise<number> {
  if (!(await schema.databases()).includes(DATABASE)) {
    schema.forget();
    return 0;
  }
  const { frames } = await ask(`SELECT count(celsius) FROM ${MEASUREMENT}`, DATABASE);
  const column = frames[0]?.columns.find(({ name }) => name === "count");
  return column?.kind === "number" ? column.values[0] : 0;
}

function snippet(way: Way): string {
  const user = identity.value?.user;
  const at = location.origin;
  // The password is never shown: curl asks for it, and programs have it from elsewhere.
  const login = user === undefined ? "" : ` -u '${user.replace(/'/g, `'\\''`)}'`;
  switch (way) {
    case "curl":
      return `curl${login} -XPOST '${at}/query' --data-urlencode 'q=CREATE DATABASE ${DATABASE}'
curl${login} -XPOST '${at}/write?db=${DATABASE}' \\
  --data-binary '${MEASUREMENT},room=kitchen celsius=21.5'`;
    case "Telegraf":
      return `[[inputs.cpu]]
[[inputs.mem]]
[[outputs.influxdb]]
  urls = [${JSON.stringify(at)}]
  database = "telegraf"${user === undefined ? "" : `\n  username = ${JSON.stringify(user)}\n  password = "$NYALA_PASSWORD"`}`;
    case "Python": {
      const port = location.port || (location.protocol === "https:" ? "443" : "80");
      const credentials = user === undefined ? "" : `, username=${JSON.stringify(user)}, password=os.environ["NYALA_PASSWORD"]`;
      return `# pip install influxdb
${user === undefined ? "" : "import os\n"}from influxdb import InfluxDBClient

client = InfluxDBClient(${JSON.stringify(location.hostname)}, ${port}${credentials}${location.protocol === "https:" ? ", ssl=True, verify_ssl=True" : ""})
client.create_database(${JSON.stringify(DATABASE)})
client.write_points([
    {"measurement": "${MEASUREMENT}", "tags": {"room": "kitchen"}, "fields": {"celsius": 21.5}},
], database=${JSON.stringify(DATABASE)})`;
    }
  }
}

function Snippet({ text }: { text: string }) {
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
