// The popup's sessions, their tabs, the last commands, and the button that stops everything.

import { receiptRow, restText, sentence, sessionRow } from "./popup_view.js";

/** @param {string} id */
const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/**
 * @typedef {(what: {do: string, tabId?: number}) => Promise<void>} Ask
 */

/** @type {Ask} */
let ask = async () => {};

/**
 * An element with a class, text or children; attributes by name.
 * @param {string} tag
 * @param {{[name: string]: string}} attributes
 * @param {...(Node | string)} children
 */
function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/**
 * A button that can be pressed once until it is shown anew.
 * @param {{[name: string]: string}} attributes
 * @param {string} text
 * @param {() => Promise<unknown>} act
 */
function button(attributes, text, act) {
  const made = /** @type {HTMLButtonElement} */ (make("button", { type: "button", ...attributes }, text));
  made.addEventListener("click", async () => {
    made.disabled = true;
    await act();
    made.disabled = false;
  });
  return made;
}

/**
 * Shows what the owner told; nothing without it, but why.
 * @param {Projection | undefined} told
 * @param {string} fault
 * @param {boolean} connected of the worker
 * @param {Ask} askOwner
 */
export function showWork(told, fault, connected, askOwner) {
  ask = askOwner;
  element("work").hidden = !told && !(connected && fault);
  element("past").hidden = !told?.receipts.length;
  element("work-note").textContent = sentence(fault);
  element("work-note").classList.toggle("bad", Boolean(fault));
  const stop = /** @type {HTMLButtonElement} */ (element("stop"));
  stop.hidden = !told;
  stop.disabled = Boolean(told?.stoppedAt);
  stop.textContent = told?.stoppedAt ? "Stopped" : "Stop everything";
  element("rest").textContent = told ? restText(told) : "";
  const focused = document.activeElement?.id;
  element("sessions").replaceChildren(...(told?.sessions ?? []).map(session));
  element("receipts").replaceChildren(...(told?.receipts ?? []).map((receipt) => past(receipt, told?.sessions ?? [])));
  // What had the focus has it again, though it was made anew. After a press on a tab's button that
  // is the button which undoes it.
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus();
}

/** @param {ProjectedSession} told */
function session(told) {
  const { name, chip, detail, tabs } = sessionRow(told);
  const item = make("li", {}, make("div", { class: "head" },
    make("h3", { title: name }, name),
    make("span", { class: "chip", "data-tone": chip.tone }, chip.text)));
  if (detail) item.append(make("span", { class: "small" }, detail));
  if (tabs.length) item.append(make("ul", { class: "tabs", "aria-label": `Tabs of ${name}` }, ...tabs.map(tab)));
  return item;
}

/** @param {import("./popup_view.js").TabRow} row */
function tab({ id, name, place, note, action, label }) {
  const what = make("div", { class: "what" });
  if (action) {
    what.append(button({ class: "link clip", id: `show-${id}`, title: name, "aria-label": `Show the tab ${name}` }, name, () => showTab(id)));
  } else {
    what.append(make("span", { class: "clip", title: name }, name));
  }
  if (note) what.append(make("span", { class: `small${action === "give" ? " yours" : ""}` }, note));
  else if (place && place !== name) what.append(make("span", { class: "small" }, place));
  const item = make("li", {}, what);
  if (action) {
    const text = action === "take" ? "Take over" : "Hand back";
    item.append(button({ class: "small-button", id: `hand-${id}`, "aria-label": label }, text, () => ask({ do: action, tabId: id })));
  }
  return item;
}

/** @param {number} id */
async function showTab(id) {
  const shown = await chrome.tabs.update(id, { active: true }).catch(() => undefined); // it was closed in this moment
  if (shown) await chrome.windows.update(shown.windowId, { focused: true });
}

/** @param {ProjectedReceipt} receipt @param {ProjectedSession[]} sessions */
function past(receipt, sessions) {
  const { mark, tone, outcome, name, place, time, message } = receiptRow(receipt, sessions);
  const item = make("li", { "data-tone": tone },
    make("span", { class: "mark", "aria-hidden": "true" }, mark),
    make("span", {}, make("span", { class: "spoken" }, `${outcome}: `), name),
    make("time", { datetime: receipt.at }, time),
    make("span", { class: "small", title: place }, place));
  if (message) item.append(make("p", { class: "why" }, message));
  return item;
}

const stop = /** @type {HTMLButtonElement} */ (element("stop"));
stop.addEventListener("click", () => {
  stop.disabled = true;
  stop.textContent = "Stopping…";
  ask({ do: "stop" });
});
