import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { CONTRACT } from "../contract.js";
import { createRelay } from "../relay.js";
import { CONNECTOR, FakeSocket, hmac, ID, install, Owner, SECRET, settle, shipped, TOKEN } from "./fakes.js";

const EPOCH = "22".repeat(32);

/** A relay in a fake browser whose clock stands still. */
function setUp(t, start) {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_000_000 });
  const world = install(start);
  const asked = [];
  const relay = createRelay(
    (name, args) => new Promise((resolve, reject) => asked.push({ name, args, resolve, reject })),
    () => {},
  );
  return { ...world, relay, asked, tick: (ms) => t.mock.timers.tick(ms) };
}

/** A relay that is connected, with the socket and its owner. */
async function connect(t, start) {
  const world = setUp(t, start);
  const owner = new Owner();
  await world.relay.wake();
  const socket = FakeSocket.last;
  const hello = await owner.connect(socket);
  return { ...world, owner, socket, hello };
}

/** Lets the next attempt happen, and answers it. */
async function reconnect({ tick, owner }, ack) {
  const before = FakeSocket.all.length;
  tick(5000);
  await settle();
  assert.equal(FakeSocket.all.length, before + 1, "one new socket");
  const socket = FakeSocket.last;
  const hello = await owner.connect(socket, ack);
  return { socket, hello, after: socket.sent.slice(2) };
}

const call = (socket, id, name = "tabs.query", args = [{}]) => socket.receive({ id, call: name, args });

/** The form of a frame: its fields and the kinds of their values. */
function form(value) {
  if (Array.isArray(value)) return "array";
  if (!value || typeof value !== "object") return value === null ? "null" : typeof value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, form(value[key])]));
}

function golden(name) {
  return JSON.parse(readFileSync(new URL(`../../fixtures/wire/ext2bridge-${name}.json`, import.meta.url), "utf8")).frame;
}

const like = (frame, name) => assert.deepEqual(form(frame), form(golden(name)), name);

test("the handshake: hello, the right proof, ready", async (t) => {
  const { relay, socket, hello } = await connect(t);
  assert.equal(socket.url, "ws://127.0.0.1:4321/connector");
  like(hello, "hello");
  assert.equal(hello.version, 1);
  assert.equal(hello.connectorId, CONNECTOR);
  assert.equal(hello.extensionId, ID);
  assert.equal(hello.displayVersion, JSON.parse(shipped("manifest.json")).version);
  assert.equal(hello.label, "Work");
  assert.deepEqual(hello.browser, { family: "chromium", version: "156.0.8078.73" });
  assert.equal(hello.browserEpoch, "be".repeat(32));
  assert.deepEqual(hello.capabilities, { flatSessions: true, fileAccess: true, incognito: false });
  assert.deepEqual(hello.resume, { bridgeEpoch: "", lastCall: 0, firstSeq: 1, lastSeq: 0 });
  assert.match(hello.clientNonce, /^[0-9a-f]{64}$/);
  like(socket.sent[1], "prove");
  assert.deepEqual(await relay.state(), { status: "connected", port: 4321 });
});

test("each socket has a nonce of its own, and the worker one id", async (t) => {
  const world = await connect(t);
  world.socket.lose();
  const { hello } = await reconnect(world, 0);
  assert.notEqual(hello.clientNonce, world.hello.clientNonce);
  assert.equal(hello.workerId, world.hello.workerId);
});

test("the brand of the browser is its family", async (t) => {
  const world = setUp(t);
  world.brands.push({ brand: "Google Chrome", version: "156.0.1.2" });
  await world.relay.wake();
  const hello = await new Owner().challenge(FakeSocket.last);
  assert.deepEqual(hello.browser, { family: "chrome", version: "156.0.1.2" });
});

test("an owner that does not know the secret gets no proof and no call through", async (t) => {
  const { relay, asked } = setUp(t);
  await relay.wake();
  const socket = FakeSocket.last;
  await new Owner("00".repeat(32)).challenge(socket);
  assert.deepEqual(socket.sent.map((frame) => frame.type), ["hello"]);
  assert.ok(socket.closed);
  const { status, code, scope } = await relay.state();
  assert.deepEqual([status, code, scope], ["refused", "bad-server-proof", "connector"]);
  call(socket, 1);
  assert.deepEqual(asked, []);
});

