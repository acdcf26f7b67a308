/** Wakes one sleeper. A wake-up while nothing sleeps ends the next sleep at once, so that none is missed between two sleeps. */
import { onAbort } from './abort.ts';
import type { Clock } from './clock.ts';

export class WakeSignal {
  #isAwake = false;
  #resolve: () => void = () => {};

  wake(): void {
    this.#isAwake = true;
    this.#resolve();
  }

  /** Resolves with true after a wake-up, with false after the time or the signal ended the sleep. Infinity: no time limit. */
  async sleep(ms: number, clock: Clock, signal: AbortSignal): Promise<boolean> {
    if (!this.#isAwake && !signal.aborted) await this.#sleep(ms, clock, signal);
    const wasWoken = this.#isAwake;
    this.#isAwake = false;
    return wasWoken;
  }

  async #sleep(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const woken = new Promise<void>((resolve) => (this.#resolve = resolve));
    const stopListening = onAbort(signal, () => this.#resolve());
    const timeout = ms === Infinity ? woken : clock.sleep(ms, over.signal).catch(() => {});
    await Promise.race([woken, timeout]);
    over.abort(); // no timer outlives its purpose
    stopListening();
    this.#resolve = () => {};
  }
}
