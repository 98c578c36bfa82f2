import assert from "node:assert/strict";
import { test } from "node:test";
import { packed } from "../src/plot/colors";
import { decimate, lineOf } from "../src/plot/decimate";
import { count, valueAt } from "../src/plot/heat_cells";
import { runs } from "../src/plot/lines";
import { bounded, followed, panned, zoomed } from "../src/plot/range";
import { Raster } from "../src/plot/raster";
import { drawing, type Series } from "../src/plot/series";
import { dashed, spansOf, thickened } from "../src/plot/spans";
import { stack } from "../src/plot/stack";

const series = (values: number[], step = 1): Series => ({
  label: "",
  ms: Float64Array.from(values, (_, i) => i * step),
  values: Float64Array.from(values),
});

test("few points are drawn as they are, at the times of all series", () => {
  const [times, a, b] = decimate([series([1, NaN, 3]), series([5, 6], 2)], 0, 10, 100);
  assert.deepEqual(times, [0, 1, 2]);
  assert.deepEqual(a, [1, null, 3]);
  assert.deepEqual(b, [5, undefined, 6]);
});

test("the time of a point is no value of it, in nanoseconds either", () => {
  const frame = {
    statement: 0,
    name: "",
    tags: {},
    rows: 1,
    columns: [
      { name: "time", kind: "time" as const, ms: Float64Array.of(1000), ns: BigInt64Array.of(1_000_000_000n) },
      { name: "time_ns", kind: "other" as const, values: [1_795_749_262_000_000_123n] },
      { name: "room", kind: "other" as const, values: ["kitchen"] },
      { name: "celsius", kind: "number" as const, values: Float64Array.of(21.5) },
    ],
  };
  assert.deepEqual(drawing([frame], 10).series.map(({ label, values }) => [label, ...values]), [["kitchen", 21.5]]);
});

test("rows are parted by their texts, which many rows have as numbers", () => {
  const rows = 6;
  const time = { name: "time", kind: "time" as const, ms: Float64Array.of(0, 1, 2, 3, 4, 5), ns: new BigInt64Array(rows) };
  const room = { name: "room", kind: "text" as const, codes: Uint32Array.of(0, 1, 0, 1, 2, 3), texts: ["hall", "attic", null, ""] };
  const floor = { name: "floor", kind: "other" as const, values: ["up", "up", "down", "up", null, null] };
  const celsius = { name: "celsius", kind: "number" as const, values: Float64Array.of(1, 2, 3, 4, 5, 6) };
  const drawn = drawing([{ statement: 0, name: "", tags: {}, rows, columns: [time, room, floor, celsius] }], 10).series;
  assert.deepEqual(drawn.map(({ label, values }) => [label, ...values]), [["hall · up", 1], ["attic · up", 2, 4], ["hall · down", 3], ["celsius", 5, 6]]);
  // So many texts are no names.
  const words = { name: "words", kind: "other" as const, values: Array.from({ length: 1001 }, (_, i) => `w${i}`) };
  const many = { statement: 0, name: "", tags: {}, rows: 1001, columns: [{ ...time, ms: new Float64Array(1001) }, words, { ...celsius, values: new Float64Array(1001) }] };
  assert.equal(drawing([many], 10).series.length, 1);
});

test("of many points the lowest and the highest of each pixel stay", () => {
  const values = Array.from({ length: 100_000 }, (_, i) => Math.sin(i / 500));
  values[54_321] = 99;
  values[54_322] = -99;
  const [times, drawn] = decimate([series(values)], 0, values.length, 500);
  // Two for each pixel, and one at each edge.
  assert.equal(times.length, 1002);
  const found = (drawn as number[]).filter((value) => value !== undefined);
  assert.equal(Math.max(...found), 99);
  assert.equal(Math.min(...found), -99);
  assert.ok(found.every((value) => values.includes(value)));
  // The peak comes before the trough, as it did.
  assert.ok(found.indexOf(99) < found.indexOf(-99));
  assert.ok((times as number[]).every((at, i) => i === 0 || at > times[i - 1]));
});

test("a part of the range is drawn with its own points, and one beyond each edge", () => {
  const values = Array.from({ length: 100 }, (_, i) => i);
  const [times] = decimate([series(values)], 10, 20, 100);
  assert.deepEqual([times[0], times.at(-1)], [9, 20]);
  assert.deepEqual(decimate([], 0, 1, 100), [[]]);
});

