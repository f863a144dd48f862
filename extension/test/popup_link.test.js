import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { CONNECTOR, FakeSocket, install, Owner, SECRET, settle } from "./fakes.js";
import { Link } from "../popup_link.js";

const golden = (name) => JSON.parse(readFileSync(new URL(`../../fixtures/wire/${name}.json`, import.meta.url), "utf8")).frame;

const who = { connectorId: CONNECTOR, secret: SECRET, label: "Work" };

/** A link whose handshake is over, with its socket. */
async function linked(lost) {
  install();
  const link = new Link(lost);
  const first = link.ask(4321, who, { do: "status" });
  await settle();
  const socket = FakeSocket.last;
  await new Owner().connect(socket);
  return { link, socket, first };
}

test("the popup proves the secret under its own domain and asks as the owner reads it", async () => {
  const { link, socket, first } = await linked();
  assert.equal(socket.url, "ws://127.0.0.1:4321/popup");
  const [hello, prove, ask] = socket.sent;
  assert.equal(hello.connectorId, CONNECTOR);
  assert.equal(hello.browserEpoch, "be".repeat(32));
  assert.equal(prove.type, "prove");
  assert.deepEqual(ask, golden("popup2bridge-status"));
  assert.equal(JSON.stringify(socket.sent).includes(SECRET), false);
  const answer = golden("bridge2popup-many");
  socket.receive(answer);
  assert.deepEqual(await first, answer.status);

  const asks = [{ do: "stop" }, { do: "take", tabId: 11 }, { do: "give", tabId: 11 }].map((what) => link.ask(4321, who, what));
  await settle();
  assert.deepEqual(socket.sent.slice(3), ["stop", "take", "give"].map((name) => golden(`popup2bridge-${name}`)));
  for (const id of [4, 2, 3]) socket.receive({ type: "answer", id, status: { id } }); // in any order
  assert.deepEqual(await Promise.all(asks), [{ id: 2 }, { id: 3 }, { id: 4 }]);
  assert.equal(FakeSocket.all.length, 1);
});

test("nothing is asked of a program that cannot prove the secret", async () => {
  install();
  const asked = new Link().ask(4321, who, { do: "stop" });
  await settle();
  const socket = FakeSocket.last;
  const told = assert.rejects(asked, (error) => error.code === "bad-server-proof" && /could not prove/.test(error.message));
  await new Owner("00".repeat(32)).challenge(socket);
  await told;
  assert.deepEqual(socket.sent.map(({ type }) => type), ["hello"]);
  assert.ok(socket.closed);
});

test("a refusal is told with its code, and the next ask tries anew", async () => {
  install();
  const link = new Link();
  const asked = link.ask(4321, who, { do: "status" });
  await settle();
  FakeSocket.last.open();
  await settle();
  FakeSocket.last.receive({ type: "refused", code: "duplicate-connector", message: "a copy" });
  await assert.rejects(asked, { code: "duplicate-connector", message: "a copy" });
  const again = link.ask(4321, who, { do: "status" });
  await settle();
  assert.equal(FakeSocket.all.length, 2);
  await new Owner().connect(FakeSocket.last);
  FakeSocket.last.receive({ type: "answer", id: 1, status: {} });
  assert.deepEqual(await again, {});
});

test("an older owner has no such route", async () => {
  install();
  const asked = new Link().ask(4321, who, { do: "status" });
  await settle();
  FakeSocket.last.lose();
  await assert.rejects(asked, { code: "no-route" });
});

test("what was not done is told apart from a connection that is gone", async () => {
  let lost = 0;
  const { link, socket, first } = await linked(() => lost++);
  socket.receive({ type: "answer", id: 1, error: { code: "tab-not-found", message: "no session has the tab 7 any more" } });
  await assert.rejects(first, { name: "Refused", code: "tab-not-found" });
  assert.equal(socket.closed, false);
  const second = link.ask(4321, who, { do: "status" });
  await settle();
  const told = assert.rejects(second, (error) => error.name !== "Refused" && /was lost/.test(error.message));
  socket.lose();
  await told;
  assert.equal(lost, 1);
});

test("a frame that is none of the owner's ends the socket", async () => {
  for (const frame of ["{", '{"type":"refused","code":"unknown-connector","message":"not paired any more"}', '{"type":"ready"}']) {
    const { socket, first } = await linked();
    const told = assert.rejects(first);
    socket.receive(frame);
    await told;
    await settle();
    assert.ok(socket.closed, frame);
  }
});

test("another port, profile or secret is another socket", async () => {
  const { link, socket, first } = await linked();
  socket.receive({ type: "answer", id: 1, status: {} });
  await first;
  const others = [[4322, who], [4322, { ...who, secret: "11".repeat(32) }]];
  for (const [port, as] of others) {
    const before = FakeSocket.last;
    const asked = link.ask(port, as, { do: "status" });
    await settle();
    assert.ok(before.closed);
    assert.notEqual(FakeSocket.last, before);
    await new Owner(as.secret).connect(FakeSocket.last);
    FakeSocket.last.receive({ type: "answer", id: FakeSocket.last.sent.at(-1).id, status: { port } });
    assert.deepEqual(await asked, { port });
  }
});
