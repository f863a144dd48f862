// The calls of chrome.* that the owner may make.

import { CONTRACT } from "./contract.js";
import { OWN_KEYS } from "./identity.js";

const refusal = (message) => Object.assign(new Error(message), { code: "not-allowed" });

/** Rejects with Chrome's error, or as not-allowed when nothing was called. */
export async function call(name, args) {
  if (!CONTRACT.calls.includes(name)) throw refusal(`${name.slice(0, 80)} is not in the contract`);
  if (name.startsWith("storage.")) guardOwnKeys(args[0]);
  if (name === "runtime.reload") {
    // Let the reply leave first.
    setTimeout(() => chrome.runtime.reload(), 100);
    return null;
  }
  const path = name.split(".");
  const method = path.pop() ?? "";
  const api = path.reduce((object, key) => object[key], chrome);
  return api[method](...args);
}

/** The secret never travels and is never replaced by a call. */
function guardOwnKeys(keys) {
  if (!keys) throw refusal("a storage call must name its keys");
  const named = Array.isArray(keys) ? keys : typeof keys === "object" ? Object.keys(keys) : [keys];
  if (named.some((key) => OWN_KEYS.includes(key))) throw refusal("the key is the extension's own");
}
