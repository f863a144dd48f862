// What a hello says about the browser.

import assert from "node:assert/strict";
import test from "node:test";
import { facts } from "../facts.js";
import { install } from "./fakes.js";

const world = install();

test("the browser is named by its own brand", async () => {
  assert.deepEqual((await facts()).browser, { family: "chromium", version: "156.0.8078.73" });
  world.brands.push({ brand: "Microsoft Edge", version: "156.0.1.2" });
  assert.deepEqual((await facts()).browser, { family: "edge", version: "156.0.1.2" });
});

test("a browser started with --user-agent names no brands, and connects all the same", async () => {
  world.brands.length = 0;
  assert.deepEqual((await facts()).browser, { family: "chromium", version: "unknown" });
});
