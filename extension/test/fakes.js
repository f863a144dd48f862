// A fake of chrome.*, of the package folder, of WebSocket and of the owner behind it.

import { createHash, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";

export const ID = "ifcpakcjbfefmnphbpkiejoojocimldi";
export const TOKEN = "0123456789ABCDEF0123456789ABCDEF";
export const SECRET = "5e".repeat(32);
export const CONNECTOR = "11111111-2222-4333-8444-555555555555";

/** @param {string} name a file of the extension */
export const shipped = (name) => readFileSync(new URL(`../${name}`, import.meta.url), "utf8");

export const hmac = (key, strings) =>
  createHmac("sha256", Buffer.from(key, "hex")).update(JSON.stringify(strings)).digest("hex");

const sha256 = (text) => createHash("sha256").update(text).digest("hex");

/** An event of chrome.* whose listeners a test can call. */
export function fakeEvent() {
  const listeners = [];
  return {
    listeners,
    addListener: (listener) => listeners.push(listener),
    fire: (...args) => listeners.map((listener) => listener(...args)),
  };
}

function fakeStorage(content) {
  const names = (keys) => (typeof keys === "string" ? [keys] : Array.isArray(keys) ? keys : Object.keys(keys ?? content));
  return {
    content,
    async get(keys) {
      return Object.fromEntries(names(keys).filter((k) => k in content).map((k) => [k, structuredClone(content[k])]));
    },
    async set(values) {
      Object.assign(content, structuredClone(values));
    },
    async remove(keys) {
      for (const key of names(keys)) delete content[key];
    },
  };
}

/**
 * Installs chrome, fetch, WebSocket and navigator for a test.
 * @param {{secret?: string, files?: {[name: string]: string}}} [start] secret "" for a profile that is not paired
 */
export function install({ secret = SECRET, files = {} } = {}) {
  const calls = [];
  const recorded = (name, answer) => async (...args) => {
    calls.push([name, ...args]);
    return typeof answer === "function" ? answer(...args) : answer;
  };
  const alarms = new Map();
  const chrome = {
    runtime: {
      id: ID,
      getURL: (name) => `chrome-extension://${ID}/${name}`,
      getManifest: () => JSON.parse(shipped("manifest.json")),
      getPlatformInfo: recorded("runtime.getPlatformInfo", { os: "linux" }),
      reload: recorded("runtime.reload"),
      onMessage: fakeEvent(),
      onMessageExternal: fakeEvent(),
      onStartup: fakeEvent(),
      onInstalled: fakeEvent(),
    },
    storage: {
      local: fakeStorage({
        piChromeConnectorIdentity: { connectorId: CONNECTOR, secret },
        piChromeLabel: "Work",
      }),
      session: fakeStorage({ piChromeBrowserEpoch: "be".repeat(32) }),
    },
    alarms: {
      get: async (name) => alarms.get(name),
      create: async (name, info) => void alarms.set(name, { name, ...info }),
      onAlarm: fakeEvent(),
    },
    action: {
      setBadgeText: recorded("action.setBadgeText"),
      setBadgeBackgroundColor: recorded("action.setBadgeBackgroundColor"),
      setTitle: recorded("action.setTitle"),
    },
    extension: {
      isAllowedFileSchemeAccess: async () => true,
      isAllowedIncognitoAccess: async () => false,
    },
    debugger: {
      targets: [],
      getTargets: async () => chrome.debugger.targets,
      attach: recorded("debugger.attach"),
      detach: recorded("debugger.detach"),
      sendCommand: recorded("debugger.sendCommand", { ok: true }),
      onEvent: fakeEvent(),
      onDetach: fakeEvent(),
    },
    tabs: {
      query: recorded("tabs.query", [{ id: 7 }]),
      get: recorded("tabs.get", () => Promise.reject(new Error("No tab with id: 99."))),
      onCreated: fakeEvent(),
      onUpdated: fakeEvent(),
      onRemoved: fakeEvent(),
      onReplaced: fakeEvent(),
      onActivated: fakeEvent(),
    },
    downloads: { onCreated: fakeEvent(), onChanged: fakeEvent() },
  };
  const folder = { "bridge.json": '{"port":4321}', ...files };
  FakeSocket.all = [];
  const brands = [
    { brand: "Not_A Brand", version: "99.0.0.0" },
    { brand: "Chromium", version: "156.0.8078.73" },
  ];
  const globals = {
    chrome,
    WebSocket: FakeSocket,
    navigator: { userAgentData: { getHighEntropyValues: async () => ({ fullVersionList: brands }) } },
    fetch: async (url) => {
      const name = new URL(url).pathname.slice(1);
      if (!(name in folder)) throw new TypeError("Failed to fetch");
      return { text: async () => folder[name] };
    },
  };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  return { chrome, calls, folder, alarms, brands };
}

/** The browser's end of a socket; a test, or an Owner, is the other. */
export class FakeSocket {
  /** @type {FakeSocket[]} */
  static all = [];
  static get last() {
    return FakeSocket.all[FakeSocket.all.length - 1];
  }

  sent = [];
  bufferedAmount = 0;
  closed = false;
  onopen = null;
  onmessage = null;
  onclose = null;

  constructor(url) {
    this.url = url;
    FakeSocket.all.push(this);
  }
  send(text) {
    if (this.closed) throw new Error("the socket is closed");
    this.sent.push(JSON.parse(text));
  }
  /** By the extension. */
  close() {
    this.closed = true;
  }
  open() {
    this.onopen?.();
  }
  /** From the owner. */
  receive(frame) {
    this.onmessage?.({ data: typeof frame === "string" ? frame : JSON.stringify(frame) });
  }
  /** By the owner, or for want of one. */
  lose() {
    this.closed = true;
    this.onclose?.();
  }
}

// Web Crypto answers from a pool of threads: count what is under way.
let underWay = 0;
const { subtle } = globalThis.crypto;
for (const name of ["digest", "importKey", "sign"]) {
  const original = subtle[name].bind(subtle);
  Object.defineProperty(subtle, name, {
    value: async (...args) => {
      underWay++;
      try {
        return await original(...args);
      } finally {
        underWay--;
      }
    },
  });
}

const turn = globalThis.setImmediate; // not one of the clocks that tests stop

/** Lets everything that waits for promises and for Web Crypto go on; not timers. */
export async function settle() {
  for (let quiet = 0; quiet < 3; quiet = underWay ? 0 : quiet + 1) {
    await new Promise((resolve) => turn(resolve));
  }
}

/** The owner's half of the handshake, written anew from docs/protocol.md. */
export class Owner {
  nonce = "33".repeat(32);
  constructor(key = SECRET, epoch = "22".repeat(32)) {
    this.key = key;
    this.epoch = epoch;
  }

  /** Answers the hello; overrides changes fields of the challenge. */
  async challenge(socket, overrides = {}) {
    socket.open();
    const hello = socket.sent.find((frame) => frame.type === "hello");
    const print = overrides.serverFingerprint ?? hello.fingerprint;
    const proof = hmac(this.key, [
      `${domain(socket)}/server-proof/v1`, "2", ...named(hello), hello.clientNonce, this.epoch, this.nonce, print,
    ]);
    socket.receive({
      type: "challenge", bridgeEpoch: this.epoch, requestNonce: this.nonce, serverFingerprint: print, proof, ...overrides,
    });
    await settle();
    return hello;
  }

  /** What the extension's proof must be. */
  expected(socket) {
    const hello = socket.sent.find((frame) => frame.type === "hello");
    return hmac(this.key, [
      `${domain(socket)}/request-proof/v1`, "2", ...named(hello), this.epoch, this.nonce, hello.fingerprint,
      "GET", new URL(socket.url).pathname, sha256(""),
    ]);
  }

  /** The whole handshake of /connector. */
  async connect(socket, ack = 0) {
    const hello = await this.challenge(socket);
    const prove = socket.sent[socket.sent.length - 1];
    if (prove.proof !== this.expected(socket)) throw new Error(`wrong proof in ${JSON.stringify(prove)}`);
    socket.receive({ type: "ready", connectionId: "c1", generation: 1, ack });
    await settle();
    return hello;
  }
}

const domain = (socket) => `pi-chrome${new URL(socket.url).pathname}`;
const named = (hello) => [hello.connectorId, hello.extensionId, hello.displayVersion, hello.fingerprint, ""];
