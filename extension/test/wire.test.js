import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import { CONTRACT } from "../contract.js";
import * as wire from "../wire.js";

const folder = new URL("../../fixtures/wire/", import.meta.url);
const golden = (prefix) =>
  readdirSync(folder)
    .filter((name) => name.startsWith(prefix) && name.endsWith(".json"))
    .map((name) => ({ file: name, ...JSON.parse(readFileSync(new URL(name, folder), "utf8")) }));

test("canonical form: sorted keys at every depth, no spaces, arrays in order", () => {
  const value = { b: [3, { z: 1, a: null }], a: { d: "x y", c: true }, 10: 0, 9: 0 };
  assert.equal(wire.canonical(value), '{"10":0,"9":0,"a":{"c":true,"d":"x y"},"b":[3,{"a":null,"z":1}]}');
});

test("the fingerprint is that of the contract, and the same in Go", async () => {
  const print = await wire.fingerprint();
  assert.match(print, /^[0-9a-f]{64}$/);
  assert.equal(print, JSON.parse(readFileSync(new URL("fingerprint.json", folder), "utf8")).fingerprint);
  assert.notEqual(print, await wire.fingerprint({ ...CONTRACT, version: CONTRACT.version + 1 }));
});

test("the lists of the contract are sorted and without doubles", () => {
  for (const list of [CONTRACT.calls, CONTRACT.events, CONTRACT.frames]) {
    assert.deepEqual(list, [...new Set(list)].sort());
  }
});

/** The strings and the HMAC of a vector that Go checks too. */
function vector(name) {
  const found = JSON.parse(readFileSync(new URL("vectors.json", folder), "utf8")).find((v) => v.name === name);
  assert.ok(found, `there is a vector ${name}`);
  return found;
}

test("HMAC matches every vector", async () => {
  for (const { name, key, message, hmac } of JSON.parse(readFileSync(new URL("vectors.json", folder), "utf8"))) {
    assert.equal(await wire.hmac(key, message), hmac, name);
  }
});

test("proofs of all scopes match the vectors", async () => {
  for (const scope of ["connector", "pairing", "popup"]) {
    const { key, message, hmac } = vector(`${scope} server proof`);
    const [, , connectorId, extensionId, displayVersion, fingerprint, , clientNonce, bridgeEpoch, requestNonce, serverFingerprint] = message;
    const hello = { connectorId, extensionId, displayVersion, fingerprint, clientNonce };
    const made = await wire.proofs(scope, key, hello, { bridgeEpoch, requestNonce, serverFingerprint });
    assert.equal(made.server, hmac);
    assert.equal(made.request, vector(`${scope} socket proof`).hmac);
  }
});

test("the derived secret matches the vector", async () => {
  const { key, message, hmac } = vector("pairing secret");
  const [, , connectorId, clientNonce, bridgeEpoch, requestNonce] = message;
  assert.equal(await wire.pairingSecret(key, { connectorId, clientNonce }, { bridgeEpoch, requestNonce }), hmac);
  assert.equal(await wire.pairingSecret(key.toLowerCase(), { connectorId, clientNonce }, { bridgeEpoch, requestNonce }), hmac);
});

test("equal proofs are equal, others are not", async () => {
  assert.equal(await wire.equalProofs("ab", "ab"), true);
  for (const other of ["", "a", "ac", "AB", "abab"]) assert.equal(await wire.equalProofs("ab", other), false);
});

test("the limit of a frame counts bytes of UTF-8", () => {
  assert.equal(wire.longerThan("abc", 3), false);
  assert.equal(wire.longerThan("abcd", 3), true);
  assert.equal(wire.longerThan("é", 2), false);
  assert.equal(wire.longerThan("é", 1), true);
  assert.equal(wire.longerThan("💡", 4), false);
  assert.equal(wire.longerThan("💡", 3), true);
});

test("the owner's golden frames are read, and name what they are", () => {
  const frames = golden("bridge2ext-");
  for (const { file, frame } of frames) {
    assert.equal(wire.decode(JSON.stringify(frame)).type, frame.type ?? "call", file);
  }
  const types = new Set(frames.map(({ frame }) => frame.type ?? "call"));
  for (const type of ["challenge", "ready", "refused", "offered", "paired", "ping", "ack", "call"]) {
    assert.ok(types.has(type), `there is a golden frame for ${type}`);
  }
});

test("what is no frame of an owner is refused by name", () => {
  const bad = [
    ["{", /JSON/],
    ["null", /unknown type/],
    ["[]", /unknown type/],
    ['"ready"', /unknown type/],
    ["{}", /unknown type/],
    ['{"type":"toString"}', /unknown type/],
    ['{"type":"hello"}', /unknown type/],
    ['{"type":"ready"}', /ready frame with a wrong ack/],
    ['{"type":"ready","ack":"4"}', /ready frame with a wrong ack/],
    ['{"type":"ping","ack":null}', /ping frame with a wrong ack/],
    ['{"id":"1","call":"tabs.get","args":[]}', /call frame with a wrong id/],
    ['{"id":1,"call":"tabs.get","args":{}}', /call frame with a wrong args/],
    ['{"id":1,"call":"tabs.get","args":null}', /call frame with a wrong args/],
    ['{"id":1,"call":7,"args":[]}', /call frame with a wrong call/],
    ['{"type":"challenge","bridgeEpoch":"a","requestNonce":"b","serverFingerprint":"c"}', /wrong proof/],
  ];
  for (const [text, why] of bad) assert.throws(() => wire.decode(text), why, text);
  assert.throws(() => wire.decode(new Uint8Array(4)), /binary/);
  assert.throws(() => wire.decode(`"${"x".repeat(CONTRACT.limits.frameBytes)}"`), /too long/);
});
