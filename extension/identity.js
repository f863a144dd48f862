// Who this profile is. The browser epoch, new at each start of the browser, tells a copied
// profile from its model.

import { randomHex } from "./wire.js";

const IDENTITY = "piChromeConnectorIdentity"; // {connectorId, secret}
const LABEL = "piChromeLabel"; // apart: the popup may write it at any time
const EPOCH = "piChromeBrowserEpoch";

/** Keys of storage that are the extension's alone. */
export const OWN_KEYS = [IDENTITY, LABEL, EPOCH, "canceledAt"];

let made; // once, whoever asks first

/** @returns {Promise<any>} {connectorId, secret, label}, made at the first start */
export async function identity() {
  const { [IDENTITY]: stored, [LABEL]: label } = await chrome.storage.local.get([IDENTITY, LABEL]);
  const { connectorId, secret } = stored ?? (await (made ??= newIdentity()));
  return { connectorId, secret, label: label ?? `Chrome ${connectorId.slice(0, 8)}` };
}

/** Also for a profile that was copied. */
export const newIdentity = () => saveIdentity(crypto.randomUUID(), "");

/** @param {string} secret "" while not paired */
export async function saveIdentity(connectorId, secret) {
  const value = { connectorId, secret };
  await chrome.storage.local.set({ [IDENTITY]: value });
  return value;
}

/** Stores a line of at most 80 characters. */
export async function saveLabel(text) {
  const label = text.replace(/[\s\p{C}]+/gu, " ").trim().slice(0, 80).trimEnd();
  if (label) await chrome.storage.local.set({ [LABEL]: label });
}

/** @returns {Promise<any>} the same for all workers of one start of the browser. */
export async function browserStart() {
  const { [EPOCH]: browserEpoch = randomHex(32), canceledAt = 0 } = await chrome.storage.session.get();
  await chrome.storage.session.set({ [EPOCH]: browserEpoch });
  return { browserEpoch, canceledAt };
}
