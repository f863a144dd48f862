// What the popup shows of a status projection (docs/protocol.md): pure, so that its tests need no
// page.

import { describe } from "./popup_text.js";

export const PROJECTION = { kind: "pi-chrome/status-projection", version: 3 };

/**
 * @typedef {import("./popup_text.js").View} View
 * @typedef {{text: string, tone: "good" | "busy" | "ask" | "bad" | "quiet"}} Chip
 * @typedef {{id: number, name: string, place: string, note: string, action: "" | "take" | "give", label: string}} TabRow
 * @typedef {{key: string, name: string, chip: Chip, detail: string, tabs: TabRow[]}} SessionRow
 * @typedef {{mark: string, tone: Chip["tone"], outcome: string, name: string, place: string, time: string, message: string}} ReceiptRow
 */

/**
 * Whether an owner's answer is the projection that this popup reads.
 * @param {any} told
 * @returns {told is Projection}
 */
export const readable = (told) => told?.kind === PROJECTION.kind && told.version === PROJECTION.version;

/**
 * The projection where no owner has told one: what the worker knows by itself.
 * @param {State} state
 * @param {{connectorId: string, label: string}} who
 * @returns {Projection}
 */
export function workerProjection({ status, message = "" }, { connectorId, label }) {
  const connected = status === "connected";
  return {
    ...PROJECTION,
    state: connected ? "ready" : status === "refused" ? "error" : status === "waiting" ? "offline" : "waiting-for-extension",
    bridge: status === "waiting" || status === "unpaired" ? "stopped" : "running",
    connector: { id: connectorId, label, connected },
    extensionDirectory: "",
    ...(status === "refused" ? { errorMessage: message } : {}),
    sessions: [],
    receipts: [],
  };
}

/**
 * What the popup says about the state as a whole. What keeps the worker away comes first: it says
 * what to do.
 * @param {Projection} projection
 * @param {State} state of the worker
 * @param {string} label of the profile
 * @returns {View}
 */
export function overview(projection, state, label) {
  if (["refused", "unpaired", "pairing"].includes(state.status)) return describe(state, label);
  switch (projection.state) {
    case "offline":
      if (state.status !== "connected") return describe(state, label);
      return {
        tone: "busy",
        pill: "Ending",
        title: "pi-chrome is ending",
        detail: "It takes no more commands. The next one starts another, and this connects by itself.",
      };
    case "error":
      return {
        tone: "bad",
        pill: "Error",
        title: "pi-chrome has a problem",
        detail: projection.errorMessage ?? "",
        command: "pi-chrome doctor",
      };
    case "waiting-for-extension":
      if (state.status === "connected") break; // it came in this moment
      return {
        tone: "busy",
        pill: "Waiting",
        title: "Waiting for the extension",
        detail: "pi-chrome is there, and this extension connects to it within half a minute.",
        retry: true,
      };
  }
  const again = firstLocked(projection);
  if (projection.stoppedAt) {
    return {
      tone: "ask",
      pill: "Stopped",
      title: "Everything is stopped",
      detail: "No session may use a browser until you authorize it again: in Pi with /chrome authorize, or in a terminal.",
      command: again,
    };
  }
  if (projection.debuggerCanceled) {
    return {
      tone: "ask",
      pill: "Canceled",
      title: "You canceled the debugging",
      detail: "The sessions of this profile are locked. Authorize the one that may go on.",
      command: again,
    };
  }
  return describe({ ...state, status: "connected" }, label);
}

/** @param {Projection} projection */
function firstLocked({ sessions }) {
  const key = sessions.find(({ authorization }) => authorization === "locked")?.key ?? "default";
  return `pi-chrome authorize --session ${/^[\w.:/@-]+$/.test(key) ? key : `'${key.replaceAll("'", `'\\''`)}'`}`;
}

