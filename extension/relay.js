// The connection to the owner of the port: socket, handshake, pairing, resume.
//
// All in memory: storing a call would cost more than the call. The owner counts as lost what it
// had sent to a worker that was killed.

import { CONTRACT } from "./contract.js";
import { facts } from "./facts.js";
import { identity, saveIdentity, saveLabel } from "./identity.js";
import { Kept } from "./kept.js";
import { readBridge, reloadIfReplaced } from "./package_folder.js";
import * as wire from "./wire.js";

const { frameBytes, pingIntervalMs } = CONTRACT.limits;
const BACKOFF_MS = [250, 500, 1000, 2000, 4000]; // and up to a quarter more
const REFUSED_MS = 30_000; // when it takes a person
const HANDSHAKE_MS = 15_000; // 3 s of it to collect offers
const STEADY_MS = 5_000; // makes a connection a good one

// Refusals that pass by themselves, that a pairing heals, that use up a token.
const PASSING = ["shutting-down", "nonce-expired", "nonce-reused", "too-many-connections", "malformed"];
const STALE = ["unknown-connector", "bad-proof", "bad-server-proof"];
const SPENT = ["bad-proof", "bad-server-proof", "pairing-expired", "pairing-used"];

/** run makes a call, changed hears of a state. */
export function createRelay(run, changed) {
  const workerId = wire.randomHex(16);
  let epoch = ""; // of the owner spoken to last
  let kept = new Kept();
  let lastCall = 0;
  /** @type {Link | undefined} */
  let link;
  let busy = false;
  let failures = 0;
  let notBefore = 0;
  let timer = 0;
  /** @type {Refusal | undefined} */
  let refusal;
  let stale = false; // is the stored secret
  let typed = ""; // token
  let spent = ""; // token
  let port = 0;

  const connected = () => link?.step === "ready";

  async function state() {
    let status = { ready: "connected", offered: "pairing" }[link?.step ?? ""];
    if (refusal && !PASSING.includes(refusal.code)) status ??= "refused";
    status ??= (await identity()).secret ? "waiting" : "unpaired";
    return { status, port, ...refusal };
  }

  async function awaitsPairing() {
    return stale || !(await identity()).secret;
  }

  /** Makes a connection where none is. */
  async function wake() {
    if (link && connected() && Date.now() - link.heard > 3 * pingIntervalMs) lost(link);
    if (!link && !busy) await alone(open);
  }

  /** Nothing opens a socket while work runs. */
  async function alone(work) {
    busy = true;
    clearTimeout(timer);
    try {
      await work();
    } catch ({ message }) {
      refusal = { code: "extension", message };
      retry();
    }
    busy = false;
    changed();
  }

  /** Begins anew, with a token to pair. */
  function restart(token = "") {
    typed = token;
    refusal = undefined;
    notBefore = failures = 0;
    if (link) drop(link);
    return wake();
  }

  async function open() {
    const bridge = await readBridge();
    const { connectorId, label, secret } = await identity();
    port = bridge.port;
    let token = typed;
    if (!token && bridge.pairingToken !== spent && (stale || !secret)) token = bridge.pairingToken;
    if (!token && (!secret || Date.now() < notBefore)) return;

    const hello = {
      type: "hello",
      version: CONTRACT.version,
      ...(await facts()),
      connectorId,
      label,
      workerId,
      resume: { bridgeEpoch: epoch, lastCall, firstSeq: kept.first, lastSeq: kept.last },
      clientNonce: wire.randomHex(32),
    };
    const scope = token ? "pairing" : "connector";
    const socket = new WebSocket(`ws://127.0.0.1:${port}/${scope}`);
    /** @type {Link} */
    const made = { socket, scope, key: token || secret, hello, step: "hello", heard: 0, readyAt: Infinity };
    made.timer = setTimeout(() => lost(made), HANDSHAKE_MS);
    socket.onopen = () => socket.send(JSON.stringify(hello));
    socket.onmessage = ({ data }) => receive(made, data);
    socket.onclose = () => lost(made);
    link = made;
  }

  function receive(from, data) {
    from.heard = Date.now();
    try {
      handle(from, wire.decode(data));
    } catch ({ message }) {
      refused(from, "malformed", `pi-chrome sent ${message}`);
    }
  }

  /** Before the proof, only a refusal. */
  function handle(from, frame) {
    const place = `${from.scope} ${from.step}`;
    switch (frame.type === "refused" ? "refused" : `${place} ${frame.type}`) {
      case "refused":
        return refused(from, frame.code.slice(0, 40), frame.message.slice(0, 500));
      case "connector ready call":
        return call(frame);
      case "connector ready ping":
        from.socket.send('{"type":"pong"}');
      // falls through
      case "connector ready ack":
        return kept.acknowledge(frame.ack);
      case "connector hello challenge":
      case "pairing hello challenge":
        return prove(from, frame);
      case "connector prove ready":
        return ready(from, frame.ack);
      case "pairing prove offered":
        from.step = "offered";
        return changed();
      case "pairing offered paired":
        if (frame.connectorId !== from.hello.connectorId) throw new Error("another profile's pairing");
        return paired(from, frame.label);
    }
    throw new Error(`a ${frame.type} frame at the step ${place}`);
  }

  async function prove(from, challenge) {
    Object.assign(from, { step: "proving", challenge });
    const { server, request } = await wire.proofs(from.scope, from.key, from.hello, challenge);
    const right = await wire.equalProofs(server, challenge.proof);
    if (from !== link) return;
    if (!right) return refused(from, "bad-server-proof", "it does not know the secret");
    if (challenge.serverFingerprint !== from.hello.fingerprint) {
      return refused(from, "fingerprint-mismatch", "pi-chrome is of another release");
    }
    from.step = "prove";
    from.socket.send(JSON.stringify({ type: "prove", proof: request }));
  }

  function ready(from, ack) {
    const { bridgeEpoch } = from.challenge;
    if (bridgeEpoch !== epoch) {
      // Frames kept for another owner mean nothing; events from before the first one do.
      if (epoch) kept = new Kept();
      lastCall = 0;
      epoch = bridgeEpoch;
    }
    clearTimeout(from.timer);
    refusal = undefined;
    stale = false;
    for (const text of kept.resume(ack)) from.socket.send(text);
    Object.assign(from, { step: "ready", readyAt: Date.now() });
    changed();
  }

  async function paired(from, label) {
    drop(from);
    spent = from.key;
    chrome.storage.session.remove("canceledAt"); // it is agreed to
    epoch = ""; // whose calls count anew
    kept = new Kept();
    await alone(async () => {
      restart(); // nothing opens yet
      const secret = await wire.pairingSecret(from.key, from.hello, from.challenge);
      await saveIdentity(from.hello.connectorId, secret);
      await saveLabel(label);
    });
    await wake();
  }

  function call({ id, call, args }) {
    if (id <= lastCall) throw new Error(`call ${id} after call ${lastCall}`);
    lastCall = id;
    const asked = epoch;
    const reply = (outcome) => asked === epoch && emit({ id, ...outcome });
    run(call, args).then(
      (result) => reply({ result: result ?? null }),
      ({ message, code }) => reply({ error: { message, code } }),
    );
  }

  function event(name, args) {
    if (args[1] === "canceled_by_user") {
      const canceledAt = Date.now();
      args = [...args, canceledAt];
      // Perhaps no owner hears it, and a hello under way does not say it.
      chrome.storage.session.set({ canceledAt });
      if (link && !connected()) lost(link);
    }
    emit({ event: name, args });
  }

  function emit(body) {
    const text = kept.add((seq) => {
      const text = JSON.stringify({ seq, ...body });
      if (!wire.longerThan(text, frameBytes)) return text;
      if (body.event) return JSON.stringify({ type: "gap", from: seq, to: seq });
      const error = { message: "the result is too long for a frame", code: "too-large" };
      return JSON.stringify({ seq, id: body.id, error });
    });
    if (!link || !connected()) return;
    link.socket.send(text);
    if (link.socket.bufferedAmount > 4 * frameBytes) lost(link);
  }

  function refused(from, code, message) {
    drop(from);
    refusal = { code, message, scope: from.scope };
    if (from.scope === "connector") stale = STALE.includes(code);
    else [typed, spent] = ["", SPENT.includes(code) ? from.key : spent];
    if (/^(version|fingerprint)-mismatch$/.test(code)) reloadIfReplaced().catch(() => {});
    retry(PASSING.includes(code) ? 0 : REFUSED_MS);
  }

  function lost(from) {
    if (Date.now() - from.readyAt > STEADY_MS) failures = 0;
    drop(from);
    retry();
  }

  /** Tabs stay attached. */
  function drop({ socket, timer = 0 }) {
    clearTimeout(timer);
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    link = undefined;
  }

  function retry(wait = 0) {
    notBefore = Date.now() + wait;
    wait ||= (BACKOFF_MS[failures++] ?? 4000) * (1 + Math.random() / 4);
    timer = setTimeout(wake, wait);
    changed();
  }

  return { state, awaitsPairing, wake, restart, connected, event };
}
