/**
 * Tells every listener what has changed. A listener that is slow loses nothing and costs little: of a thing that changes again
 * before its notice was taken, only one notice waits, so no queue outgrows the number of things.
 */
import { onAbort } from '../base/on-abort.ts';

interface Listener<T> {
  readonly pending: Map<string, T>;
  wake: () => void;
  stopListening: () => void;
}

export class ChangeFeed<T> {
  readonly #listeners = new Set<Listener<T>>();

  publish(key: string, value: T): void {
    for (const listener of this.#listeners) {
      listener.pending.set(key, value);
      listener.wake();
    }
  }

  /** Listening starts now, not when the first change is asked for. */
  changes(signal: AbortSignal): AsyncIterable<T> {
    const listener: Listener<T> = { pending: new Map(), wake: () => {}, stopListening: () => {} };
    if (!signal.aborted) this.#listeners.add(listener);
    listener.stopListening = onAbort(signal, () => {
      this.#listeners.delete(listener);
      listener.wake();
    });
    return this.#drain(listener, signal);
  }

  async *#drain(listener: Listener<T>, signal: AbortSignal): AsyncGenerator<T> {
    const { pending } = listener;
    try {
      while (!signal.aborted) {
        for (const [key, value] of pending) {
          pending.delete(key);
          yield value;
          if (signal.aborted) return;
        }
        // Nothing ran between the last look at `pending` and here, so no notice can have come in unseen.
        await new Promise<void>((resolve) => (listener.wake = resolve));
      }
    } finally {
      listener.stopListening();
      this.#listeners.delete(listener);
    }
  }
}
