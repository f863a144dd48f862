// The alarm that starts a stopped worker again: every 3 s while a tab is attached or was until
// now (an unpacked extension may), else every 30 s.

const NAME = "pulse";
const FAST = 3 / 60;
const SLOW = 30 / 60;
const GRACE_MS = 60_000;

export class Pulse {
  #period = 0;
  #fastUntil = 0;
  #heard = Date.now(); // of an owner

  quicken() {
    this.#fastUntil = Date.now() + GRACE_MS;
    return this.#ring(FAST);
  }

  /** At the start and at each alarm. */
  async settle(awaitsPairing, connected) {
    if (connected) this.#heard = Date.now();
    if (!this.#period) {
      // An alarm outlives its worker, and so does the reason for a fast one.
      this.#period = (await chrome.alarms.get(NAME))?.periodInMinutes ?? 0;
      if (this.#period === FAST) await this.quicken();
    }
    const attached = (await chrome.debugger.getTargets()).filter((target) => target.attached);
    // Without an owner nobody lets go of the banner, or of a frame that waits for us.
    const over = Date.now() - this.#heard > GRACE_MS;
    for (const { tabId } of over ? attached : []) chrome.debugger.detach({ tabId }).catch(() => {});
    if (attached.length) return this.quicken();
    return this.#ring(awaitsPairing || Date.now() < this.#fastUntil ? FAST : SLOW);
  }

  async #ring(period) {
    if (period === this.#period) return;
    this.#period = period;
    await chrome.alarms.create(NAME, { periodInMinutes: period });
  }
}
