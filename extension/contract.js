// What both sides must agree on, the same as in bridge/wire (strict JSON: a Go test reads it).

export const CONTRACT = {
"version": 1,
"domains": {
  "owner": "pi-chrome/bridge-owner",
  "connector": "pi-chrome/connector",
  "pairing": "pi-chrome/pairing",
  "pairingSecret": "pi-chrome/pairing/secret/v1",
  "algorithmVersion": "2"},
"calls": [
  "action.setBadgeText", "action.setTitle", "debugger.attach", "debugger.detach",
  "debugger.getTargets", "debugger.sendCommand", "downloads.cancel", "downloads.download",
  "downloads.erase", "downloads.search", "runtime.getPlatformInfo", "runtime.reload",
  "storage.local.get", "storage.local.remove", "storage.local.set", "storage.session.get",
  "storage.session.remove", "storage.session.set", "tabGroups.get", "tabGroups.query",
  "tabGroups.update", "tabs.create", "tabs.get", "tabs.goBack", "tabs.goForward", "tabs.group",
  "tabs.move", "tabs.query", "tabs.reload", "tabs.remove", "tabs.ungroup", "tabs.update",
  "windows.get", "windows.getAll", "windows.update"],
"events": [
  "debugger.onDetach", "debugger.onEvent", "downloads.onChanged", "downloads.onCreated",
  "popup.request", "runtime.onMessageExternal", "tabs.onActivated", "tabs.onCreated",
  "tabs.onRemoved", "tabs.onReplaced", "tabs.onUpdated"],
"frames": [
  "ack", "call", "challenge", "event", "gap", "hello", "offered", "paired", "ping", "pong", "prove",
  "ready", "refused", "reply"],
"limits": {
  "keptFrames": 1000,
  "keptBytes": 8388608,
  "frameBytes": 20971520,
  "nonceTTLMs": 5000,
  "pingIntervalMs": 20000,
  "ackEveryFrames": 64,
  "ackEveryBytes": 1048576}
};