test("a proof made for other values is wrong", async (t) => {
  for (const field of ["bridgeEpoch", "requestNonce"]) {
    const { relay } = setUp(t);
    await relay.wake();
    await new Owner().challenge(FakeSocket.last, { [field]: "77".repeat(32) });
    assert.equal((await relay.state()).code, "bad-server-proof", field);
    t.mock.timers.reset();
  }
});

test("another contract on the owner's side ends the handshake", async (t) => {
  const { relay } = setUp(t);
  await relay.wake();
  await new Owner().challenge(FakeSocket.last, { serverFingerprint: "44".repeat(32) });
  assert.deepEqual(FakeSocket.last.sent.map((frame) => frame.type), ["hello"]);
  assert.equal((await relay.state()).code, "fingerprint-mismatch");
});

test("frames out of their place end the connection and do nothing", async (t) => {
  const ready = { type: "ready", connectionId: "c", generation: 1, ack: 0 };
  const early = [ready, { id: 1, call: "tabs.query", args: [] }, { type: "ping", ack: 0 }, { type: "offered" },
    { type: "paired", connectorId: CONNECTOR, label: "x" }, "no json", { type: "hello" }];
  for (const frame of early) {
    const { relay, asked } = setUp(t);
    await relay.wake();
    const socket = FakeSocket.last;
    socket.open();
    socket.receive(frame);
    await settle();
    assert.ok(socket.closed, JSON.stringify(frame));
    assert.equal(relay.connected(), false);
    const { status, code } = await relay.state();
    assert.deepEqual([status, code, asked], ["waiting", "malformed", []]);
    t.mock.timers.reset();
  }
});

test("ready while the proof is being made is too early", async (t) => {
  const { relay } = setUp(t);
  await relay.wake();
  const socket = FakeSocket.last;
  const waiting = new Owner().challenge(socket);
  socket.receive({ type: "ready", connectionId: "c", generation: 1, ack: 0 });
  await waiting;
  assert.equal(relay.connected(), false);
  assert.deepEqual(socket.sent.map((frame) => frame.type), ["hello"]);
});

test("a refusal is kept for the popup, cut to a bound, and not asked again at once", async (t) => {
  const { relay, tick } = setUp(t);
  await relay.wake();
  FakeSocket.last.open();
  FakeSocket.last.receive({ type: "refused", code: "duplicate-connector", message: "m".repeat(9999) });
  const state = await relay.state();
  assert.deepEqual([state.status, state.code, state.message?.length], ["refused", "duplicate-connector", 500]);
  for (let s = 0; s < 27; s += 3) {
    tick(3000);
    await relay.wake(); // by the alarm
  }
  assert.equal(FakeSocket.all.length, 1, "nothing for 27 s");
  tick(5000);
  await relay.wake();
  await settle();
  assert.equal(FakeSocket.all.length, 2);
  await new Owner().connect(FakeSocket.last);
  assert.deepEqual(await relay.state(), { status: "connected", port: 4321 }, "forgotten by a connection");
});

test("a refusal that passes by itself is no refusal for the popup", async (t) => {
  for (const code of ["shutting-down", "nonce-expired", "nonce-reused", "too-many-connections", "malformed"]) {
    const { relay, tick } = setUp(t);
    await relay.wake();
    FakeSocket.last.open();
    FakeSocket.last.receive({ type: "refused", code, message: "later" });
    assert.equal((await relay.state()).status, "waiting", code);
    tick(400);
    await settle();
    assert.equal(FakeSocket.all.length, 2, code);
    t.mock.timers.reset();
  }
});

test("a person's wish comes before the pause after a refusal", async (t) => {
  const { relay } = setUp(t);
  await relay.wake();
  FakeSocket.last.open();
  FakeSocket.last.receive({ type: "refused", code: "unknown-connector", message: "" });
  await relay.restart();
  assert.equal(FakeSocket.all.length, 2);
});

