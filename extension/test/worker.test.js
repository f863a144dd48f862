// The worker as a whole. Its module runs once, so one profile lives through all tests here.

import assert from "node:assert/strict";
import test, { mock } from "node:test";
import { CONTRACT } from "../contract.js";
import { FakeSocket, install, Owner, settle, TOKEN } from "./fakes.js";

mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_000_000 });
const world = install();
const { chrome, folder, alarms } = world;
for (const key of Object.keys(chrome.storage.local.content)) delete chrome.storage.local.content[key];
chrome.storage.session.content = {};
await import("../service_worker.js");
// Before anything else has run: Chrome looks no later.
const counts = Object.fromEntries(
  [...CONTRACT.events.filter((name) => name !== "popup.request"), "runtime.onMessage", "runtime.onStartup", "runtime.onInstalled", "alarms.onAlarm"].map(
    (name) => [name, name.split(".").reduce((object, key) => object[key], chrome).listeners.length],
  ),
);
const popup = (message) =>
  new Promise((resolve) => assert.deepEqual(chrome.runtime.onMessage.fire(message, {}, resolve), [true], "answers later"));
const badge = () => world.calls.filter(([name]) => name === "action.setBadgeText").at(-1)?.[1].text;
const title = () => world.calls.filter(([name]) => name === "action.setTitle").at(-1)?.[1].title;
const identity = () => chrome.storage.local.content.piChromeConnectorIdentity;

test("every listener was registered once, at the top level", () => {
  for (const [name, count] of Object.entries(counts)) assert.equal(count, 1, name);
});

test("a new profile gets an identity without a secret, and waits for a token every 3 s", async () => {
  await settle();
  assert.match(identity().connectorId, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(identity().secret, "");
  assert.equal(FakeSocket.all.length, 0);
  assert.equal(alarms.get("pulse").periodInMinutes, 3 / 60);
  assert.deepEqual([badge(), title()], ["?", "pi-chrome: unpaired"]);
});

test("the token of the folder is found by the alarm, and pairs", async () => {
  folder["bridge.json"] = JSON.stringify({ port: 4321, pairingToken: TOKEN });
  chrome.alarms.onAlarm.fire({ name: "pulse" });
  await settle();
  const socket = FakeSocket.last;
  assert.equal(socket.url, "ws://127.0.0.1:4321/pairing");
  const hello = await new Owner(TOKEN).challenge(socket);
  assert.equal(hello.label, `Chrome ${identity().connectorId.slice(0, 8)}`);
  socket.receive({ type: "offered" });
  await settle();
  assert.equal(title(), "pi-chrome: pairing");
  socket.receive({ type: "paired", connectorId: hello.connectorId, label: "Shop" });
  await settle();
  await new Owner(identity().secret).connect(FakeSocket.last);
  assert.deepEqual([badge(), title()], ["on", "pi-chrome: connected"]);
  chrome.alarms.onAlarm.fire({ name: "pulse" });
  await settle();
  assert.equal(alarms.get("pulse").periodInMinutes, 30 / 60);
});

test("events of Chrome go out as Chrome gave them, in order", () => {
  const before = FakeSocket.last.sent.length;
  chrome.tabs.onUpdated.fire(7, { status: "loading" }, { id: 7 });
  chrome.debugger.onEvent.fire({ tabId: 7 }, "Page.loadEventFired", { timestamp: 1 });
  chrome.debugger.onDetach.fire({ tabId: 7 }, "target_closed");
  chrome.tabs.onReplaced.fire(8, 7);
  chrome.downloads.onChanged.fire({ id: 1 });
  assert.deepEqual(FakeSocket.last.sent.slice(before).map(({ event, args }) => [event, args]), [
    ["tabs.onUpdated", [7, { status: "loading" }, { id: 7 }]],
    ["debugger.onEvent", [{ tabId: 7 }, "Page.loadEventFired", { timestamp: 1 }]],
    ["debugger.onDetach", [{ tabId: 7 }, "target_closed"]],
    ["tabs.onReplaced", [8, 7]],
    ["downloads.onChanged", [{ id: 1 }]],
  ]);
});

test("a call outside the list is refused in the worker", async () => {
  FakeSocket.last.receive({ id: 1, call: "cookies.getAll", args: [{}] });
  await settle();
  assert.deepEqual(FakeSocket.last.sent.at(-1).error, { message: "cookies.getAll is not in the contract", code: "not-allowed" });
});

test("an attach makes the alarm fast before Chrome has answered", async () => {
  FakeSocket.last.receive({ id: 2, call: "debugger.attach", args: [{ tabId: 7 }, "1.3"] });
  await settle();
  assert.equal(alarms.get("pulse").periodInMinutes, 3 / 60);
  assert.equal(FakeSocket.last.sent.at(-1).result, null);
});

test("the popup is told the state, and its request reaches the owner", async () => {
  assert.deepEqual(await popup({ do: "state" }), { status: "connected", port: 4321 });
  await popup({ do: "request", request: { kind: "rename", label: "Mine" } });
  const { event, args } = FakeSocket.last.sent.at(-1);
  assert.deepEqual([event, args], ["popup.request", [{ kind: "rename", label: "Mine" }]]);
});

test("a page's message goes to the owner with its origin, and has no answer", async () => {
  const sender = { origin: "http://localhost:3000", url: "http://localhost:3000/a", frameId: 0, tab: { id: 9, title: "x" }, id: undefined };
  assert.deepEqual(chrome.runtime.onMessageExternal.fire({ hello: 1 }, sender), [undefined]);
  const { event, args } = FakeSocket.last.sent.at(-1);
  assert.equal(event, "runtime.onMessageExternal");
  assert.deepEqual(args, [{ hello: 1 }, { origin: "http://localhost:3000", url: "http://localhost:3000/a", frameId: 0, tabId: 9 }]);
});

test("a page's message beyond 64 KB, or one without a connection, is dropped", async () => {
  const socket = FakeSocket.last;
  const before = socket.sent.length;
  const sender = { origin: "http://localhost", url: "http://localhost/", frameId: 0 };
  chrome.runtime.onMessageExternal.fire("é".repeat(33_000), sender);
  chrome.runtime.onMessageExternal.fire("", { ...sender, url: `http://localhost/${"x".repeat(70_000)}` });
  assert.equal(socket.sent.length, before);
  socket.lose();
  chrome.runtime.onMessageExternal.fire({}, sender);
  await popup({ do: "request", request: { kind: "done" } });
  await settle();
  assert.deepEqual([badge(), title()], ["…", "pi-chrome: waiting"]);
  mock.timers.tick(5000);
  await settle();
  await new Owner(identity().secret).connect(FakeSocket.last, 99);
  assert.deepEqual(FakeSocket.last.sent.map((frame) => frame.type), ["hello", "prove"], "and nothing of it comes later");
});

test("a token that is no token is not tried", async () => {
  const sockets = FakeSocket.all.length;
  for (const token of ["", "12", "x".repeat(32), `${TOKEN}00`, 7, null, undefined]) {
    assert.equal((await popup({ do: "pair", token })).status, "connected");
  }
  assert.equal(FakeSocket.all.length, sockets);
});