test("many series with times of their own are no more times than pixels have room for", () => {
  const shifted = Array.from({ length: 60 }, (_, i): Series => ({ label: "", ms: Float64Array.from({ length: 900 }, (_, at) => at * 100 + i), values: new Float64Array(900).fill(i) }));
  const [times, ...rows] = decimate(shifted, 5_000, 60_000, 1000);
  assert.equal(times.length, 2002);
  // The lines come in at one edge, and go out at the other.
  assert.deepEqual([times[0], times.at(-1)], [5_000, 60_000]);
  rows.forEach((row, i) => assert.ok(row[0] === i || row[1] === i || row[2] === i, String(i)));
  assert.ok(rows.every((row, i) => row.at(-1) === i || row.at(-2) === i));
  // At the same times, nothing is left out.
  assert.equal(decimate(shifted.map(({ label, values }) => ({ label, ms: shifted[0].ms, values })), 0, 90_000, 1000)[0].length, 900);
});

const across = { from: 0, at: 0, by: 0.01 };
const down = { from: 0, at: 100, by: -1 };

test("a line of many points is a span in each column, from its lowest to its highest point", () => {
  const values = Array.from({ length: 100_000 }, (_, i) => (i * 7919) % 97);
  values[54_321] = 99;
  const { tops, bottoms } = spansOf(series(values), across, down, 1000);
  assert.equal(tops.length, 1000);
  const isNear = (found: number, wanted: number) => Math.abs(found - wanted) < 1e-9;
  assert.ok(tops.every((top, column) => isNear(top, column === 543 ? 1 : 4)) && bottoms.every((bottom) => isNear(bottom, 100)));
});

test("a line crosses the columns between its points, and is parted where there is none", () => {
  const { tops, bottoms } = spansOf(series([0, 40, NaN, 10, 10], 400), across, down, 14);
  assert.deepEqual([...tops], [90, 80, 70, 60, 60, ...new Array(7).fill(Infinity), 90, 90]);
  assert.deepEqual([...bottoms], [100, 90, 80, 70, 60, ...new Array(7).fill(-Infinity), 90, 90]);
  // A pen is as thick upwards as it is, and less beside its middle.
  const thick = thickened({ tops: Float64Array.of(Infinity, 50, Infinity), bottoms: Float64Array.of(-Infinity, 50, -Infinity) }, 1.25);
  assert.deepEqual([...thick.tops], [49.25, 48.75, 49.25]);
  assert.deepEqual([...thick.bottoms], [50.75, 51.25, 50.75]);
  assert.deepEqual(lineOf([1, 2, 3], [5, undefined, null]), { ms: Float64Array.of(1, 3), values: Float64Array.of(5, NaN) });
});

test("dashes are as long as they are along a line, and not where it fills the plot", () => {
  const flat = { tops: new Float64Array(8).fill(5), bottoms: new Float64Array(8).fill(5) };
  assert.deepEqual([...dashed(flat, [2, 1], 20)], [1, 1, 0, 1, 1, 0, 1, 1]);
  assert.deepEqual([...dashed(flat, [], 20)], new Array(8).fill(1));
  assert.deepEqual([...dashed({ ...flat, bottoms: new Float64Array(8).fill(50) }, [2, 1], 20)], new Array(8).fill(1));
});

test("spans of pixels cover parts of pixels at their ends, and are rows at the end", () => {
  const raster = new Raster({ left: 10, top: 20, width: 2, height: 3 });
  const [red, blue] = [packed("#ff0000"), packed("#0000ff")];
  assert.deepEqual([red, packed("#0000ff80"), packed("#00ff0080", 0.5)], [0xff0000ff, 0x80ff0000, 0x4000ff00]);
  const [x, y] = [raster.x(10), raster.y(20)];
  raster.span(x, y + 0.5, y + 2, red);
  raster.span(x, y + 1.5, y + 2.5, blue);
  raster.fill(x + 1, y + 2.2, y - 100, 0x80ff0000);
  raster.span(x + 1, -50, -40, red);
  const rows = raster.rows();
  const at = (column: number, row: number) => rows[row * raster.width + column].toString(16);
  assert.deepEqual([0, 1, 2, 3].map((row) => at(x, y + row)), ["800000ff", "ff800080", "80ff0000", "0"]);
  assert.deepEqual([0, 1, 2].map((row) => at(x + 1, y + row)), ["80ff0000", "80ff0000", "0"]);
});

