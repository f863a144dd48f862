// What another extension may do to us. A tab tells it by the fragment of its address.

const deeds = {
  attach: async (tabId) => {
    await chrome.debugger.attach({ tabId }, "1.3");
    await chrome.debugger.sendCommand({ tabId }, "Runtime.evaluate", { expression: "document.title = 'theirs'" });
  },
  again: (tabId) => chrome.debugger.sendCommand({ tabId }, "Runtime.evaluate", { expression: "document.title = 'still theirs'" }),
  release: (tabId) => chrome.debugger.detach({ tabId }),
  discard: (tabId) => chrome.tabs.discard(tabId),
  // What a user does who turns our extension off and on: it starts anew, like after an update.
  restart: async () => {
    for (const { id, type } of await chrome.management.getAll()) {
      if (type !== "extension" || id === chrome.runtime.id) continue;
      await chrome.management.setEnabled(id, false);
      await chrome.management.setEnabled(id, true);
    }
  },
};

const done = new Set(); // a page that is loaded again asks for nothing

chrome.tabs.onUpdated.addListener(async (tabId, { url }) => {
  const hash = url ? new URL(url).hash : "";
  const [name, deed] = hash.slice(1).split("-"); // and a number that makes it new
  if (name !== "other" || done.has(hash)) return;
  done.add(hash);
  await deeds[deed](tabId);
});
