/** How fast we may ask. Tokens come at a steady rate and are saved up to a burst; whoever finds none waits for its own. */
import type { Clock } from '../base/clock.ts';

export interface RateLimit {
  readonly perSecond: number;
  readonly burst: number;
}

export class TokenBucket {
  readonly #clock: Clock;
  readonly #limit: RateLimit;
  #tokens: number;
  #countedAt: number;

  constructor(clock: Clock, limit: RateLimit) {
    this.#clock = clock;
    this.#limit = limit;
    this.#tokens = limit.burst;
    this.#countedAt = clock.now();
  }

  /** In the order of the calls. Of one that is aborted the token goes back, to those who come later: who waits keeps its time. */
  async take(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { perSecond, burst } = this.#limit;
    if (perSecond === Infinity) return;
    const now = this.#clock.now();
    // A clock that was set back earns nothing and costs nothing.
    const earned = (Math.max(0, now - this.#countedAt) / 1000) * perSecond;
    this.#tokens = Math.min(burst, this.#tokens + earned) - 1;
    this.#countedAt = now;
    if (this.#tokens >= 0) return;
    try {
      await this.#clock.sleep((-this.#tokens / perSecond) * 1000, signal);
    } catch (error) {
      this.#tokens += 1;
      throw error;
    }
  }
}