test("an upgraded folder is loaded when the contracts differ, and only then", async (t) => {
  const contract = shipped("contract.js");
  for (const [text, reloads] of [[contract, 0], [contract.replace('"version": 1', '"version": 2'), 1]]) {
    const { relay, calls } = setUp(t, { files: { "contract.js": text } });
    await relay.wake();
    FakeSocket.last.open();
    FakeSocket.last.receive({ type: "refused", code: "fingerprint-mismatch", message: "" });
    await settle();
    assert.equal(calls.filter(([name]) => name === "runtime.reload").length, reloads);
    t.mock.timers.reset();
  }
});

test("pairing with a typed token: the secret is derived, stored after paired, used at once", async (t) => {
  const { relay, chrome } = setUp(t, { secret: "" });
  const stored = chrome.storage.local.content;
  relay.event("debugger.onDetach", [{ tabId: 7 }, "canceled_by_user"]);
  await relay.wake();
  assert.equal(FakeSocket.all.length, 0, "nothing to connect with");
  assert.equal((await relay.state()).status, "unpaired");
  await relay.restart(TOKEN);
  const socket = FakeSocket.last;
  assert.equal(socket.url, "ws://127.0.0.1:4321/pairing");
  const owner = new Owner(TOKEN);
  const hello = await owner.challenge(socket);
  assert.equal(socket.sent[1].proof, owner.expected(socket));
  socket.receive({ type: "offered" });
  assert.equal((await relay.state()).status, "pairing");
  assert.equal(stored.piChromeConnectorIdentity.secret, "");
  socket.receive({ type: "paired", connectorId: CONNECTOR, label: "Named by the owner" });
  await settle();
  const secret = hmac(TOKEN, ["pi-chrome/pairing/secret/v1", "2", CONNECTOR, hello.clientNonce, EPOCH, owner.nonce]);
  assert.deepEqual(stored.piChromeConnectorIdentity, { connectorId: CONNECTOR, secret });
  assert.equal(stored.piChromeLabel, "Named by the owner");
  assert.ok(socket.closed);
  assert.equal(FakeSocket.last.url, "ws://127.0.0.1:4321/connector");
  const after = await new Owner(secret).connect(FakeSocket.last);
  assert.equal(after.label, "Named by the owner");
  assert.deepEqual([hello.canceledAt, after.canceledAt], [1_000_000, 0], "who pairs has agreed to the debugger");
  assert.equal((await relay.state()).status, "connected");
  assert.ok(!JSON.stringify(FakeSocket.all.map((each) => each.sent)).includes(secret), "the secret never travels");
});

test("a profile that is paired again starts anew with the owner that it had", async (t) => {
  const { relay, owner, socket, asked } = await connect(t);
  call(socket, 7);
  await settle();
  asked[0].resolve(null);
  await settle();
  socket.lose();
  await relay.restart(TOKEN);
  const again = new Owner(TOKEN);
  const pairing = FakeSocket.last;
  const hello = await again.challenge(pairing);
  pairing.receive({ type: "offered" });
  pairing.receive({ type: "paired", connectorId: CONNECTOR, label: "x" });
  await settle();
  const secret = hmac(TOKEN, ["pi-chrome/pairing/secret/v1", "2", CONNECTOR, hello.clientNonce, EPOCH, again.nonce]);
  const { resume } = await new Owner(secret, owner.epoch).connect(FakeSocket.last);
  assert.deepEqual([resume.bridgeEpoch, resume.firstSeq, resume.lastSeq], ["", 1, 0], "nothing of the pairing before");
  call(FakeSocket.last, 1);
  assert.equal(asked.length, 2, "the new pairing's calls count from 1");
  assert.equal((await relay.state()).status, "connected");
});

test("a token in the folder is used by a profile without a pairing", async (t) => {
  const { relay, folder } = setUp(t, { secret: "" });
  await relay.wake();
  assert.equal(FakeSocket.all.length, 0);
  folder["bridge.json"] = JSON.stringify({ port: 5000, pairingToken: TOKEN });
  await relay.wake();
  assert.equal(FakeSocket.last.url, "ws://127.0.0.1:5000/pairing");
});

