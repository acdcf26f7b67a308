/** Admits a limited number of tasks at once; the others wait in order. With one permit it is a lock. */
import { onAbort } from './abort.ts';

export class Semaphore {
  readonly #permits: number;
  readonly #waiting = new Set<() => void>();
  #held = 0;

  constructor(permits: number) {
    this.#permits = permits;
  }

  /** Resolves to the function that releases the permit; releasing twice does no harm. An abort leaves the queue. */
  async acquire(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#held >= this.#permits) await this.#turn(signal);
    else this.#held += 1;
    let isHeld = true;
    return () => {
      if (isHeld) this.#release();
      isHeld = false;
    };
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const proceed = (): void => {
        stopListening();
        resolve();
      };
      const stopListening = onAbort(signal, () => {
        this.#waiting.delete(proceed);
        reject(signal.reason);
      });
      this.#waiting.add(proceed);
    });
  }

  /** Passes the permit to the next in line, so that no newcomer can slip in between. */
  #release(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#held -= 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
