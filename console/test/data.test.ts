import assert from "node:assert/strict";
import { test } from "node:test";
import { cell, ColumnBuilder, formatTime, isNull, parseTime, type Column, type Frame } from "../src/data/frame";
import { parse } from "../src/data/json";
import { unitAt, unitsOf } from "../src/data/position";
import { tables } from "../src/data/tables";

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

test("JSON is read as JSON.parse reads it", () => {
  for (const text of [
    "null",
    " [ ] ",
    '{"a":[1,-2.5e3,true,false,null],"b":{"c":"x"}}',
    '["\\u00e9\\n\\"\\\\","ü","\\ud83d\\ude00"]',
    '{"a\\"b":1,"":2}',
    "[0,0.1,1e-7,123456789012345]",
  ]) {
    assert.deepEqual(plain(parse(text)), JSON.parse(text), text);
  }
});

test("a long line without escapes is looked through once", () => {
  const text = JSON.stringify(Array.from({ length: 5000 }, (_, i) => [`text ${i}`, i]));
  const indexOf = String.prototype.indexOf;
  let looked = 0;
  String.prototype.indexOf = function (this: string, searched: string, from = 0): number {
    const found = indexOf.call(this, searched, from);
    looked += (found < 0 ? this.length : found) - from;
    return found;
  };
  try {
    assert.deepEqual(plain(parse(text)), JSON.parse(text));
  } finally {
    String.prototype.indexOf = indexOf;
  }
  assert.ok(looked < 3 * text.length, `${looked} of ${text.length} characters`);
});

test("whole numbers beyond 2^53 stay exact", () => {
  assert.equal(parse("9223372036854775807"), 9223372036854775807n);
  assert.equal(parse("-9223372036854775808"), -9223372036854775808n);
  assert.equal(parse("9007199254740991"), 9007199254740991);
  assert.equal(parse("9007199254740993"), 9007199254740993n);
});

test("what is no JSON is refused", () => {
  for (const text of ["", "[", "[1", "[1,", '{"a"}', '{"a":', '"a', "tru", "[1] 2", "{1:2}", "[,]"]) assert.throws(() => parse(text));
});

test("a member called __proto__ is a member", () => {
  const read = parse('{"__proto__":{"x":1}}') as Record<string, unknown>;
  assert.deepEqual(Object.keys(read), ["__proto__"]);
  assert.equal(({} as Record<string, unknown>).x, undefined);
});

test("times keep their nanoseconds, before 1970 too", () => {
  for (const [text, ns] of [
    ["1970-01-01T00:00:00Z", 0n],
    ["2016-01-01T00:00:00.123456789Z", 1451606400123456789n],
    ["1969-12-31T23:59:59.999999999Z", -1n],
    ["1677-09-21T00:12:43.145224194Z", -9223372036854775806n],
  ] as const) {
    assert.equal(parseTime(text), ns, text);
    assert.equal(formatTime(ns), text);
  }
  assert.equal(parseTime("2016-01-01 02:00:00+02"), 1451606400000000000n);
  for (const text of ["", "yesterday", "2016-13-01T00:00:00Z"]) assert.equal(parseTime(text), null, text);
});

const column = (name: string, values: unknown[], isTime = false): Column => {
  const builder = new ColumnBuilder(name, isTime);
  values.forEach((value) => builder.push(value));
  return builder.finish();
};

test("columns are numbers as long as nothing else comes", () => {
  const numbers = column("a", [1, null, 2.5]);
  assert.deepEqual(numbers.kind === "number" && [...numbers.values], [1, NaN, 2.5]);
  assert.deepEqual(column("a", [1, null, "x", 2n]), { name: "a", kind: "other", values: [1, null, "x", 2n] });
  assert.equal(column("a", [null, null]).kind, "other");
  assert.equal(column("a", Array.from({ length: 1000 }, (_, i) => i)).kind, "number");
  assert.equal(column("time", [1n, "x"], true).kind, "other");
});

test("many texts that repeat are held once", () => {
  const texts = Array.from({ length: 5000 }, (_, i) => (i % 7 === 3 ? null : `room${i % 5}`));
  const of = column("room", texts);
  assert.ok(of.kind === "text" && of.texts.length === 6);
  assert.deepEqual(texts.map((_, row) => (isNull(of, row) ? null : cell(of, row))), texts);
  // Few, or all different, or among something else, they are as they came.
  for (const others of [["a", "a"], Array.from({ length: 5000 }, (_, i) => String(i)), [...texts, 1n]]) assert.equal(column("a", others).kind, "other");
});

test("series of the same columns are one table with their tags", () => {
  const frame = (host: string, values: number[]): Frame => ({
    statement: 0,
    name: "cpu",
    tags: { host },
    columns: [column("time", values, true), column("usage", values)],
    rows: values.length,
  });
  const [table, ...others] = tables([frame("a", [1, 2]), frame("b", [3])]);
  assert.equal(others.length, 0);
  assert.deepEqual(table.columns.map(({ name }) => name), ["time", "host", "usage"]);
  assert.deepEqual([0, 1, 2].map((row) => cell(table.columns[1], row)), ["a", "a", "b"]);
  assert.deepEqual(table.columns[2].kind === "number" && [...table.columns[2].values], [1, 2, 3]);
});

test("an error stands where the server counts it, also behind characters of two units", () => {
  const text = "SELECT '🌡🌡', x FORM m";
  assert.equal(text.slice(unitsOf(text, 15), unitsOf(text, 19)), "FORM");
  const lines = `SELECT "🌡"\nFROM "🌡🌡", ! m`;
  assert.equal(lines.slice(unitAt(lines, 2, 12)), "! m");
  assert.equal(unitAt(lines, 2, 99), lines.length);
  assert.equal(unitAt(lines, 9, 9), lines.length + 1, "the editor takes what is beyond the text for its end");
});
