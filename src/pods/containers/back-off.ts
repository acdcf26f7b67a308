/** Delays that double with every failure of the same thing and are forgotten when it has been well for long. */
import { BackOff } from '../../base/back-off.ts';
import type { Clock } from '../../base/clock.ts';

interface Entry {
  readonly backOff: BackOff;
  readonly updatedAtMs: number;
}

export class FailureBackOff {
  readonly #initialMs: number;
  readonly #delayMsMax: number;
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry>();

  constructor(initialMs: number, delayMsMax: number, clock: Clock) {
    this.#initialMs = initialMs;
    this.#delayMsMax = delayMsMax;
    this.#clock = clock;
  }

  /** When the wait ends for what failed at `failedAtMs`; undefined if there is nothing to wait for. */
  until(key: string, failedAtMs: number): number | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || this.#isStale(entry, failedAtMs)) return undefined;
    const untilMs = failedAtMs + entry.backOff.lastMs;
    return this.#clock.now() < untilMs ? untilMs : undefined;
  }

  delayMsOf(key: string): number {
    return this.#entries.get(key)?.backOff.lastMs ?? 0;
  }

  /** Counts a try, so that the next failure waits longer. The first one has nothing to wait for yet. */
  next(key: string, failedAtMs: number): void {
    const before = this.#entries.get(key);
    const isNew = before === undefined || this.#isStale(before, failedAtMs);
    const backOff = isNew ? new BackOff({ firstMs: this.#initialMs, msMax: this.#delayMsMax }) : before.backOff;
    backOff.next();
    this.#entries.set(key, { backOff, updatedAtMs: this.#clock.now() });
  }

  forget(key: string): void {
    this.#entries.delete(key);
  }

  /** Drops what can have no effect any more; called by housekeeping, so the number of entries has a bound. */
  collectGarbage(): void {
    const now = this.#clock.now();
    for (const [key, entry] of this.#entries) if (this.#isStale(entry, now)) this.#entries.delete(key);
  }

  #isStale({ updatedAtMs }: Entry, atMs: number): boolean {
    return atMs - updatedAtMs > 2 * this.#delayMsMax;
  }
}
