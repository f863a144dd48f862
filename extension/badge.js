// The state as a badge.

const faces = {
  connected: ["on", "#1a7f4b"],
  waiting: ["…", "#6b7280"],
  pairing: ["…", "#2563eb"],
  unpaired: ["?", "#b45309"],
  refused: ["!", "#b3261e"],
};

let shown = "";

export async function showBadge(status) {
  if (status === shown) return;
  shown = status;
  const [text, color] = faces[status];
  await chrome.action.setBadgeText({ text });
  await chrome.action.setBadgeBackgroundColor({ color });
  await chrome.action.setTitle({ title: `pi-chrome: ${status}` });
}