test("a paired profile leaves the token in the folder alone until its secret is refused", async (t) => {
  const { relay } = setUp(t, { files: { "bridge.json": JSON.stringify({ port: 4321, pairingToken: TOKEN }) } });
  await relay.wake();
  assert.equal(FakeSocket.last.url, "ws://127.0.0.1:4321/connector");
  FakeSocket.last.open();
  FakeSocket.last.receive({ type: "refused", code: "unknown-connector", message: "" });
  assert.equal(await relay.awaitsPairing(), true);
  await relay.wake();
  assert.equal(FakeSocket.last.url, "ws://127.0.0.1:4321/pairing");
});

test("a token that was refused is not tried again; one that was ambiguous is", async (t) => {
  const tries = { "pairing-used": 1, "pairing-expired": 1, "bad-proof": 1, "pairing-ambiguous": 2, "pairing-inactive": 2 };
  for (const [code, sockets] of Object.entries(tries)) {
    const { relay } = setUp(t, { secret: "", files: { "bridge.json": JSON.stringify({ pairingToken: TOKEN }) } });
    await relay.wake();
    assert.equal(FakeSocket.last.url, "ws://127.0.0.1:17318/pairing", "the port that is meant when none is named");
    FakeSocket.last.open();
    FakeSocket.last.receive({ type: "refused", code, message: "" });
    assert.deepEqual((await relay.state()).code, code);
    await relay.wake();
    assert.equal(FakeSocket.all.length, sockets, code);
    t.mock.timers.reset();
  }
});

test("a typed token that the owner does not know stores nothing", async (t) => {
  const { relay, chrome } = setUp(t, { secret: "" });
  await relay.restart(TOKEN);
  await new Owner("FF".repeat(16)).challenge(FakeSocket.last);
  const { status, code, scope } = await relay.state();
  assert.deepEqual([status, code, scope], ["refused", "bad-server-proof", "pairing"]);
  assert.equal(chrome.storage.local.content.piChromeConnectorIdentity.secret, "");
});

test("the pairing of another profile is not taken", async (t) => {
  const { relay, chrome } = setUp(t, { secret: "" });
  await relay.restart(TOKEN);
  const socket = FakeSocket.last;
  await new Owner(TOKEN).challenge(socket);
  socket.receive({ type: "offered" });
  socket.receive({ type: "paired", connectorId: "99999999-2222-4333-8444-555555555555", label: "x" });
  await settle();
  assert.equal((await relay.state()).code, "malformed");
  assert.equal(chrome.storage.local.content.piChromeConnectorIdentity.secret, "");
});

