/** A map that remembers what was used last and forgets what was not used for longest. */
export class RecentMap<K, V> {
  readonly #sizeMax: number;
  readonly #entries = new Map<K, V>();

  constructor(sizeMax: number) {
    this.#sizeMax = sizeMax;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Looking is using. */
  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value !== undefined) this.#putLast(key, value);
    return value;
  }

  set(key: K, value: V): void {
    this.#putLast(key, value);
    if (this.#entries.size <= this.#sizeMax) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }

  /** A Map lists its keys in the order they came in, so that coming in again is what makes one the youngest. */
  #putLast(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
  }
}
