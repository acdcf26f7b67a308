/** How long a reflector waits before it tries again: longer each time, and from the start again after things went well for a while. */
import { BackOff } from '../base/back-off.ts';
import type { Clock, Pause, Pausing } from '../base/clock.ts';
import { pauseOf } from '../base/clock.ts';

/** The kubelet's numbers: after a minute of failures, one attempt every 30 to 60 s. */
const retries = { firstMs: 800, msMax: 30_000 };
const resetAfterMs = 120_000;
/** A server that answers a list and ends the watch at once is not asked in a tight loop. */
const steadyMs = 10_000;

export class RestartDelay {
  readonly #clock: Clock;
  readonly #backOff: BackOff;
  #resetAt: number;
  #workedAt: number | undefined;
  readonly #pause: Pause;

  constructor({ clock, pause, random }: Pausing & { readonly random: () => number }) {
    this.#clock = clock;
    this.#pause = pauseOf({ clock, pause });
    // Spread over twice the time, because all nodes lose the server at the same moment.
    this.#backOff = new BackOff({ ...retries, jitter: { spread: 1, random } });
    this.#resetAt = clock.now();
  }

  /** `atLeastMs` is what the server asked for. */
  async wait(signal: AbortSignal, atLeastMs = 0): Promise<void> {
    await this.#pause(Math.max(this.next(), atLeastMs), signal);
  }

  /** The server has answered. */
  worked(): void {
    this.#workedAt = this.#clock.now();
  }

  next(): number {
    const now = this.#clock.now();
    const hasWorked = this.#workedAt !== undefined && now - this.#workedAt >= steadyMs;
    this.#workedAt = undefined;
    if (hasWorked || now - this.#resetAt > resetAfterMs) {
      this.#backOff.reset();
      this.#resetAt = now;
    }
    return this.#backOff.next();
  }
}