test("a bridge.json that makes no sense is told, not guessed", async (t) => {
  for (const text of ["{", '{"port":0}', '{"port":"17318"}', '{"port":70000}', '{"pairingToken":"xyz"}', "null", "[1"]) {
    const { relay } = setUp(t, { files: { "bridge.json": text } });
    await relay.wake();
    const { status, code, message } = await relay.state();
    assert.deepEqual([status, code, FakeSocket.all.length], ["refused", "extension", 0], text);
    assert.match(message ?? "", /^reading bridge.json in the extension's folder: /);
    t.mock.timers.reset();
  }
});

test("calls: result, null for none, Chrome's error, the worker's refusal", async (t) => {
  const { socket, asked } = await connect(t);
  socket.receive({ id: 5, call: "debugger.sendCommand", args: [{ tabId: 7 }, "Page.enable", {}] });
  call(socket, 6);
  call(socket, 9);
  call(socket, 10);
  assert.deepEqual(asked.map(({ name, args }) => [name, args])[0], ["debugger.sendCommand", [{ tabId: 7 }, "Page.enable", {}]]);
  asked[0].resolve({ frameId: "F", loaderId: "L" });
  asked[1].resolve(undefined);
  asked[2].reject(new Error("No tab with id: 99."));
  asked[3].reject(Object.assign(new Error("x.y is not in the contract"), { code: "not-allowed" }));
  await settle();
  const replies = socket.sent.slice(2);
  assert.deepEqual(replies, [
    { seq: 1, id: 5, result: { frameId: "F", loaderId: "L" } },
    { seq: 2, id: 6, result: null },
    { seq: 3, id: 9, error: { message: "No tab with id: 99." } },
    { seq: 4, id: 10, error: { message: "x.y is not in the contract", code: "not-allowed" } },
  ]);
  ["reply", "reply-null", "reply-error", "reply-not-allowed"].forEach((name, i) => like(replies[i], name));
});

test("replies go out in the order of completion, events in theirs, with rising numbers", async (t) => {
  const { relay, socket, asked } = await connect(t);
  for (let id = 1; id <= 3; id++) call(socket, id);
  relay.event("debugger.onEvent", [{ tabId: 7 }, "A.b", { n: 1 }]);
  asked[2].resolve("third");
  await settle();
  relay.event("debugger.onDetach", [{ tabId: 7 }, "target_closed"]);
  asked[0].resolve("first");
  asked[1].resolve("second");
  await settle();
  const sent = socket.sent.slice(2);
  assert.deepEqual(sent.map((frame) => frame.seq), [1, 2, 3, 4, 5]);
  assert.deepEqual(sent.map((frame) => frame.event ?? frame.id), ["debugger.onEvent", 3, "debugger.onDetach", 1, 2]);
  assert.deepEqual(sent[0].args, [{ tabId: 7 }, "A.b", { n: 1 }]);
  like(sent[0], "event");
  like(sent[2], "event-detach");
});

test("a reply leaves in the turn in which Chrome answers, so before the events of later turns", async (t) => {
  const { relay, socket, asked } = await connect(t);
  call(socket, 1);
  setImmediate(() => asked[0].resolve("done"));
  setImmediate(() => relay.event("tabs.onUpdated", []));
  await settle();
  assert.deepEqual(socket.sent.slice(2).map((frame) => frame.event ?? frame.id), [1, "tabs.onUpdated"]);
});

test("a call that comes twice or late is not run, and ends the connection", async (t) => {
  for (const id of [5, 4]) {
    const { relay, socket, asked } = await connect(t);
    call(socket, 5);
    call(socket, id);
    assert.equal(asked.length, 1);
    assert.ok(socket.closed);
    assert.match((await relay.state()).message ?? "", new RegExp(`call ${id} after call 5`));
    t.mock.timers.reset();
  }
});

test("ping is answered with pong; ping and ack let frames go", async (t) => {
  const { relay, socket, ...world } = await connect(t);
  for (let i = 0; i < 4; i++) relay.event("tabs.onCreated", [{ id: i }]);
  socket.receive({ type: "ping", ack: 1 });
  like(socket.sent.at(-1), "pong");
  socket.receive({ type: "ack", ack: 3 });
  assert.equal(socket.sent.at(-1).type, "pong", "an ack has no answer");
  socket.lose();
  const { hello, after } = await reconnect(world, 3);
  assert.deepEqual(hello.resume, { bridgeEpoch: EPOCH, lastCall: 0, firstSeq: 4, lastSeq: 4 });
  assert.deepEqual(after.map((frame) => frame.seq), [4]);
});

test("a lost socket loses nothing: what happened meanwhile follows ready, before anything new", async (t) => {
  const { relay, socket, asked, ...world } = await connect(t);
  call(socket, 7);
  relay.event("tabs.onCreated", [{ id: 1 }]);
  socket.lose();
  asked[0].resolve("finished without a socket");
  await settle();
  relay.event("tabs.onRemoved", [1]);
  const { hello, after, socket: next } = await reconnect(world, 1);
  assert.deepEqual(hello.resume, { bridgeEpoch: EPOCH, lastCall: 7, firstSeq: 1, lastSeq: 3 });
  assert.deepEqual(after, [
    { seq: 2, id: 7, result: "finished without a socket" },
    { seq: 3, event: "tabs.onRemoved", args: [1] },
  ]);
  call(next, 8);
  asked[1].resolve(1);
  await settle();
  assert.equal(next.sent.at(-1).seq, 4);
});

test("what did not fit is named by a gap before the rest", async (t) => {
  const { relay, socket, ...world } = await connect(t);
  relay.event("tabs.onCreated", []);
  socket.receive({ type: "ack", ack: 1 });
  socket.lose();
  for (let i = 0; i < CONTRACT.limits.keptFrames + 2; i++) relay.event("tabs.onUpdated", [i]);
  const { after, hello } = await reconnect(world, 1);
  assert.deepEqual(after[0], { type: "gap", from: 2, to: 3 });
  like(after[0], "gap");
  assert.equal(after[1].seq, 4);
  assert.equal(after.length, CONTRACT.limits.keptFrames + 1);
  assert.deepEqual([hello.resume.firstSeq, hello.resume.lastSeq], [4, 1003]);
});

test("another owner gets nothing of what was meant for the one before", async (t) => {
  const { relay, socket, asked, ...world } = await connect(t);
  call(socket, 40);
  relay.event("tabs.onCreated", [{ id: 1 }]);
  socket.lose();
  relay.event("tabs.onCreated", [{ id: 2 }]);
  world.owner = new Owner(SECRET, "aa".repeat(32));
  const { hello, after, socket: next } = await reconnect(world, 0);
  assert.deepEqual(hello.resume, { bridgeEpoch: EPOCH, lastCall: 40, firstSeq: 1, lastSeq: 2 });
  assert.deepEqual(after, []);
  asked[0].resolve("for the old owner");
  await settle();
  assert.equal(next.sent.length, 2, "a late reply is dropped too");
  call(next, 3);
  asked[1].resolve("for the new one");
  await settle();
  assert.deepEqual(next.sent.at(-1), { seq: 1, id: 3, result: "for the new one" });
});

test("a Cancel on the debugger's bar is told to every later owner, also by another worker", async (t) => {
  const { relay, socket, hello, tick, ...world } = await connect(t);
  assert.equal(hello.canceledAt, 0);
  socket.lose();
  relay.event("debugger.onDetach", [{ tabId: 7 }, "target_closed"]);
  relay.event("debugger.onDetach", [{ tabId: 7 }, "canceled_by_user"]);
  await settle();
  const at = 1_000_000;
  const owner = new Owner(SECRET, "aa".repeat(32));
  const first = await reconnect({ ...world, tick, owner }, 0);
  assert.deepEqual([first.hello.canceledAt, first.after], [at, []]);
  like(first.hello, "hello");
  const second = createRelay(async () => {}, () => {});
  await second.wake();
  assert.equal((await new Owner().connect(FakeSocket.last)).canceledAt, at);
});

test("a Cancel has the same time in its event and in the hello, which is said anew when one was under way", async (t) => {
  const { relay, tick } = setUp(t);
  await relay.wake();
  const early = FakeSocket.last;
  assert.equal((await new Owner().challenge(early)).canceledAt, 0);
  relay.event("debugger.onDetach", [{ tabId: 7 }, "canceled_by_user"]);
  assert.ok(early.closed, "the socket is given up");
  const { hello, after } = await reconnect({ tick, owner: new Owner() }, 0);
  assert.equal(hello.canceledAt, 1_000_000);
  assert.deepEqual(after[0].args, [{ tabId: 7 }, "canceled_by_user", 1_000_000]);
});

test("the events that started a worker reach the first owner", async (t) => {
  const { relay, ...world } = setUp(t);
  relay.event("debugger.onEvent", [{ tabId: 7 }, "Page.loadEventFired", {}]);
  await relay.wake();
  await new Owner().connect(FakeSocket.last);
  assert.deepEqual(FakeSocket.last.sent[2], { seq: 1, event: "debugger.onEvent", args: [{ tabId: 7 }, "Page.loadEventFired", {}] });
});

test("no frame is longer than the limit", async (t) => {
  const { relay, socket, asked, ...world } = await connect(t);
  const huge = "é".repeat(CONTRACT.limits.frameBytes / 2);
  call(socket, 1);
  asked[0].resolve(huge);
  await settle();
  assert.deepEqual(socket.sent.at(-1), { seq: 1, id: 1, error: { message: "the result is too long for a frame", code: "too-large" } });
  like(socket.sent.at(-1), "reply-too-large");
  relay.event("debugger.onEvent", [{ tabId: 7 }, "A.b", huge]);
  assert.deepEqual(socket.sent.at(-1), { type: "gap", from: 2, to: 2 });
  relay.event("tabs.onCreated", []);
  assert.equal(socket.sent.at(-1).seq, 3);
  socket.lose();
  const { after } = await reconnect(world, 1);
  assert.deepEqual(after.map((frame) => frame.seq ?? frame.type), ["gap", 3]);
});

test("an owner that does not read is given up, not buffered for", async (t) => {
  const { relay, socket } = await connect(t);
  socket.bufferedAmount = 5 * CONTRACT.limits.frameBytes;
  relay.event("tabs.onCreated", []);
  assert.ok(socket.closed);
  assert.equal(relay.connected(), false);
});

test("retries wait from a quarter of a second to five, never less nor more", async (t) => {
  for (const random of [0, 0.999]) {
    t.mock.method(Math, "random", () => random);
    const { relay, tick } = setUp(t);
    await relay.wake();
    const waits = [];
    for (let i = 0; i < 8; i++) {
      const sockets = FakeSocket.all.length;
      FakeSocket.last.lose();
      let waited = 0;
      while (FakeSocket.all.length === sockets) {
        tick(10);
        waited += 10;
        await settle();
        assert.ok(waited <= 5010);
      }
      waits.push(waited);
    }
    assert.ok(waits[0] >= 250 && waits[0] <= 320, `first ${waits[0]}`);
    assert.ok(waits.every((wait, i) => i === 0 || wait >= waits[i - 1]), `rising: ${waits}`);
    assert.ok(waits[7] >= 4000 && waits[7] <= 5000, `last ${waits[7]}`);
    t.mock.timers.reset();
    t.mock.restoreAll();
  }
});

test("a connection that lasted starts the waits anew; one that did not does not", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const world = await connect(t);
  for (let i = 0; i < 3; i++) {
    FakeSocket.last.lose();
    await reconnect(world, 0);
  }
  world.tick(6000);
  FakeSocket.last.lose();
  const sockets = FakeSocket.all.length;
  world.tick(250);
  await settle();
  assert.equal(FakeSocket.all.length, sockets + 1);
  await world.owner.connect(FakeSocket.last);
  FakeSocket.last.lose();
  world.tick(250);
  await settle();
  assert.equal(FakeSocket.all.length, sockets + 1, "the second of two short ones waits longer");
});

