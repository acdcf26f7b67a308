/** Where time comes from. Nothing else in mountlet asks the system for it, so that tests decide what time it is. */
import { onAbort } from './abort.ts';

export interface Clock {
  /** Milliseconds since the epoch, as `Date.now()`. */
  now(): number;
  /** Resolves after `ms`, or rejects with the signal's reason when it aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const timer = setTimeout(() => {
        stopListening?.();
        resolve();
      }, ms);
      const stopListening =
        signal &&
        onAbort(signal, () => {
          clearTimeout(timer);
          reject(signal.reason);
        });
    }),
};

/** Waits before something is tried again: for this long, or less when there is a reason to try it now. */
export type Pause = (ms: number, signal: AbortSignal) => Promise<void>;

export interface Pausing {
  readonly clock: Clock;
  /** Absent: it always takes the whole time. */
  readonly pause?: Pause | undefined;
}

export function pauseOf({ clock, pause }: Pausing): Pause {
  return pause ?? ((ms, signal) => clock.sleep(ms, signal));
}
