// Builds `dist/`, which is committed: building nyala takes neither node nor a network. The same sources and the same lock
// file give the same bytes, and `.ci/run` checks that they are the committed ones.

import * as esbuild from "esbuild";
import { copyFile, mkdir, rm } from "node:fs/promises";

const out = new URL("dist/", import.meta.url).pathname;
await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
await esbuild.build({
  entryPoints: { app: "src/main.tsx", worker: "src/data/worker.ts" },
  absWorkingDir: new URL(".", import.meta.url).pathname,
  outdir: out,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022", "chrome105", "firefox110", "safari16"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) await copyFile(`src/${name}`, `${out}${name}`);
