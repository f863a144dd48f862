// The worker carries calls and events between Chrome and the owner of the port. Chrome starts it
// for an event, so the listeners must stand at the top level.

import { showBadge } from "./badge.js";
import { call } from "./calls.js";
import { CONTRACT } from "./contract.js";
import { Pulse } from "./pulse.js";
import { createRelay } from "./relay.js";
import { answerPopup, forwardExternal } from "./requests.js";

const pulse = new Pulse();
const relay = createRelay(
  (name, args) => {
    if (name === "debugger.attach") pulse.quicken();
    return call(name, args);
  },
  async () => showBadge((await relay.state()).status),
);

async function beat() {
  await relay.wake();
  await pulse.settle(await relay.awaitsPairing(), relay.connected());
}

for (const name of CONTRACT.events) {
  const [api, event] = name.split(".");
  if (api === "popup" || api === "runtime") continue; // below
  chrome[api][event].addListener((...args) => relay.event(name, args));
}
chrome.runtime.onMessageExternal.addListener((message, sender) => forwardExternal(relay, message, sender));
chrome.runtime.onMessage.addListener((message, _sender, respond) => {
  answerPopup(relay, message).then(respond);
  return true;
});
chrome.alarms.onAlarm.addListener(beat);
chrome.runtime.onStartup.addListener(() => {}); // it runs: enough
chrome.runtime.onInstalled.addListener(() => {});

beat();
