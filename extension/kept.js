// The frames that are not acknowledged.

import { CONTRACT } from "./contract.js";

const { keptFrames, keptBytes } = CONTRACT.limits;

/** Numbers frames from 1 and keeps the newest; keptBytes counts UTF-16 units. */
export class Kept {
  /** @type {string[]} numbered from this.first to this.last */
  #texts = [];
  #units = 0;
  /** The highest number given, 0 for none. */
  last = 0;

  get first() {
    return this.last - this.#texts.length + 1;
  }

  add(encode) {
    const text = encode(this.last + 1);
    this.last++;
    this.#texts.push(text);
    this.#units += text.length;
    while (this.#texts.length > keptFrames || this.#units > keptBytes) this.#drop();
    return text;
  }

  /** Drops what the owner has processed. */
  acknowledge(seq) {
    while (this.#texts.length && this.first <= seq) this.#drop();
  }

  /** What to send on a new socket: the gap, if any, then what is kept. */
  resume(acknowledged) {
    this.acknowledge(acknowledged);
    this.last = Math.max(this.last, acknowledged);
    const gap = { type: "gap", from: acknowledged + 1, to: this.first - 1 };
    return gap.from <= gap.to ? [JSON.stringify(gap), ...this.#texts] : [...this.#texts];
  }

  #drop() {
    this.#units -= this.#texts.shift()?.length ?? 0;
  }
}
