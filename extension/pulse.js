// The alarm that starts a stopped worker again: every 3 s while someone waits (a tab is attached,
// or was until now), which Chrome allows to an unpacked extension, else every 30 s.

const NAME = "pulse";
const FAST = 3 / 60;
const SLOW = 30 / 60;
const GRACE_MS = 60_000;

export class Pulse {
  #period = 0;
  #fastUntil = 0;

  quicken() {
    this.#fastUntil = Date.now() + GRACE_MS;
    return this.#ring(FAST);
  }

  /** Chooses the period, at the start and whenever the alarm rings. */
  async settle(awaitsPairing) {
    if (!this.#period) {
      // An alarm outlives its worker, and so does the reason for a fast one.
      this.#period = (await chrome.alarms.get(NAME))?.periodInMinutes ?? 0;
      if (this.#period === FAST) await this.quicken();
    }
    const targets = await chrome.debugger.getTargets();
    if (targets.some((target) => target.attached)) return this.quicken();
    return this.#ring(awaitsPairing || Date.now() < this.#fastUntil ? FAST : SLOW);
  }

  async #ring(period) {
    if (period === this.#period) return;
    this.#period = period;
    await chrome.alarms.create(NAME, { periodInMinutes: period });
  }
}
