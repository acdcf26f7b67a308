/** Requests that no connection has room for yet, short ones before watches. Each leaves by being sent, by failing or by its signal. */
import { onAbort } from '../base/abort.ts';

interface Waiter<C> {
  /** Sends; the stream is taken before this returns. */
  readonly go: (connection: C) => void;
  readonly fail: (error: unknown) => void;
}

export class WaitingRequests<C> {
  readonly #short = new Set<Waiter<C>>();
  readonly #long = new Set<Waiter<C>>();

  get size(): number {
    return this.#short.size + this.#long.size;
  }

  get hasWatches(): boolean {
    return this.#long.size > 0;
  }

  /** Resolves when it was sent. */
  wait(isLongLived: boolean, send: (connection: C) => void, signal: AbortSignal): Promise<void> {
    const queue = isLongLived ? this.#long : this.#short;
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        queue.delete(waiter);
        stopListening();
      };
      const waiter: Waiter<C> = {
        go: (connection) => {
          leave();
          try {
            resolve(send(connection));
          } catch (error) {
            reject(error);
          }
        },
        fail: (error) => {
          leave();
          reject(error);
        },
      };
      const stopListening = onAbort(signal, () => waiter.fail(signal.reason));
      queue.add(waiter);
    });
  }

  /** Sends those for which `roomFor` finds a connection. */
  serve(roomFor: (isLongLived: boolean) => C | undefined): void {
    for (const [queue, isLongLived] of [
      [this.#short, false],
      [this.#long, true],
    ] as const) {
      for (const waiter of queue) {
        const connection = roomFor(isLongLived);
        if (connection === undefined) break;
        waiter.go(connection);
      }
    }
  }

  /** All but the first `spared`. */
  fail(error: unknown, spared = 0): void {
    for (const waiter of [...this.#short, ...this.#long].slice(spared)) waiter.fail(error);
  }
}
