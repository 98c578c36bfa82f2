// Runs the tests of what decides without a page: bundled by the same program as the console, run by node's own runner.

import * as esbuild from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const here = new URL(".", import.meta.url).pathname;
const out = await mkdtemp(join(tmpdir(), "nyala-console-test-"));
const entryPoints = (await readdir(here)).filter((name) => name.endsWith(".test.ts")).map((name) => join(here, name));
await esbuild.build({ entryPoints, outdir: out, outExtension: { ".js": ".mjs" }, bundle: true, platform: "node", format: "esm", logLevel: "warning" });
const files = (await readdir(out)).map((name) => join(out, name));
const { status } = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" });
await rm(out, { recursive: true });
process.exit(status ?? 1);
