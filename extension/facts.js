// What a hello says of browser and extension.

import { browserStart } from "./identity.js";
import { fingerprint } from "./wire.js";

async function browser() {
  const { fullVersionList: all } = await navigator.userAgentData.getHighEntropyValues(["fullVersionList"]);
  const brands = all.filter(({ brand }) => !/not[\W_]a[\W_]*brand/i.test(brand));
  // With --user-agent none is named.
  const { brand = "Chromium", version = "unknown" } = brands.find(({ brand }) => brand !== "Chromium") ?? brands[0] ?? {};
  return { family: brand.toLowerCase().split(" ").pop(), version };
}

export async function facts() {
  return {
    fingerprint: await fingerprint(),
    extensionId: chrome.runtime.id,
    displayVersion: chrome.runtime.getManifest().version,
    browser: await browser(),
    ...(await browserStart()),
    capabilities: {
      flatSessions: true, // from Chrome 125 on
      fileAccess: await chrome.extension.isAllowedFileSchemeAccess(),
      incognito: await chrome.extension.isAllowedIncognitoAccess(),
    },
  };
}
