/** A map that forgets what was not used for longest once it holds too much. */
export class RecentlyUsed<K, V> {
  readonly #entriesMax: number;
  readonly #entries = new Map<K, V>();

  constructor(entriesMax: number) {
    this.#entriesMax = entriesMax;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Counts as a use. */
  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  set(key: K, value: V): void {
    // A map keeps the order of insertion: what is put in again stands last.
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#entriesMax) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }
}