/** An error's words as a sentence; the name of a tool at its start stays as it is. */
export function sentence(text = "") {
  const whole = text.replace(/[^.!?]$/, "$&.");
  return /^[a-z]+[_-]/.test(whole) ? whole : whole.slice(0, 1).toUpperCase() + whole.slice(1);
}

/** @param {string} at */
const clock = (at, options = {}) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", ...options });

/** @param {{title?: string, key: string}} session */
const nameOf = ({ title, key }) => title || key;

/** @param {string} [url] */
function hostOf(url = "") {
  try {
    return new URL(url).host || url;
  } catch {
    return url;
  }
}

/**
 * @param {ProjectedSession} session
 * @returns {SessionRow}
 */
export function sessionRow(session) {
  const { authorization, expiresAt, executing, queued, tabs } = session;
  const until = authorization === "until" && expiresAt ? `until ${clock(expiresAt)}` : "";
  /** @type {Chip} */
  let chip = { text: until ? `Allowed ${until}` : "Allowed", tone: "good" };
  if (authorization === "locked") chip = { text: "Locked", tone: "quiet" };
  if (executing || queued) chip = { text: "Working", tone: "busy" };
  const detail = [chip.tone === "busy" && until && `allowed ${until}`, queued && `${queued} ${queued === 1 ? "command waits" : "commands wait"}`];
  return {
    key: session.key,
    name: nameOf(session),
    chip,
    detail: detail.filter(Boolean).join(", "),
    tabs: tabs.map((tab) => tabRow(tab, nameOf(session))),
  };
}

/** @param {ProjectedTab} tab @param {string} session @returns {TabRow} */
function tabRow(tab, session) {
  const place = hostOf(tab.url);
  const row = { id: tab.id, name: tab.title || place || `Tab ${tab.id}`, place, note: "", action: /** @type {TabRow["action"]} */ (""), label: "" };
  if (tab.state === "allocating") return { ...row, name: "A new tab", note: "is being opened" };
  if (tab.state !== "owned") return { ...row, name: tab.title || `Tab ${tab.id}`, note: "was lost, and is yours" };
  if (tab.holder === "user") {
    return { ...row, note: "You have it", action: "give", label: `Hand ${row.name} back to ${session}` };
  }
  return { ...row, note: tab.claimed ? "Yours, used by the session" : "", action: "take", label: `Take ${row.name} over from ${session}` };
}

/** @type {{[outcome: string]: [mark: string, tone: Chip["tone"], text: string]}} */
const outcomes = {
  done: ["✓", "good", "Done"],
  "outcome-unknown": ["?", "ask", "Outcome unknown"],
};

/**
 * @param {ProjectedReceipt} receipt
 * @param {ProjectedSession[]} sessions
 * @returns {ReceiptRow}
 */
export function receiptRow(receipt, sessions) {
  const [mark, tone, outcome] = outcomes[receipt.outcome] ?? ["✕", "bad", "Not done"];
  const session = sessions.find(({ key }) => key === receipt.session);
  const tab = session?.tabs.find(({ id }) => id === receipt.tabId);
  const place = [session ? nameOf(session) : receipt.session, hostOf(tab?.url)];
  return {
    mark,
    tone,
    outcome,
    name: receipt.title || receipt.operation,
    place: place.filter(Boolean).join(" · "),
    time: clock(receipt.at, { second: "2-digit" }),
    message: sentence(receipt.message),
  };
}

/**
 * The line below the list of sessions.
 * @param {Projection} projection
 */
export function restText({ sessions, moreSessions = 0, elsewhere = 0 }) {
  const lines = [];
  if (!sessions.length) lines.push("No session works in this profile.");
  if (moreSessions) lines.push(`${moreSessions} more ${moreSessions === 1 ? "session is" : "sessions are"} not shown.`);
  if (elsewhere) lines.push(`${elsewhere} ${elsewhere === 1 ? "session" : "sessions"} of other browsers may act too: Stop ends ${elsewhere === 1 ? "it" : "them"} as well.`);
  return lines.join(" ");
}
