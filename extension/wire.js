// The pure half of docs/protocol.md: canonical form, fingerprint, proofs, frames.

import { CONTRACT } from "./contract.js";

const utf8 = new TextEncoder();

const hex = (bytes) =>
  Array.from(new Uint8Array(bytes), (b) => b.toString(16).padStart(2, "0")).join("");

export const randomHex = (bytes) => hex(crypto.getRandomValues(new Uint8Array(bytes)));

const sha256 = async (text) => hex(await crypto.subtle.digest("SHA-256", utf8.encode(text)));

/** The form that is hashed: compact, keys sorted. */
export function canonical(value) {
  const keys = new Set();
  JSON.stringify(value, (key, v) => (keys.add(key), v));
  return JSON.stringify(value, [...keys].sort());
}

export const fingerprint = (contract = CONTRACT) => sha256(canonical(contract));

/** HMAC-SHA256 of the compact JSON of strings; the key is the decoded secret. */
export async function hmac(keyHex, strings) {
  const { subtle } = crypto;
  const bytes = Uint8Array.from(keyHex.match(/../g), (pair) => parseInt(pair, 16));
  const key = await subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return hex(await subtle.sign("HMAC", key, utf8.encode(JSON.stringify(strings))));
}

/** The proof that the owner must have sent, and our own. */
export async function proofs(scope, key, hello, { bridgeEpoch, requestNonce, serverFingerprint }) {
  const { [scope]: domain = `pi-chrome/${scope}`, algorithmVersion } = CONTRACT.domains;
  const { connectorId, extensionId, displayVersion, fingerprint, clientNonce } = hello;
  const head = [algorithmVersion, connectorId, extensionId, displayVersion, fingerprint, ""];
  const proof = (kind, ...rest) => hmac(key, [`${domain}/${kind}-proof/v1`, ...head, ...rest]);
  return {
    server: await proof("server", clientNonce, bridgeEpoch, requestNonce, serverFingerprint),
    request: await proof("request", bridgeEpoch, requestNonce, fingerprint, "GET", `/${scope}`, await sha256("")),
  };
}

/** The secret that both sides derive from a token, so that it never travels. */
export function pairingSecret(token, { connectorId, clientNonce }, { bridgeEpoch, requestNonce }) {
  const { pairingSecret, algorithmVersion } = CONTRACT.domains;
  return hmac(token, [pairingSecret, algorithmVersion, connectorId, clientNonce, bridgeEpoch, requestNonce]);
}

/** Compares hashes, so that the time does not tell where two proofs differ. */
export const equalProofs = async (a, b) => (await sha256(a)) === (await sha256(b));

/** In bytes of UTF-8. */
export const longerThan = (text, limit) =>
  text.length * 3 > limit && utf8.encode(text).length > limit;

/** What is read of an owner's frames. */
const examples = {
  challenge: { bridgeEpoch: "", requestNonce: "", serverFingerprint: "", proof: "" },
  ready: { ack: 0 },
  refused: { code: "", message: "" },
  offered: {},
  paired: { connectorId: "", label: "" },
  ping: { ack: 0 },
  ack: { ack: 0 },
  call: { id: 0, call: "", args: [] },
};

const kind = (value) => (Array.isArray(value) ? "array" : typeof value);

/** A call, which has no type, gets one. */
export function decode(text) {
  if (kind(text) !== "string" || longerThan(text, CONTRACT.limits.frameBytes)) throw new Error("a binary or too long frame");
  const frame = JSON.parse(text);
  const type = frame?.call === undefined ? frame?.type : "call";
  if (!Object.hasOwn(examples, type)) throw new Error("a frame of unknown type");
  for (const [field, example] of Object.entries(examples[type])) {
    if (kind(frame[field]) !== kind(example)) throw new Error(`a ${type} frame with a wrong ${field}`);
  }
  return { ...frame, type };
}
