import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { cleanToken, describe } from "../popup_text.js";
import { shipped } from "./fakes.js";

const protocol = readFileSync(new URL("../../docs/protocol.md", import.meta.url), "utf8");

/** The codes that docs/protocol.md lists for a refusal. */
function codes() {
  const list = /Codes: ([^.]*)\./.exec(protocol)?.[1] ?? "";
  const found = [...list.matchAll(/`([a-z-]+)`/g)].map((match) => match[1]);
  assert.ok(found.length > 10, "the list of codes is found");
  return [...found, "bad-server-proof"];
}

const refused = (code, more = {}) => describe({ status: "refused", port: 1, code, message: "the owner's words", ...more }, "Work");

test("every refusal of the protocol has words of its own, or passes by itself", () => {
  const relay = shipped("relay.js");
  const passing = [.../PASSING = \[(.*?)\]/s.exec(relay)[1].matchAll(/"(.*?)"/g)].map((match) => match[1]);
  for (const code of codes()) {
    const view = refused(code);
    assert.equal(view.detail === "the owner's words", passing.includes(code), code);
    if (passing.includes(code)) continue;
    assert.ok(view.title.length > 10 && view.detail.length > 20, code);
    assert.ok(view.command || view.token || view.newIdentity || view.reload || view.retry, `${code} says what to do`);
  }
});

test("a code that is not known shows the owner's words", () => {
  assert.equal(refused("brand-new").detail, "the owner's words");
  assert.equal(refused("brand-new", { message: "" }).detail, "brand-new");
});

test("a wrong token and a wrong owner are told apart", () => {
  const token = refused("bad-server-proof", { scope: "pairing" });
  const owner = refused("bad-server-proof", { scope: "connector" });
  assert.match(token.title, /token/i);
  assert.match(owner.title, /port/i);
  assert.ok(token.token && owner.token);
});

test("only a copied profile is offered a new identity", () => {
  assert.deepEqual(codes().filter((code) => refused(code).newIdentity), ["duplicate-connector"]);
});

test("connected, pairing and waiting ask for no token", () => {
  for (const status of ["connected", "pairing", "waiting"]) {
    assert.ok(!describe({ status, port: 17318 }, "Work").token, status);
  }
  assert.ok(describe({ status: "unpaired", port: 17318 }, "Work").token);
  assert.match(describe({ status: "waiting", port: 17318 }, "Work").detail, /port 17318/);
  assert.match(describe({ status: "waiting", port: 1, message: "it is shutting down" }, "Work").detail, /shutting down/);
});

test("the command that picks a profile is safe to paste", () => {
  const command = (label) => describe({ status: "refused", port: 1, code: "pairing-ambiguous", message: "" }, label).command;
  assert.equal(command("Work"), "pi-chrome onboard --pick 'Work'");
  assert.equal(command("Ann's $(reboot)"), `pi-chrome onboard --pick 'Ann'\\''s $(reboot)'`);
});

test("a token may be pasted with anything around it", () => {
  assert.equal(cleanToken(" 0123 4567-89ab cdef\n0123456789ABCDEF. "), "0123456789ABCDEF0123456789ABCDEF");
  assert.equal(cleanToken("a".repeat(99)), "A".repeat(32));
  assert.equal(cleanToken("xyz"), "");
});
