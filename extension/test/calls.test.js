import assert from "node:assert/strict";
import test from "node:test";
import { call } from "../calls.js";
import { CONTRACT } from "../contract.js";
import { install } from "./fakes.js";

test("a call reaches chrome.* with its arguments, and its result comes back", async () => {
  const { calls } = install();
  assert.deepEqual(await call("debugger.sendCommand", [{ tabId: 7 }, "Page.enable", { a: 1 }]), { ok: true });
  assert.deepEqual(calls, [["debugger.sendCommand", { tabId: 7 }, "Page.enable", { a: 1 }]]);
});

test("Chrome's error comes back as it is", async () => {
  install();
  await assert.rejects(call("tabs.get", [99]), (error) => error.message === "No tab with id: 99." && !("code" in error));
});

test("anything outside the list is refused before it is looked up", async () => {
  const { chrome, calls } = install();
  const touched = [];
  globalThis.chrome = new Proxy(chrome, {
    get(target, key) {
      touched.push(key);
      return target[key];
    },
  });
  const outside = [
    "tabs.captureVisibleTab", "tabs.executeScript", "scripting.executeScript", "management.getAll", "cookies.getAll",
    "storage.sync.get", "storage.local.clear", "storage.local.getBytesInUse", "runtime.connectNative", "runtime.sendMessage",
    "action.openPopup", "alarms.create", "debugger.onEvent.addListener", "constructor", "__proto__", "toString", "", ".",
    "tabs", "tabs.", "tabs.query.call", " tabs.query", "Tabs.query",
  ];
  for (const name of outside) {
    await assert.rejects(call(name, []), { code: "not-allowed" }, name);
  }
  assert.deepEqual([touched, calls], [[], []]);
});

test("a refusal names the call, cut to a bound", async () => {
  install();
  await assert.rejects(call("cookies.getAll", []), { message: "cookies.getAll is not in the contract" });
  await assert.rejects(call("x".repeat(9999), []), (error) => error.message.length < 120);
});

test("storage calls never reach the extension's own keys", async () => {
  const { chrome } = install();
  const before = structuredClone([chrome.storage.local.content, chrome.storage.session.content]);
  const own = "piChromeConnectorIdentity";
  const tries = [
    ["storage.local.get", [null]],
    ["storage.local.get", []],
    ["storage.local.get", [own]],
    ["storage.local.get", [["a", own]]],
    ["storage.local.get", [{ [own]: 1 }]],
    ["storage.local.set", [{ a: 1, [own]: { connectorId: "x", secret: "y" } }]],
    ["storage.local.remove", [own]],
    ["storage.local.remove", [[own]]],
    ["storage.local.set", [{ piChromeLabel: "x" }]],
    ["storage.session.set", [{ piChromeBrowserEpoch: "x" }]],
    ["storage.session.set", [{ canceledAt: 0 }]],
    ["storage.session.get", [null]],
  ];
  for (const [name, args] of tries) {
    await assert.rejects(call(name, args), { code: "not-allowed" }, JSON.stringify([name, args]));
  }
  assert.deepEqual([chrome.storage.local.content, chrome.storage.session.content], before);
});

test("other keys of storage can be used", async () => {
  install();
  await call("storage.session.set", [{ ask: { id: 1 } }]);
  assert.deepEqual(await call("storage.session.get", ["ask"]), { ask: { id: 1 } });
  await call("storage.session.remove", [["ask"]]);
  assert.deepEqual(await call("storage.session.get", [{ ask: 0 }]), {});
});

test("a reload answers first", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { calls } = install();
  assert.equal(await call("runtime.reload", []), null);
  assert.deepEqual(calls, []);
  t.mock.timers.tick(100);
  assert.deepEqual(calls, [["runtime.reload"]]);
});

test("the list is that of the design", () => {
  const api = {};
  for (const name of CONTRACT.calls) {
    const at = name.lastIndexOf(".");
    (api[name.slice(0, at)] ??= []).push(name.slice(at + 1));
  }
  assert.deepEqual(api, {
    action: ["setBadgeText", "setTitle"],
    debugger: ["attach", "detach", "getTargets", "sendCommand"],
    downloads: ["cancel", "download", "erase", "search"],
    runtime: ["getPlatformInfo", "reload"],
    "storage.local": ["get", "remove", "set"],
    "storage.session": ["get", "remove", "set"],
    tabGroups: ["get", "query", "update"],
    tabs: ["create", "get", "goBack", "goForward", "group", "move", "query", "reload", "remove", "ungroup", "update"],
    windows: ["get", "getAll", "update"],
  });
});
