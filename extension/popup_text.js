// What the popup says about a state, and what it offers to do.

/**
 * @typedef {object} View
 * @property {"good" | "busy" | "ask" | "bad"} tone
 * @property {string} pill one word or two
 * @property {string} title
 * @property {string} detail
 * @property {string} [command] to run in a terminal
 * @property {boolean} [token] offer to enter a token
 * @property {boolean} [newIdentity] offer to become another profile
 * @property {boolean} [reload] offer to reload the extension
 * @property {boolean} [retry] offer to try again at once
 */

/** @type {{[code: string]: Omit<View, "tone" | "pill">}} */
const refusals = {
  "version-mismatch": {
    title: "The releases do not match",
    detail: "Extension and pi-chrome speak different versions of the wire. Install the extension that belongs to your pi-chrome, then reload it.",
    command: "pi-chrome extension install",
    reload: true,
  },
  "fingerprint-mismatch": {
    title: "The releases do not match",
    detail: "Extension and pi-chrome have different contracts. Install the extension that belongs to your pi-chrome, then reload it.",
    command: "pi-chrome extension install",
    reload: true,
  },
  "unknown-connector": {
    title: "pi-chrome does not know this profile",
    detail: "It was unpaired or forgotten, or pi-chrome keeps its state in another folder now. Pair it again.",
    command: "pi-chrome onboard",
    token: true,
  },
  "bad-proof": {
    title: "The pairing is no longer valid",
    detail: "pi-chrome holds another secret for this profile. Pair it again.",
    command: "pi-chrome onboard",
    token: true,
  },
  "bad-server-proof": {
    title: "Something else holds the port",
    detail: "The program that answers there could not prove that it is your pi-chrome. Nothing was sent to it. Find out what it is, or pair again.",
    command: "pi-chrome doctor",
    token: true,
    retry: true,
  },
  "duplicate-connector": {
    title: "This profile is a copy",
    detail: "Another running browser has the same identity. Close that browser, or give this profile an identity of its own and pair it.",
    newIdentity: true,
    retry: true,
  },
  "pairing-inactive": {
    title: "No pairing is under way",
    detail: "Start one in a terminal, then enter the token it shows.",
    command: "pi-chrome onboard --token",
    token: true,
  },
  "pairing-expired": {
    title: "The token has expired",
    detail: "A token is good for two minutes. Ask for a new one.",
    command: "pi-chrome onboard --token",
    token: true,
  },
  "pairing-used": {
    title: "The token was used already",
    detail: "A token pairs one profile. Ask for a new one for this profile.",
    command: "pi-chrome onboard --token",
    token: true,
  },
  "pairing-ambiguous": {
    title: "Several profiles want to be paired",
    detail: "pi-chrome cannot tell which one you mean. Name this one, or enter a token here.",
    token: true,
  },
  extension: {
    title: "The extension has a problem",
    detail: "",
    reload: true,
    retry: true,
  },
};

/**
 * A name as one word of a command line, for a POSIX shell.
 * @param {string} text
 */
function quoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * @param {State} state
 * @param {string} label of the profile
 * @returns {View}
 */
export function describe(state, label) {
  switch (state.status) {
    case "connected":
      return {
        tone: "good",
        pill: "Connected",
        title: "Ready",
        detail: "pi-chrome can work in tabs of this profile. Chrome shows a bar above a tab while it does.",
      };
    case "pairing":
      return {
        tone: "busy",
        pill: "Pairing",
        title: "Offered to pi-chrome",
        detail: "It waits a moment in case other profiles offer themselves too.",
      };
    case "waiting":
      return {
        tone: "busy",
        pill: "Waiting",
        title: "Waiting for pi-chrome",
        detail: state.message
          ? `Not connected: ${state.message.replace(/\.$/, "")}. The extension tries again by itself.`
          : `Nothing answers on port ${state.port} yet. pi-chrome starts with its first command, and this connects by itself.`,
        retry: true,
      };
    case "unpaired":
      return {
        tone: "ask",
        pill: "Not paired",
        title: "Pair this profile",
        detail: "Run this in a terminal. To be sure that it is this profile, add --token and enter here what it shows.",
        command: "pi-chrome onboard",
        token: true,
      };
    case "refused": {
      const { code = "", message = "", scope } = state;
      const bad = { tone: /** @type {const} */ ("bad"), pill: "Refused" };
      if (code === "bad-server-proof" && scope === "pairing") {
        return {
          ...bad,
          title: "That token does not fit",
          detail: "pi-chrome could not prove that it knows it. Check it for typing mistakes, or ask for a new one.",
          command: "pi-chrome onboard --token",
          token: true,
        };
      }
      if (code === "pairing-ambiguous") {
        return { ...bad, ...refusals[code], command: `pi-chrome onboard --pick ${quoted(label)}` };
      }
      if (code === "extension") return { ...bad, ...refusals[code], detail: message };
      const known = refusals[code];
      return known ? { ...bad, ...known } : { ...bad, title: "pi-chrome refused", detail: message || code, retry: true };
    }
  }
}

/**
 * A token as it was pasted, with anything around and between its digits.
 * @param {string} text
 * @returns {string} at most 32 upper-case hex digits
 */
export function cleanToken(text) {
  return text.replace(/[^0-9a-f]/gi, "").toUpperCase().slice(0, 32);
}
