import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import { overview, PROJECTION, readable, receiptRow, restText, sentence, sessionRow, workerProjection } from "../popup_view.js";

const folder = new URL("../../fixtures/wire/", import.meta.url);

/** The projections that owners tell, by name; Go writes and checks the same files. */
const told = Object.fromEntries(
  readdirSync(folder)
    .filter((name) => name.startsWith("bridge2popup-"))
    .map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf8")))
    .map(({ name, frame }) => [name, frame.status]),
);

const connected = /** @type {State} */ ({ status: "connected", port: 17318 });
const waiting = /** @type {State} */ ({ status: "waiting", port: 17318 });
const who = { connectorId: "11111111-2222-4333-8444-555555555555", label: "Work" };

test("every projection of an owner is readable and has words of its own", () => {
  assert.ok(Object.keys(told).length >= 9, Object.keys(told).join());
  for (const [name, projection] of Object.entries(told)) {
    assert.ok(readable(projection), name);
    assert.ok(["ready", "waiting-for-extension", "offline", "error"].includes(projection.state), name);
    const view = overview(projection, projection.connector.connected ? connected : waiting, "Work");
    assert.ok(view.pill && view.title.length > 4 && view.detail.length > 20, name);
  }
  for (const other of [undefined, {}, { ...told.zero, version: 4 }, { ...told.zero, kind: "pi-chrome/status" }]) {
    assert.equal(readable(other), false);
  }
});

test("each state shows as what it is", () => {
  const pill = (name, state) => overview(told[name], state, "Work").pill;
  assert.equal(pill("zero", connected), "Connected");
  assert.equal(pill("many", connected), "Connected");
  assert.equal(pill("stopped", connected), "Stopped");
  assert.equal(pill("canceled", connected), "Canceled");
  assert.equal(pill("waiting", waiting), "Waiting");
  assert.equal(pill("waiting", connected), "Connected"); // it came in this moment
  assert.equal(pill("error", connected), "Error");
  assert.equal(pill("refused", waiting), "Error");
  assert.equal(pill("ending", connected), "Ending");
  assert.equal(overview(told.stopped, connected, "Work").command, "pi-chrome authorize --session session:0f3c");
  assert.equal(overview(told.error, connected, "Work").detail, told.error.errorMessage);
});

test("what keeps the worker away comes first: it says what to do", () => {
  const refused = /** @type {State} */ ({ status: "refused", port: 1, code: "duplicate-connector", message: "a copy" });
  assert.ok(overview(told.many, refused, "Work").newIdentity);
  assert.ok(overview(told.many, { status: "unpaired", port: 1 }, "Work").token);
});

test("the worker's own projection has the shape of the owner's", () => {
  const keys = (projection) => Object.keys(projection).filter((key) => key !== "errorMessage").sort();
  /** @type {[State["status"], string, string][]} */
  const states = [["connected", "ready", "running"], ["pairing", "waiting-for-extension", "running"],
    ["unpaired", "waiting-for-extension", "stopped"], ["waiting", "offline", "stopped"], ["refused", "error", "running"]];
  for (const [status, state, bridge] of states) {
    const own = workerProjection({ status, port: 1, message: "why" }, who);
    assert.ok(readable(own));
    assert.deepEqual(keys(own), keys(told.zero), status);
    assert.deepEqual([own.state, own.bridge, own.connector?.connected], [state, bridge, status === "connected"], status);
    assert.equal(own.errorMessage, status === "refused" ? "why" : undefined);
  }
  assert.deepEqual(PROJECTION, { kind: told.zero.kind, version: told.zero.version });
});

test("a session's row says what it may do and what it does", () => {
  const [working, open, locked] = told.many.sessions.map(sessionRow);
  assert.deepEqual([working.name, working.chip.text, working.chip.tone], ["Find a flight to Lisbon", "Working", "busy"]);
  assert.match(working.detail, /^allowed until \d+[:.]\d+.*, 2 commands wait$/);
  assert.deepEqual([open.name, open.chip.text], ["default", "Allowed"]);
  assert.deepEqual([locked.name, locked.chip.text, locked.tabs.length], ["mcp:desktop", "Locked", 0]);
  const idle = sessionRow({ ...told.many.sessions[0], executing: 0, queued: 0 });
  assert.match(idle.chip.text, /^Allowed until /);
  assert.equal(idle.detail, "");
});

test("a tab's row names who has it, and offers the other way round", () => {
  const [[mine, yours], [lent, lost, made]] = told.many.sessions.map((session) => sessionRow(session).tabs);
  assert.deepEqual([mine.action, mine.note, mine.place], ["take", "", "flights.example.com"]);
  assert.match(mine.label, /^Take Flights to Lisbon .* over from Find a flight to Lisbon$/);
  assert.deepEqual([yours.action, yours.note], ["give", "You have it"]);
  assert.match(yours.label, /^Hand Sign in .* back to Find a flight to Lisbon$/);
  assert.deepEqual([lent.action, lent.note], ["take", "Yours, used by the session"]);
  assert.deepEqual([lost.action, made.action, made.name], ["", "", "A new tab"]);
});

test("a receipt says what came of a command, and never that a doubtful one was done", () => {
  const rows = told.many.receipts.map((receipt) => receiptRow(receipt, told.many.sessions));
  assert.deepEqual(rows.map(({ outcome }) => outcome), ["Done", "Not done", "Outcome unknown", "Not done"]);
  assert.deepEqual(rows.map(({ message }) => Boolean(message)), [false, true, true, true]);
  assert.equal(rows[0].place, "Find a flight to Lisbon · flights.example.com");
  assert.equal(rows[3].place, "mcp:desktop");
  assert.match(rows[0].time, /\d/);
  assert.equal(rows[3].message, 'Session "mcp:desktop" may not use the browser; nothing was done.');
  assert.deepEqual(["", "done.", "why?", "chrome_click did"].map((text) => sentence(text)), ["", "Done.", "Why?", "chrome_click did."]);
});

test("what is not listed is counted", () => {
  assert.equal(restText(told.zero), "No session works in this profile.");
  assert.match(restText(told.many), /^13 more sessions are not shown. 2 sessions of other browsers/);
  assert.match(restText({ ...told.many, moreSessions: 1, elsewhere: 1 }), /^1 more session is .* 1 session of other browsers may act too: Stop ends it/);
  assert.equal(restText(told.one), "");
});
