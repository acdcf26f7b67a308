/** How long to wait before the next attempt: the delay doubles with every failure, up to a limit. */
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
