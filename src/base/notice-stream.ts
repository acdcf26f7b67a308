/**
 * Facts for logs, metrics and Events, from many emitters to many readers. A subscriber is called at once and misses nothing.
 * A follower reads in its own time; when it falls behind by more than its limit it loses the oldest notices, which are counted.
 * Neither can hold up or fail the emitter's own work: a subscriber must not throw.
 */
import { onAbort } from './abort.ts';

interface Following<Notice> extends AsyncIterable<Notice> {
  /** How many notices it has lost so far. */
  readonly dropped: number;
}

/** About a minute of a busy node. */
const pendingMax = 1_000;

export class NoticeStream<Notice> {
  readonly #subscribers = new Set<(notice: Notice) => void>();
  readonly #followers = new Set<Follower<Notice>>();

  emit(notice: Notice): void {
    for (const subscriber of this.#subscribers) subscriber(notice);
    for (const follower of this.#followers) follower.add(notice);
  }

  /** Returns how to unsubscribe. */
  subscribe(subscriber: (notice: Notice) => void): () => void {
    this.#subscribers.add(subscriber);
    return () => void this.#subscribers.delete(subscriber);
  }

  /** For one reader. Follows from this call on until the signal aborts; what it has by then can still be read. */
  follow(signal: AbortSignal, limit = pendingMax): Following<Notice> {
    const follower = new Follower<Notice>(limit, signal);
    if (!signal.aborted) {
      this.#followers.add(follower);
      follower.stopListening = onAbort(signal, () => {
        this.#followers.delete(follower);
        follower.wake();
      });
    }
    follower.ended = () => this.#followers.delete(follower);
    return follower;
  }
}

class Follower<Notice> implements Following<Notice> {
  dropped = 0;
  wake: () => void = () => {};
  stopListening: () => void = () => {};
  ended: () => void = () => {};
  readonly #limit: number;
  readonly #signal: AbortSignal;
  readonly #pending: Notice[] = [];

  constructor(limit: number, signal: AbortSignal) {
    this.#limit = limit;
    this.#signal = signal;
  }

  add(notice: Notice): void {
    if (this.#pending.push(notice) > this.#limit) {
      this.#pending.shift();
      this.dropped += 1;
    }
    this.wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Notice> {
    try {
      for (;;) {
        while (this.#pending.length > 0) yield this.#pending.shift() as Notice;
        if (this.#signal.aborted) return;
        await new Promise<void>((resolve) => (this.wake = resolve));
      }
    } finally {
      this.stopListening();
      this.ended();
    }
  }
}