test("stacked series stand on each other, and what is below zero hangs from it", () => {
  const { times, bases, tops, sums } = stack([series([1, 2, 3]), series([10, -20, 30]), series([5, 5, NaN])], 0, 10, 100, true);
  assert.deepEqual(times, [0, 1, 2]);
  assert.deepEqual(bases, [[0, 0, 0], [1, 0, 3], [11, 2, null]]);
  assert.deepEqual(tops, [[1, 2, 3], [11, -20, 33], [16, 7, null]]);
  assert.deepEqual([...sums], [16, -13, 33]);
});

test("a series without a point at the time of another is taken as it is drawn", () => {
  const every = [series([1, 1, 1, 1, 1]), series([10, 20, 30], 2)];
  assert.deepEqual(stack(every, 0, 10, 100, true).tops[1], [11, 16, 21, 26, 31]);
  // Bars go from nowhere to nowhere.
  assert.deepEqual(stack(every, 0, 10, 100, false).tops[1], [11, undefined, 21, undefined, 31]);
});

test("more points than slots are stacked by the mean of each", () => {
  const values = Array.from({ length: 1000 }, (_, i) => i);
  const { times, tops, sums } = stack([series(values), series(values)], 0, 1000, 10, true);
  assert.deepEqual(times.slice(0, 2), [50, 150]);
  assert.deepEqual(tops.map(([first]) => first), [49.5, 99]);
  assert.equal(sums.at(-1), 2 * 949.5);
});

test("ranges are zoomed and moved, within the times that there are", () => {
  assert.deepEqual(zoomed({ from: 0, to: 100 }, 0.5, 0.25), { from: 12.5, to: 62.5 });
  assert.deepEqual(panned({ from: 0, to: 100 }, 0.2), { from: 20, to: 120 });
  let range = { from: 0, to: 100 };
  for (let i = 0; i < 200; i++) range = zoomed(range, 2);
  assert.ok(!Number.isNaN(new Date(range.from).getTime()) && !Number.isNaN(new Date(range.to).getTime()));
  // At the end of time, a move does not change the length.
  const end = panned(bounded({ from: 9e15, to: 9e15 }), 5);
  assert.equal(end.to - end.from, 1);
});

test("what is under a finger stays under it", () => {
  assert.deepEqual(followed({ from: 0, to: 100 }, [0.5], [0.25]), { from: 25, to: 125 });
  assert.deepEqual(followed({ from: 0, to: 100 }, [0.4, 0.6], [0.2, 0.8]).to.toFixed(3), "66.667");
  // Fingers that cross turn nothing around.
  assert.deepEqual(followed({ from: 0, to: 100 }, [0.4, 0.6], [0.6, 0.4]), { from: 0, to: 100 });
});

test("a line is parted where there is no value", () => {
  assert.deepEqual(runs(Float64Array.of(1, 2, NaN, NaN, 3, 4)), [[0, 1], [4, 5]]);
  assert.deepEqual(runs(Float64Array.of(NaN)), []);
});

test("a heat map counts values whose span is no number", () => {
  const most = Number.MAX_VALUE;
  for (const [values, expected] of [
    [[-most, 0, most], [1, 0, 1, 1]],
    [[-1e308, -1e307, 1e308], [1, 1, 0, 1]],
    [[most, most, most], [0, 0, 0, 3]],
    [[0, 0, Number.MIN_VALUE], [2, 0, 0, 1]],
    [[0, 1, 4], [1, 1, 0, 1]],
  ]) {
    const series = [{ label: "a", ms: Float64Array.of(0, 1, 2), values: Float64Array.from(values) }];
    const cells = count({ series, left: 0, from: 0, to: 3, points: 3 }, { from: 0, to: 3 }, 1, 4);
    assert.deepEqual([...cells.counts], expected, String(values));
    assert.deepEqual([0, 0.5, 1].map((share) => Number.isFinite(valueAt(cells, share))), [true, true, true], String(values));
  }
});

test("a heat map of one value has a row for it, however large it is", () => {
  const ms = Float64Array.of(0, 1, 2);
  for (const value of [0, -7, 1.5e18, -1e300]) {
    const cells = count({ series: [{ label: "a", ms, values: ms.map(() => value) }], left: 0, from: 0, to: 3, points: 3 }, { from: 0, to: 3 }, 1, 4);
    assert.deepEqual([...cells.counts, cells.most], [3, 0, 0, 0, 3], String(value));
  }
});
