// What the package is made of: its manifest, its size, and what it must not contain.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import test from "node:test";
import { CONTRACT } from "../contract.js";
import { ID, shipped } from "./fakes.js";

const manifest = JSON.parse(shipped("manifest.json"));

/** A module and everything that it imports. */
function closure(name, seen = new Set()) {
  if (seen.has(name)) return seen;
  seen.add(name);
  for (const [, next] of shipped(name).matchAll(/^import [^;]*"\.\/([^"]+)";$/gm)) closure(next, seen);
  return seen;
}

const worker = [...closure("service_worker.js")];

test("the worker and what it imports stay under 25 KB", () => {
  assert.ok(worker.length > 8, worker.join());
  const size = worker.reduce((sum, name) => sum + Buffer.byteLength(shipped(name)), 0);
  assert.ok(size < 25_000, `${size} bytes`);
});

// Invariant 10 of the design.
test("the worker knows no page, no protocol of pages, no operation and no tool", () => {
  const code = worker.map((name) => [name, shipped(name)]);
  const never = {
    "the name of a tool": /\bchrome_[a-z]/,
    "a method or event of the DevTools protocol": /["'`](Accessibility|CSS|DOM|Emulation|Fetch|Input|Log|Network|Overlay|Page|Runtime|Storage|Target)\.\w/,
    "a page's document": /\b(document|window)\b/,
    "a selector": /querySelector|getElement|closest\(|matches\(|xpath/i,
    "a script for a page": /\beval\b|new Function|executeScript|insertCSS|importScripts|import\(/,
    "an operation": /\b(snapshot|screenshot|navigate|click|hover|scroll|keyPress|dialog|upload)\b/i,
    "a policy": /\b(allowlist|blocklist|permission|authori[sz]e|policy|hostname)\b/i,
    "a network address but the owner's": /https?:|wss:|ws:(?!\/\/127\.0\.0\.1:)/,
  };
  for (const [name, text] of code) {
    for (const [what, pattern] of Object.entries(never)) {
      assert.equal(pattern.exec(text)?.[0], undefined, `${name} has ${what}`);
    }
  }
});

test("chrome.* is used only through the list of calls and what the worker needs itself", () => {
  const own = [
    "chrome.action.setBadgeBackgroundColor", "chrome.action.setBadgeText", "chrome.action.setTitle",
    "chrome.alarms.create", "chrome.alarms.get", "chrome.alarms.onAlarm.addListener",
    "chrome.debugger.detach", "chrome.debugger.getTargets",
    "chrome.extension.isAllowedFileSchemeAccess", "chrome.extension.isAllowedIncognitoAccess",
    "chrome.runtime.getManifest", "chrome.runtime.getURL", "chrome.runtime.id",
    "chrome.runtime.onInstalled.addListener", "chrome.runtime.onMessage.addListener",
    "chrome.runtime.onMessageExternal.addListener", "chrome.runtime.onStartup.addListener", "chrome.runtime.reload",
    "chrome.storage.local.get", "chrome.storage.local.set", "chrome.storage.session.get", "chrome.storage.session.remove", "chrome.storage.session.set",
  ];
  const used = new Set();
  for (const name of worker) {
    for (const [use] of shipped(name).matchAll(/\bchrome(\.\w+)+/g)) used.add(use);
  }
  assert.deepEqual([...used].sort(), own);
});

test("the manifest is final: permissions, pages, policy, oldest Chrome", () => {
  assert.equal(manifest.manifest_version, 3);
  assert.deepEqual(manifest.permissions, ["debugger", "tabs", "tabGroups", "storage", "alarms", "downloads"]);
  for (const key of ["host_permissions", "optional_permissions", "optional_host_permissions", "content_scripts", "web_accessible_resources"]) {
    assert.equal(manifest[key], undefined, key);
  }
  assert.deepEqual(manifest.externally_connectable, { matches: ["http://localhost/*", "http://127.0.0.1/*"] });
  assert.equal(manifest.minimum_chrome_version, "125");
  assert.deepEqual(manifest.background, { service_worker: "service_worker.js", type: "module" });
  const policy = manifest.content_security_policy.extension_pages;
  assert.ok(!/unsafe|data:|blob:|https?:|\*(?!;)/.test(policy.replace("ws://127.0.0.1:*", "")), policy);
  assert.match(policy, /default-src 'none'/);
});

test("the key gives the id that the owner expects", () => {
  const digest = createHash("sha256").update(Buffer.from(manifest.key, "base64")).digest("hex").slice(0, 32);
  assert.equal(digest.replace(/./g, (digit) => String.fromCharCode(97 + parseInt(digit, 16))), ID);
});

test("icons are there and have their sizes", () => {
  const icons = { ...manifest.icons, ...manifest.action.default_icon };
  assert.deepEqual(Object.keys(manifest.icons), ["16", "32", "48", "128"]);
  for (const [size, name] of Object.entries(icons)) {
    const png = readFileSync(new URL(`../${name}`, import.meta.url));
    assert.equal(png.toString("latin1", 1, 4), "PNG", name);
    assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [+size, +size], name);
  }
});

test("the popup loads nothing but its own files, and every field and button has a name", () => {
  const html = shipped("popup.html");
  assert.ok(!/https?:|\son\w+=|<style|style=|<script(?![^>]*src=)/.test(html));
  for (const [, name] of html.matchAll(/(?:src|href)="([^"]+)"/g)) {
    assert.ok(existsSync(new URL(`../${name}`, import.meta.url)), name);
  }
  assert.ok(!/https?:|url\(|@import/.test(shipped("popup.css")));
  for (const [, id] of html.matchAll(/<input id="(\w+)"/g)) assert.match(html, new RegExp(`<label for="${id}">`));
  for (const [button] of html.matchAll(/<button[^]*?<\/button>/g)) assert.match(button, />[^<]+</);
  const ids = [...html.matchAll(/id="([\w-]+)"/g)].map((match) => match[1]);
  for (const [, id] of shipped("popup.js").matchAll(/(?:element|onClick)\("([\w-]+)"/g)) assert.ok(ids.includes(id), id);
});

test("what follows the equals sign of contract.js is strict JSON", () => {
  const text = shipped("contract.js");
  const body = text.slice(text.indexOf("export const CONTRACT = ") + "export const CONTRACT = ".length, text.lastIndexOf(";"));
  assert.deepEqual(JSON.parse(body), CONTRACT);
});
