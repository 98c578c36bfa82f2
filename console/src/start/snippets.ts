// How programs write points, to be copied.

import { quoted } from "../query/plot_query";
import { identity } from "../server/session";

/** What the examples write. */
export const MEASUREMENT = "temperature";

export const WAYS = ["curl", "Telegraf", "Python"] as const;
export type Way = (typeof WAYS)[number];

/** A text as a shell reads it. */
const shell = (text: string) => `'${text.replace(/'/g, `'\\''`)}'`;

/** How a program writes to a database, which it creates first if the user may. */
export function snippet(way: Way, database: string, mayCreate: boolean): string {
  const user = identity.value?.user;
  const at = location.origin;
  // The password is never shown: curl asks for it, and programs have it from elsewhere.
  const login = user === undefined ? "" : ` -u ${shell(user)}`;
  switch (way) {
    case "curl":
      return [
        ...(mayCreate ? [`curl${login} -XPOST '${at}/query' --data-urlencode ${shell(`q=CREATE DATABASE ${quoted(database)}`)}`] : []),
        `curl${login} -XPOST ${shell(`${at}/write?db=${encodeURIComponent(database)}`)} \\`,
        `  --data-binary '${MEASUREMENT},room=kitchen celsius=21.5'`,
      ].join("\n");
    case "Telegraf":
      return [
        "[[inputs.cpu]]",
        "[[inputs.mem]]",
        "[[outputs.influxdb]]",
        `  urls = [${JSON.stringify(at)}]`,
        ...(mayCreate ? ['  database = "telegraf"'] : [`  database = ${JSON.stringify(database)}`, "  skip_database_creation = true"]),
        ...(user === undefined ? [] : [`  username = ${JSON.stringify(user)}`, '  password = "$NYALA_PASSWORD"']),
      ].join("\n");
    case "Python": {
      const port = location.port || (location.protocol === "https:" ? "443" : "80");
      const credentials = user === undefined ? "" : `, username=${JSON.stringify(user)}, password=os.environ["NYALA_PASSWORD"]`;
      return `# pip install influxdb
${user === undefined ? "" : "import os\n"}from influxdb import InfluxDBClient

client = InfluxDBClient(${JSON.stringify(location.hostname)}, ${port}${credentials}${location.protocol === "https:" ? ", ssl=True, verify_ssl=True" : ""})
${mayCreate ? `client.create_database(${JSON.stringify(database)})\n` : ""}client.write_points([
    {"measurement": "${MEASUREMENT}", "tags": {"room": "kitchen"}, "fields": {"celsius": 21.5}},
], database=${JSON.stringify(database)})`;
    }
  }
}
