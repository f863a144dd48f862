// The popup's own socket to the owner: it proves the secret of the pairing under a domain of its
// own, and asks. The worker has no part in it.

import { CONTRACT } from "./contract.js";
import { facts } from "./facts.js";
import * as wire from "./wire.js";

const SCOPE = "popup";
const PATIENCE_MS = 8000;

/** Why the owner does not speak with this popup, with a code of docs/protocol.md where it told one. */
export class LinkError extends Error {
  /** @param {string} message @param {string} [code] */
  constructor(message, code = "") {
    super(message);
    this.code = code;
  }
}

const LOST = "The connection to pi-chrome was lost.";
/** What an older owner does, and one that has ended in this moment. */
const NO_ROUTE = "pi-chrome took no connection of the popup. If it is older than this extension, update it.";

/** One socket at a time, opened when something is asked. */
export class Link {
  /** @type {Promise<WebSocket> | undefined} */
  #open;
  #to = ""; // whom it was opened as, and where
  #last = 0;
  /** @type {Map<number, {resolve: (answer: any) => void, reject: (error: Error) => void}>} */
  #waiting = new Map();
  #lost;

  /** @param {() => void} [lost] hears of an open socket that has ended */
  constructor(lost = () => {}) {
    this.#lost = lost;
  }

  /**
   * Asks the owner.
   * @param {number} port
   * @param {{connectorId: string, secret: string, label: string}} who
   * @param {{do: string, tabId?: number}} what
   * @returns {Promise<any>} the projection after it; rejects with a LinkError, which is called
   * Refused where the owner did not do what was asked
   */
  async ask(port, who, what) {
    const to = `${port} ${who.connectorId} ${who.secret}`;
    if (to !== this.#to) this.close();
    this.#to = to;
    this.#open ??= this.#connect(port, who);
    const socket = await this.#open;
    const id = ++this.#last;
    const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    socket.send(JSON.stringify({ type: "ask", id, ...what }));
    try {
      const { status, error } = await within(answer, "pi-chrome did not answer in time.");
      if (error) throw Object.assign(new LinkError(error.message, error.code), { name: "Refused" });
      return status;
    } finally {
      this.#waiting.delete(id);
    }
  }

  close(error = new LinkError(LOST)) {
    this.#open?.then((socket) => {
      socket.onclose = null;
      socket.close();
    }, () => {});
    this.#open = undefined;
    for (const { reject } of this.#waiting.values()) reject(error);
  }

  async #connect(port, who) {
    try {
      const hello = await helloOf(who);
      const socket = new WebSocket(`ws://127.0.0.1:${port}/${SCOPE}`);
      try {
        await within(handshake(socket, hello, who.secret), "pi-chrome did not answer in time.");
      } catch (error) {
        socket.close();
        throw error;
      }
      socket.onmessage = ({ data }) => this.#receive(data);
      socket.onclose = () => {
        this.close();
        this.#lost();
      };
      return socket;
    } catch (error) {
      this.#open = undefined; // the next ask tries again
      throw error;
    }
  }

  /** @param {any} data */
  #receive(data) {
    let frame;
    try {
      frame = JSON.parse(data);
    } catch {
      return this.close(new LinkError("pi-chrome sent something that is no frame."));
    }
    if (frame.type === "answer") return this.#waiting.get(frame.id)?.resolve(frame);
    this.close(new LinkError(String(frame.message ?? "pi-chrome ended the connection."), String(frame.code ?? "")));
  }
}

async function helloOf({ connectorId, label }) {
  return {
    type: "hello",
    version: CONTRACT.version,
    ...(await facts()),
    connectorId,
    label,
    workerId: `popup-${wire.randomHex(8)}`,
    resume: { bridgeEpoch: "", lastCall: 0, firstSeq: 1, lastSeq: 0 },
    clientNonce: wire.randomHex(32),
  };
}

/** Nothing but the hello is sent before the owner has proved the secret. */
async function handshake(socket, hello, secret) {
  const next = reader(socket, () => socket.send(JSON.stringify(hello)));
  const challenge = await next("challenge");
  const { server, request } = await wire.proofs(SCOPE, secret, hello, challenge);
  if (!(await wire.equalProofs(server, challenge.proof))) {
    throw new LinkError("What answers on the port could not prove that it is your pi-chrome.", "bad-server-proof");
  }
  socket.send(JSON.stringify({ type: "prove", proof: request }));
  await next("ready");
}

/** Gives the frames of a handshake, one after the other. */
function reader(socket, opened) {
  const frames = [];
  let wake = () => {};
  let over = NO_ROUTE;
  socket.onopen = () => {
    over = LOST;
    opened();
  };
  let ended = false;
  socket.onclose = () => {
    ended = true;
    wake();
  };
  socket.onmessage = ({ data }) => {
    frames.push(data);
    wake();
  };
  return async (type) => {
    while (!frames.length) {
      if (ended) throw new LinkError(over, over === NO_ROUTE ? "no-route" : "");
      await new Promise((resolve) => (wake = () => resolve(undefined)));
    }
    const read = wire.decode(frames.shift());
    if (read.type === "refused") throw new LinkError(read.message, read.code);
    if (read.type !== type) throw new LinkError(`pi-chrome sent a ${read.type} frame where a ${type} was due.`);
    return read;
  };
}

/**
 * @template T
 * @param {Promise<T>} work
 * @param {string} message
 * @returns {Promise<T>}
 */
async function within(work, message) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new LinkError(message)), PATIENCE_MS);
  });
  try {
    return await Promise.race([work, /** @type {Promise<never>} */ (late)]);
  } finally {
    clearTimeout(timer);
  }
}
