/**
 * Lets a limited number of tasks be inside at once; the others wait in the order they came. With a limit of one it is a
 * lock. Whoever gives up waiting leaves the queue and blocks nobody.
 */
import { onAbort } from './on-abort.ts';

export class Turnstile {
  readonly #insideMax: number;
  readonly #waiting = new Set<() => void>();
  #inside = 0;

  constructor(insideMax: number) {
    this.#insideMax = insideMax;
  }

  /** Resolves, once there is room, to the function that leaves again; calling that twice does no harm. */
  async enter(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#inside >= this.#insideMax) await this.#turn(signal);
    else this.#inside += 1;
    let isInside = true;
    return () => {
      if (isInside) this.#leave();
      isInside = false;
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

  /** Hands the place to the next in line, so that no newcomer can slip in between. */
  #leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#inside -= 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
