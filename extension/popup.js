// The popup: shows once a second what the worker says about itself and, over a socket of its own,
// what the owner says about the sessions, so that it never shows what is gone.

import { CONTRACT } from "./contract.js";
import { identity, newIdentity, saveLabel } from "./identity.js";
import { Link } from "./popup_link.js";
import { cleanToken } from "./popup_text.js";
import { overview, readable, workerProjection } from "./popup_view.js";
import { showWork } from "./popup_work.js";

const EVERY_MS = 1000;
const ANSWER_MS = 5000;
const NOTE_MS = 2500;
const AGAIN_MS = 5000; // after the owner took no connection of ours
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

const link = new Link(() => {
  told = undefined; // what it was may not be so any more
  render();
});
/** @type {State} */
let state = { status: "waiting", port: 0 };
/** @type {Projection | undefined} what the owner told last */
let told;
let fault = ""; // why it tells nothing, or did not do what was asked
let asks = 0; // counted: an answer does not overwrite a later one
let answered = 0; // the latest that was
let open = 0; // asks without an answer
let notBefore = 0;

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

/** Asks the worker, after it has done what the message says, then the owner, and shows both. */
async function refresh(message = { do: "state" }) {
  try {
    state = await worker(message);
  } catch {
    state = { ...state, status: "refused", code: "extension", message: "Its worker does not answer. Reload the extension." };
  }
  await render();
  if (!open) await ask({ do: "status" });
}

/**
 * Asks the owner. A new socket is opened only where the worker has found the owner; one that is
 * open is used without the worker too.
 * @param {{do: string, tabId?: number}} what
 */
async function ask(what) {
  const { connectorId, secret, label } = await identity();
  const quiet = what.do === "status";
  if (!secret || !state.port || (!told && (state.status !== "connected" || (quiet && Date.now() < notBefore)))) return;
  const mine = ++asks;
  open++;
  try {
    const answer = await link.ask(state.port, { connectorId, secret, label }, what);
    if (!readable(answer)) throw new Error("This pi-chrome is of another release than the extension, so that its sessions cannot be shown. Update both.");
    if (!quiet || !told) fault = "";
    if (mine > answered) [told, answered] = [answer, mine];
  } catch (error) {
    fault = error.message;
    if (error.name !== "Refused") {
      told = undefined;
      notBefore = Date.now() + AGAIN_MS;
    }
  }
  open--;
  if (!quiet) shown = ""; // the button that was pressed is shown anew
  await render();
}

async function render() {
  const { connectorId, label } = await identity();
  const asked = (await chrome.storage.session.get(ASKED))[ASKED];
  const next = JSON.stringify([state, connectorId, label, asked, told, fault]);
  if (next === shown) return;
  shown = next;
  show(overview(told ?? workerProjection(state, { connectorId, label }), state, label));
  showWork(told, fault, state.status === "connected", ask);
  showLabel(label);
  showAsked(asked);
  element("port").textContent = state.port ? String(state.port) : "–";
  element("profile").textContent = connectorId.slice(0, 8);
  element("profile").title = connectorId;
}

/** Keeps the name on one line. @param {string} text */
const unbroken = (text) => text.replaceAll("pi-chrome", "pi\u2011chrome");

/** @param {import("./popup_text.js").View} view */
function show(view) {
  element("card").dataset.tone = element("pill").dataset.tone = view.tone;
  element("pill").textContent = view.pill;
  element("title").textContent = unbroken(view.title);
  element("detail").textContent = unbroken(view.detail);
  element("command").textContent = view.command ?? "";
  element("command-row").hidden = !view.command;
  const asks = view.token && element("token-form").hidden;
  element("token-form").hidden = !view.token;
  // Who opens the popup to pair has the token at hand.
  if (asks && document.activeElement === document.body) tokenField.focus();
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
