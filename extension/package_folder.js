// The extension's own folder: unpacked, so a fetch reads the files as they are now.

import { fingerprint } from "./wire.js";

const read = async (name) => (await fetch(chrome.runtime.getURL(name))).text();

/** Reads bridge.json, which may be absent. */
export async function readBridge() {
  const text = await read("bridge.json").catch(() => "{}");
  try {
    const { port = 17318, pairingToken = "" } = JSON.parse(text);
    if (!Number.isInteger(port) || port < 1 || port > 65535) throw new Error("wrong port");
    if (!/^([0-9a-f]{32})?$/i.test(pairingToken)) throw new Error("wrong pairingToken");
    return { port, pairingToken };
  } catch (error) {
    throw new Error(`reading bridge.json in the extension's folder: ${error.message}`);
  }
}

/** Starts the release in the folder if its contract differs. */
export async function reloadIfReplaced() {
  const text = await read("contract.js");
  const contract = JSON.parse(text.slice(text.indexOf("{"), text.lastIndexOf(";")));
  if ((await fingerprint(contract)) !== (await fingerprint())) chrome.runtime.reload();
}
