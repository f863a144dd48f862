// The popup: shows what the worker says about itself, once a second, so that it
// never shows a connection that is gone.

import { CONTRACT } from "./contract.js";
import { identity, newIdentity, saveLabel } from "./identity.js";
import { cleanToken, describe } from "./popup_text.js";

const EVERY_MS = 1000;
const ANSWER_MS = 5000;
const NOTE_MS = 2500;
const ASKED = "ask"; // {id, text} in storage.session, put and removed by the owner

/**
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @returns {T}
 */
const element = (id) => /** @type {T} */ (document.getElementById(id));

const tokenField = /** @type {HTMLInputElement} */ (element("token"));
const labelField = /** @type {HTMLInputElement} */ (element("label"));
const pairButton = /** @type {HTMLButtonElement} */ (element("pair"));
const saveButton = /** @type {HTMLButtonElement} */ (element("save"));

let storedLabel = "";
let shown = "";
/** @type {string | undefined} */
let askedId;

/**
 * @param {object} message
 * @returns {Promise<State>}
 */
async function worker(message) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("no answer")), ANSWER_MS);
  });
  const answer = await Promise.race([chrome.runtime.sendMessage(message), late]);
  clearTimeout(timer);
  if (!answer) throw new Error("no answer");
  return answer;
}

/** Asks the worker, after it has done what the message says, and shows the answer. */
async function refresh(message = { do: "state" }) {
  /** @type {State} */
  let state;
  try {
    state = await worker(message);
  } catch {
    state = { status: "refused", port: 0, code: "extension", message: "Its worker does not answer. Reload the extension." };
  }
  const { connectorId, label } = await identity();
  const asked = (await chrome.storage.session.get(ASKED))[ASKED];
  const next = JSON.stringify([state, connectorId, label, asked]);
  if (next === shown) return;
  shown = next;
  show(state, label);
  showLabel(label);
  showAsked(asked);
  element("port").textContent = state.port ? String(state.port) : "–";
  element("profile").textContent = connectorId.slice(0, 8);
  element("profile").title = connectorId;
}

/** Keeps the name on one line. @param {string} text */
const unbroken = (text) => text.replaceAll("pi-chrome", "pi\u2011chrome");

/** @param {State} state @param {string} label */
function show(state, label) {
  const view = describe(state, label);
  element("card").dataset.tone = element("pill").dataset.tone = view.tone;
  element("pill").textContent = view.pill;
  element("title").textContent = unbroken(view.title);
  element("detail").textContent = unbroken(view.detail);
  element("command").textContent = view.command ?? "";
  element("command-row").hidden = !view.command;
  element("token-form").hidden = !view.token;
  element("retry").hidden = !view.retry;
  element("reload").hidden = !view.reload;
  element("new-identity").hidden = !view.newIdentity;
  element("actions").hidden = !(view.retry || view.reload || view.newIdentity);
}

/** A name that is being typed is left alone. @param {string} label */
function showLabel(label) {
  if (labelField.value === storedLabel) labelField.value = label;
  storedLabel = label;
  saveButton.disabled = !labelField.value.trim() || labelField.value === storedLabel;
}

/** @param {any} asked */
function showAsked(asked) {
  askedId = asked?.id;
  element("asked").hidden = !asked;
  element("asked-text").textContent = asked?.text ?? "";
}

/** @param {string} id @param {() => void} act */
function onClick(id, act) {
  element(id).addEventListener("click", act);
}

function showToken() {
  const token = cleanToken(tokenField.value);
  if (tokenField.value !== token) tokenField.value = token;
  pairButton.disabled = token.length !== 32;
  element("token-note").textContent = token && token.length < 32 ? `${token.length} of 32 digits` : "";
}

tokenField.addEventListener("input", showToken);
element("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = cleanToken(tokenField.value);
  if (token.length !== 32) return;
  tokenField.value = "";
  showToken();
  refresh({ do: "pair", token });
});

labelField.addEventListener("input", () => {
  element("label-note").textContent = "";
  saveButton.disabled = !labelField.value.trim() || labelField.value === storedLabel;
});
element("label-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (saveButton.disabled) return;
  await saveLabel(labelField.value);
  const { label } = await identity();
  labelField.value = storedLabel = label;
  element("label-note").textContent = "Saved.";
  setTimeout(() => (element("label-note").textContent = ""), NOTE_MS);
  await refresh({ do: "request", request: { kind: "rename", label } });
});

onClick("copy", async () => {
  await navigator.clipboard.writeText(element("command").textContent ?? "");
  element("copy").textContent = "Copied";
  setTimeout(() => (element("copy").textContent = "Copy"), NOTE_MS);
});
onClick("retry", () => refresh({ do: "connect" }));
onClick("reload", () => chrome.runtime.reload());
onClick("new-identity", async () => {
  // A name of its own too: two browsers with one name would be told apart by their ids only.
  const { connectorId } = await newIdentity();
  await saveLabel(`Chrome ${connectorId.slice(0, 8)}`);
  await refresh({ do: "connect" });
});
onClick("asked-done", async () => {
  element("asked").hidden = true;
  await refresh({ do: "request", request: { kind: "done", id: askedId } });
});

element("version").textContent = chrome.runtime.getManifest().version;
element("wire").textContent = String(CONTRACT.version);
showToken();
refresh();
setInterval(refresh, EVERY_MS);
