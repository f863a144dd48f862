// What the popup and pages ask of the worker.

import { longerThan } from "./wire.js";

/** Drops what nobody takes: without a connection, or beyond 64 KB. */
function forward(relay, name, args) {
  if (relay.connected() && !longerThan(JSON.stringify(args), 65_536)) relay.event(name, args);
}

/** Answers the popup with the state. A "request" goes to the owner. */
export async function answerPopup(relay, { do: what, token, request }) {
  if (what === "connect") await relay.restart();
  if (what === "pair" && /^[0-9a-f]{32}$/i.test(token)) await relay.restart(token);
  if (what === "request") forward(relay, "popup.request", [request]);
  return relay.state();
}

/** A page's message; the owner checks its origin. */
export function forwardExternal(relay, message, sender) {
  const { origin, url, frameId, tab } = sender;
  forward(relay, "runtime.onMessageExternal", [message, { origin, url, frameId, tabId: tab?.id }]);
}
