/** How fast we may ask. Tokens come at a steady rate and are saved up to a burst; a request that finds none waits for its own. */
import type { Clock } from './clock.ts';

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
    const { perSecond } = this.#limit;
    if (perSecond === Infinity) return;
    this.#earn();
    this.#tokens -= 1;
    if (this.#tokens >= 0) return;
    try {
      await this.#clock.sleep((-this.#tokens / perSecond) * 1000, signal);
    } catch (error) {
      this.#tokens += 1;
      throw error;
    }
  }

  /** For those who would rather go without than wait. */
  tryTake(): boolean {
    if (this.#limit.perSecond === Infinity) return true;
    this.#earn();
    // Tokens come in fractions, whose sum may fall a hair short of the whole.
    if (this.#tokens < 1 - 1e-9) return false;
    this.#tokens -= 1;
    return true;
  }

  #earn(): void {
    const { perSecond, burst } = this.#limit;
    const now = this.#clock.now();
    // A clock that was set back earns nothing and costs nothing.
    const earned = (Math.max(0, now - this.#countedAt) / 1000) * perSecond;
    this.#tokens = Math.min(burst, this.#tokens + earned);
    this.#countedAt = now;
  }
}
