// No two colours of series are alike, for anybody.

import assert from "node:assert/strict";
import { test } from "node:test";
import { color } from "../src/plot/colors";

type Triple = [number, number, number];

/** What is left of light (linear red, green, blue) for people who lack one kind of cones: Machado, Oliveira, Fernandes 2009. */
const EYES: Record<string, Triple[]> = {
  all: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protan: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deutan: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritan: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

const linear = (value: number) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const light = (hex: string) => [1, 3, 5].map((at) => linear(parseInt(hex.slice(at, at + 2), 16) / 255)) as Triple;

/** Oklab: Ottosson 2020. */
function seen([r, g, b]: Triple): Triple {
  const root = (x: number, y: number, z: number) => Math.cbrt(x * r + y * g + z * b);
  const l = root(0.4122214708, 0.5363325363, 0.0514459929);
  const m = root(0.2119034982, 0.6806995451, 0.1073969566);
  const s = root(0.0883024619, 0.2817188376, 0.6299787005);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

const by = (eye: Triple[], of: Triple) =>
  seen(eye.map((row) => Math.min(Math.max(row[0] * of[0] + row[1] * of[1] + row[2] * of[2], 0), 1)) as Triple);
const luminance = ([r, g, b]: Triple) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
const contrast = (a: number, b: number) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);

for (const [dark, ground] of [[false, "#ffffff"], [true, "#14181f"]] as const) {
  test(`colours of the ${dark ? "dark" : "light"} theme are told apart by every eye`, () => {
    const colors = Array.from({ length: 9 }, (_, i) => color(i, dark));
    for (const [i, own] of colors.entries()) {
      assert.ok(contrast(luminance(light(own)), luminance(light(ground))) >= 4.5, own);
      for (const [eye, matrix] of Object.entries(EYES)) {
        for (const other of colors.slice(i + 1)) {
          const distance = Math.hypot(...by(matrix, light(own)).map((x, at) => x - by(matrix, light(other))[at]));
          assert.ok(distance >= 0.065, `${own} and ${other} for ${eye}: ${distance}`);
        }
      }
    }
  });
}