test("a handshake that hangs ends after 15 s", async (t) => {
  const { relay, tick } = setUp(t);
  await relay.wake();
  FakeSocket.last.open();
  tick(14_999);
  await relay.wake();
  assert.equal(FakeSocket.all.length, 1, "one attempt at a time");
  tick(1);
  assert.ok(FakeSocket.all[0].closed);
  assert.equal((await relay.state()).status, "waiting");
});

test("an owner that is silent for three pings is left at the next alarm", async (t) => {
  const { relay, socket, tick } = await connect(t);
  tick(60_000);
  await relay.wake();
  assert.equal(socket.closed, false);
  tick(1);
  await relay.wake();
  assert.ok(socket.closed);
});

test("a new identity takes the place of the old one with the next connection", async (t) => {
  const { relay, chrome, socket } = await connect(t);
  socket.receive({ type: "refused", code: "duplicate-connector", message: "" });
  const { newIdentity } = await import("../identity.js");
  await newIdentity();
  await relay.restart();
  assert.equal((await relay.state()).status, "unpaired");
  assert.notEqual(chrome.storage.local.content.piChromeConnectorIdentity.connectorId, CONNECTOR);
  assert.equal(chrome.storage.local.content.piChromeLabel, "Work");
});

test("a lost socket detaches no tab", async (t) => {
  const { socket, calls, asked } = await connect(t);
  socket.lose();
  await settle();
  assert.deepEqual([calls, asked], [[], []]);
});
