import assert from "node:assert/strict";
import { test } from "node:test";
import { durationMs } from "../src/activity/duration";
import { parseMetrics } from "../src/activity/metrics_text";
import { doubtIn } from "../src/dashboards/check";
import { onlyReads } from "../src/dashboards/only_reads";
import { measurementOf, sourceOf } from "../src/query/from_clause";
import { hasSecret } from "../src/query/history";
import { newestOf } from "../src/query/range_with_data";
import { intervalMs, substitute, usesVariables } from "../src/query/variables";
import { name, shortName, sqlName, sqlText, text } from "../src/server/quoting";
import { moved } from "../src/ui/choice";

test("names and texts are quoted", () => {
  assert.equal(name('a"b\\c\nd'), '"a\\"b\\\\c\\nd"');
  assert.equal(text("it's\\"), "'it\\'s\\\\'");
  assert.equal(sqlName('a"b'), '"a""b"');
  assert.equal(sqlText("it's"), "'it''s'");
  const keywords = new Set(["FROM"]);
  assert.equal(shortName("cpu", keywords), "cpu");
  assert.equal(shortName("from", keywords), '"from"');
  assert.equal(shortName("1cpu", keywords), '"1cpu"');
  assert.equal(shortName("", keywords), '""');
});

test("variables become the range, and places are found again", () => {
  const range = { from: 1451606400000, to: 1451610000000 };
  const query = "SELECT mean(a) FROM m WHERE $timeFilter GROUP BY time($interval) LIMIT x";
  const { text, original } = substitute(query, "influxql", range);
  const filter = "time >= '2016-01-01T00:00:00.000Z' AND time <= '2016-01-01T01:00:00.000Z'";
  assert.equal(text, `SELECT mean(a) FROM m WHERE ${filter} GROUP BY time(10s) LIMIT x`);
  assert.equal(original(text.indexOf("mean")), query.indexOf("mean"));
  assert.equal(original(text.indexOf("LIMIT")), query.indexOf("LIMIT"));
  assert.equal(original(text.indexOf("AND time")), query.indexOf("$timeFilter"));
  assert.equal(substitute("$interval", "sql", range).text, "interval '10 seconds'");
  assert.equal(substitute("$1 $fromage", "sql", range).text, "$1 $fromage");
  assert.ok(usesVariables("time >= $from") && !usesVariables("SELECT $1"));
  assert.equal(intervalMs({ from: 0, to: 1000 }), 5);
  assert.equal(intervalMs({ from: 0, to: 1e15 }), 2_592_000_000);
});

test("dashboards run only what reads", () => {
  for (const query of ["SELECT a FROM m", "select 1; SHOW MEASUREMENTS", "SELECT drop_rate, \"updated\" FROM m WHERE $timeFilter"]) {
    assert.ok(onlyReads({ language: "influxql", text: query }), query);
  }
  assert.ok(onlyReads({ language: "sql", text: "WITH t AS (SELECT 1) SELECT * FROM t" }));
  for (const query of [
    "",
    ";",
    "DROP MEASUREMENT m",
    "SELECT a INTO b FROM m",
    "SELECT 1; DROP DATABASE d",
    "EXPLAIN ANALYZE SELECT 1",
    "WITH t AS (DELETE FROM m RETURNING *) SELECT * FROM t",
    "UNDO 3",
    "SELECT setval('seq', 777)",
    'SELECT pg_catalog . "nextval" (\'seq\')',
    "SELECT U&\"nextv\\0061l\"('seq')",
    "SELECT * FROM m WHERE (SELECT pg_try_advisory_xact_lock(1))",
    "WITH t AS (SELECT pg_sleep(9)) SELECT * FROM t",
    "SELECT pg_sleep_for('9 s')",
    "SELECT set_config('a', 'b', false)",
    // Where one language sees a text, a comment or a regular expression, the other sees a statement.
    "SELECT 'x\\'; DROP TABLE t; --'",
    "SELECT 1 -- '\n; DROP DATABASE d; -- '",
    "SELECT a FROM /x'/; DROP DATABASE d; SELECT a FROM /'y/",
    "SELECT 1/*;*/;KILL QUERY 3",
  ]) {
    assert.ok(!onlyReads({ language: "influxql", text: query }), query);
    assert.ok(!onlyReads({ language: "sql", text: query }), query);
  }
});

