/**
 * Wakes one sleeper. Whoever rings while nobody sleeps is heard at the next sleep, so that nothing told between two looks is
 * missed.
 */
import type { Clock } from './clock.ts';

export class Bell {
  #isRung = false;
  #wake: () => void = () => {};

  ring(): void {
    this.#isRung = true;
    this.#wake();
  }

  /** Resolves with true when it rang, and with false when the time was over or the signal aborted. Infinity: no time. */
  async sleep(ms: number, clock: Clock, signal: AbortSignal): Promise<boolean> {
    if (!this.#isRung && !signal.aborted) await this.#sleep(ms, clock, signal);
    const isRung = this.#isRung;
    this.#isRung = false;
    return isRung;
  }

  async #sleep(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
    const stop = new AbortController();
    const woken = new Promise<void>((resolve) => (this.#wake = resolve));
    const abort = (): void => this.#wake();
    signal.addEventListener('abort', abort, { once: true });
    // The sleep that was not needed is ended, so that no timer outlives its purpose.
    const timeout = ms === Infinity ? woken : clock.sleep(ms, stop.signal).catch(() => {});
    await Promise.race([woken, timeout]);
    stop.abort();
    signal.removeEventListener('abort', abort);
    this.#wake = () => {};
  }
}
