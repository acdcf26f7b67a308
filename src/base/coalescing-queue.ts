/**
 * Work that is queued once however often it is added before it is taken. No queue outgrows the number of distinct keys,
 * however slow its taker is.
 */
import { onAbort } from './abort.ts';

export class CoalescingQueue<Item> {
  readonly #keyOf: (item: Item) => unknown;
  readonly #pending = new Map<unknown, Item>();
  #wake: () => void = () => {};
  #drained: (() => void)[] = [];

  /** Of items with equal keys only the newest waits. By default an item is its own key. */
  constructor(keyOf: (item: Item) => unknown = (item) => item) {
    this.#keyOf = keyOf;
  }

  get size(): number {
    return this.#pending.size;
  }

  /** An item that replaces one with the same key keeps its place. Items come in the order in which they were first added. */
  add(item: Item): void {
    this.#pending.set(this.#keyOf(item), item);
    this.#wake();
  }

  /** For one taker. Ends when the signal aborts; what is left stays in the queue. */
  async *take(signal: AbortSignal): AsyncGenerator<Item, void> {
    const stopListening = onAbort(signal, () => this.#wake());
    try {
      while (!signal.aborted) {
        for (const [key, item] of this.#pending) {
          this.#pending.delete(key);
          yield item;
          if (signal.aborted) return;
        }
        this.#resolveDrained();
        // Nothing ran since the loop over the items ended, so none can have come in unseen.
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      stopListening();
      this.#resolveDrained();
    }
  }

  /** Resolves when the taker has come to the end of the queue, or stops. */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#drained.push(resolve);
      this.#wake();
    });
  }

  #resolveDrained(): void {
    for (const resolve of this.#drained.splice(0)) resolve();
  }
}

/** The same for any number of followers, each with a queue of its own. */
export class CoalescingTopic<Item> {
  readonly #keyOf: ((item: Item) => unknown) | undefined;
  readonly #followers = new Set<CoalescingQueue<Item>>();

  constructor(keyOf?: (item: Item) => unknown) {
    this.#keyOf = keyOf;
  }

  publish(item: Item): void {
    for (const queue of this.#followers) queue.add(item);
  }

  /** Follows from this call on, not from the first item that is asked for. */
  follow(signal: AbortSignal): AsyncIterable<Item> {
    const queue = new CoalescingQueue(this.#keyOf);
    if (!signal.aborted) this.#followers.add(queue);
    const stopListening = onAbort(signal, () => this.#followers.delete(queue));
    return this.#take(queue, stopListening, signal);
  }

  async *#take(queue: CoalescingQueue<Item>, stopListening: () => void, signal: AbortSignal): AsyncGenerator<Item> {
    try {
      yield* queue.take(signal);
    } finally {
      stopListening();
      this.#followers.delete(queue);
    }
  }
}