test("a panel is refused that cannot be read, and doubted if the server does not run it", () => {
  const failed = (status: number, code?: string) => ({ status, code, message: "no" });
  // What cannot be read will never run.
  assert.equal(doubtIn("influxql", { ...failed(400), position: 7 })?.isFinal, true);
  assert.equal(doubtIn("sql", failed(400, "42601"))?.isFinal, true);
  // A table may come, and so may a column or a right.
  assert.equal(doubtIn("sql", failed(400, "42P01")), null);
  for (const doubt of [doubtIn("sql", failed(400, "42703")), doubtIn("sql", failed(403)), doubtIn("influxql", failed(403)), doubtIn("influxql", failed(0))]) {
    assert.deepEqual({ ...doubt }, { message: "no", hint: undefined, position: undefined, isFinal: false });
  }
  // A query that was ended because it ran for long enough can be run.
  assert.equal(doubtIn("influxql", { ...failed(-1), cancelled: true }), null);
});

test("statements with secrets are known", () => {
  for (const query of [
    "CREATE USER a WITH PASSWORD 'x'",
    "set password for a = 'x'",
    "CREATE SUBSCRIPTION s ON d.rp DESTINATIONS ALL 'http://other:1', 'https://u:p%2F@h:8086'",
    "CREATE SUBSCRIPTION s ON d.rp DESTINATIONS ALL 'http://u:p/q@h'",
    "COPY t FROM 's3://b/k' (aws_secret_access_key 'x')",
  ]) {
    assert.ok(hasSecret(query), query);
  }
  for (const query of ["SELECT a FROM m", "CREATE SUBSCRIPTION s ON d.rp DESTINATIONS ALL 'http://other:8086'", "SELECT '@' FROM m"]) {
    assert.ok(!hasSecret(query), query);
  }
});

test("the measurement of a statement is found", () => {
  for (const [query, found] of [
    ["SELECT a FROM cpu WHERE b = 1", "cpu"],
    ['SELECT a FROM "d"."rp"."my \\"cpu\\""', 'my "cpu"'],
    ["SELECT a FROM d..cpu", "cpu"],
    ["SELECT a FROM autogen.cpu", "cpu"],
    ["SELECT 1", null],
  ] as const) {
    assert.equal(measurementOf(query), found, query);
  }
  assert.equal(sourceOf('SELECT a FROM "d"."rp"."my cpu" WHERE b = 1'), '"d"."rp"."my cpu"');
  assert.equal(sourceOf("SELECT a FROM (SELECT b FROM rp.cpu)"), "rp.cpu");
});

test("the newest range that has points is shown", () => {
  const now = 1_000_000_000_000;
  const day = 86_400_000;
  assert.deepEqual(newestOf({ from: 0, to: now - 1000 }, now), { last: "1h" });
  assert.deepEqual(newestOf({ from: 0, to: now - day / 2 }, now), { last: "24h" });
  assert.deepEqual(newestOf({ from: 0, to: now - 2 * day }, now), { from: now - 3 * day, to: now - 2 * day + 1000 });
  assert.deepEqual(newestOf({ from: now - 2 * day - 5, to: now - 2 * day }, now), { from: now - 2 * day - 5, to: now - 2 * day + 1000 });
});

test("metrics and durations are read", () => {
  assert.deepEqual(parseMetrics('# HELP a b\na_total{path="/q\\"x",status="200"} 3\nb 1.5e3\nc_bucket{le="+Inf"} +Inf\n'), [
    { name: "a_total", labels: { path: '/q"x', status: "200" }, value: 3 },
    { name: "b", labels: {}, value: 1500 },
    { name: "c_bucket", labels: { le: "+Inf" }, value: Infinity },
  ]);
  assert.equal(durationMs("1m3.5s"), 63_500);
  assert.equal(durationMs("76µs"), 0.076);
  assert.equal(durationMs("2h0m1s"), 7_201_000);
  assert.equal(durationMs("15ms"), 15);
});

test("keys lead around a group, and from its ends to the other side", () => {
  const keys = ["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "Home", "End", "Enter", "a"];
  assert.deepEqual(keys.map((key) => moved(key, 0, 3)), [1, 1, 2, 2, 0, 2, null, null]);
  assert.deepEqual(keys.map((key) => moved(key, 2, 3)), [0, 0, 1, 1, 0, 2, null, null]);
});
