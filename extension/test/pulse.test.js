import assert from "node:assert/strict";
import test from "node:test";
import { Pulse } from "../pulse.js";
import { install } from "./fakes.js";

const FAST = 3 / 60;
const SLOW = 30 / 60;

function setUp(t) {
  t.mock.timers.enable({ apis: ["Date"], now: 1_000_000 });
  const world = install();
  return { ...world, pulse: new Pulse(), period: () => world.alarms.get("pulse")?.periodInMinutes };
}

test("a paired worker with nothing attached is woken every 30 s", async (t) => {
  const { pulse, period } = setUp(t);
  await pulse.settle(false);
  assert.equal(period(), SLOW);
});

test("one that waits for a pairing every 3 s", async (t) => {
  const { pulse, period } = setUp(t);
  await pulse.settle(true);
  assert.equal(period(), FAST);
  await pulse.settle(false);
  assert.equal(period(), SLOW);
});

test("an attach makes it fast at once, and for a minute after the last attached tab", async (t) => {
  const { pulse, period, chrome } = setUp(t);
  await pulse.settle(false);
  await pulse.quicken();
  assert.equal(period(), FAST);
  chrome.debugger.targets = [{ id: "a", attached: false }, { id: "b", attached: true }];
  t.mock.timers.tick(600_000);
  await pulse.settle(false);
  assert.equal(period(), FAST, "as long as it is attached");
  chrome.debugger.targets = [];
  t.mock.timers.tick(59_000);
  await pulse.settle(false);
  assert.equal(period(), FAST, "in grace");
  t.mock.timers.tick(2_000);
  await pulse.settle(false);
  assert.equal(period(), SLOW);
});

test("a new worker takes up the grace of the one before", async (t) => {
  const { period, pulse } = setUp(t);
  await pulse.quicken();
  t.mock.timers.tick(30_000);
  const next = new Pulse();
  await next.settle(false);
  assert.equal(period(), FAST);
  t.mock.timers.tick(61_000);
  await next.settle(false);
  assert.equal(period(), SLOW);
});

test("the alarm is not set anew when nothing changes, or it would never ring", async (t) => {
  const { pulse, chrome, alarms } = setUp(t);
  await pulse.settle(false);
  let created = 0;
  chrome.alarms.create = async () => void created++;
  await pulse.settle(false);
  await new Pulse().settle(false);
  assert.equal(created, 0);
  assert.equal(alarms.size, 1);
});

test("without an owner the tabs are let go after a minute, and another's debugger stays", async (t) => {
  const { pulse, chrome } = setUp(t);
  const tried = [];
  chrome.debugger.detach = async ({ tabId }) => {
    tried.push(tabId);
    if (tabId === 8) throw new Error("Debugger is not attached to the tab with id: 8.");
  };
  chrome.debugger.targets = [{ id: "a", tabId: 7, attached: true }, { id: "b", tabId: 8, attached: true }, { id: "c", tabId: 9, attached: false }];
  await pulse.settle(false, true);
  t.mock.timers.tick(59_000);
  await pulse.settle(false, false);
  assert.deepEqual(tried, [], "in grace");
  await pulse.settle(false, true);
  t.mock.timers.tick(59_000);
  await pulse.settle(false, false);
  assert.deepEqual(tried, [], "it was heard in the meantime");
  t.mock.timers.tick(2_000);
  await pulse.settle(false, false);
  assert.deepEqual(tried, [7, 8]);
});
