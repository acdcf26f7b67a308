/** How long to wait before the next attempt: the delay doubles with every failure, up to a limit. */
import type { Clock } from './clock.ts';

interface BackOffSettings {
  readonly firstMs: number;
  readonly msMax: number;
  /**
   * Spreads each delay evenly over [delay, delay × (1 + spread)), so that those who failed together do not try again
   * together. Absent: exact delays.
   */
  readonly jitter?: { readonly spread: number; readonly random: () => number };
}

export class BackOff {
  readonly #settings: BackOffSettings;
  #lastMs = 0;

  constructor(settings: BackOffSettings) {
    this.#settings = settings;
  }

  /** The last delay before jitter; 0 if there was no failure since the start or the last success. */
  get lastMs(): number {
    return this.#lastMs;
  }

  /** Counts a failure and returns the delay after it. */
  next(): number {
    const { firstMs, msMax, jitter } = this.#settings;
    this.#lastMs = this.#lastMs === 0 ? firstMs : Math.min(this.#lastMs * 2, msMax);
    return jitter === undefined ? this.#lastMs : jittered(this.#lastMs, jitter.spread, jitter.random);
  }

  /** After a success the next failure has the first delay again. */
  reset(): void {
    this.#lastMs = 0;
  }
}

/** The delay after so many failures in a row, where nothing is kept from one to the next. */
export function delayAfter(failures: number, { firstMs, msMax }: BackOffSettings): number {
  return failures === 0 ? 0 : Math.min(firstMs * 2 ** (failures - 1), msMax);
}

/** Evenly distributed over [ms, ms × (1 + spread)). */
export function jittered(ms: number, spread: number, random: () => number): number {
  return ms * (1 + spread * random());
}

/** One back-off for each key. An entry exists from a key's first failure until `reset`. */
export class KeyedBackOff<Key> {
  readonly #settings: BackOffSettings;
  readonly #backOffs = new Map<Key, BackOff>();

  constructor(settings: BackOffSettings) {
    this.#settings = settings;
  }

  next(key: Key): number {
    let backOff = this.#backOffs.get(key);
    if (backOff === undefined) this.#backOffs.set(key, (backOff = new BackOff(this.#settings)));
    return backOff.next();
  }

  reset(key: Key): void {
    this.#backOffs.delete(key);
  }
}

interface FailureEntry {
  readonly backOff: BackOff;
  readonly updatedAtMs: number;
}

/** Delays that double with every failure of the same thing, and start over when it has not failed for long. */
export class FailureBackOff {
  readonly #initialMs: number;
  readonly #delayMsMax: number;
  readonly #clock: Clock;
  readonly #entries = new Map<string, FailureEntry>();

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

  /** Counts a failure, so that the next wait is longer. */
  next(key: string, failedAtMs: number): void {
    const before = this.#entries.get(key);
    const isNew = before === undefined || this.#isStale(before, failedAtMs);
    const backOff = isNew ? new BackOff({ firstMs: this.#initialMs, msMax: this.#delayMsMax }) : before.backOff;
    backOff.next();
    this.#entries.set(key, { backOff, updatedAtMs: this.#clock.now() });
  }

  /** Drops what can have no effect any more; called by housekeeping, so the number of entries has a bound. */
  collectGarbage(): void {
    const now = this.#clock.now();
    for (const [key, entry] of this.#entries) if (this.#isStale(entry, now)) this.#entries.delete(key);
  }

  #isStale({ updatedAtMs }: FailureEntry, atMs: number): boolean {
    return atMs - updatedAtMs > 2 * this.#delayMsMax;
  }
}
