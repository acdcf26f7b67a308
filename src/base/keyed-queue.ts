/** Keys that need work, each once however often it is added, in the order in which they came. */
export class KeyedQueue<Key> {
  readonly #keys = new Set<Key>();
  #wake: () => void = () => {};
  #drained: (() => void)[] = [];

  /** A key that is taken and added again comes again. */
  add(key: Key): void {
    this.#keys.add(key);
    this.#wake();
  }

  get size(): number {
    return this.#keys.size;
  }

  /** For one taker. Ends when the signal aborts. */
  async *take(signal: AbortSignal): AsyncGenerator<Key, void> {
    const abort = (): void => this.#wake();
    signal.addEventListener('abort', abort);
    try {
      while (!signal.aborted) {
        for (const key of this.#keys) {
          this.#keys.delete(key);
          yield key;
          if (signal.aborted) return;
        }
        for (const resolve of this.#drained.splice(0)) resolve();
        // Nothing ran between the last look at the keys and here, so none can have come in unseen.
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      signal.removeEventListener('abort', abort);
      for (const resolve of this.#drained.splice(0)) resolve();
    }
  }

  /** Resolves when the taker has come to the end of the queue, or stops. */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#drained.push(resolve);
      this.#wake();
    });
  }
}
