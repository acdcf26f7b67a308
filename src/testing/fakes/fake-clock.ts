/** Time for tests: clocks that a test moves, and waiting for everything that needs no time. */
import { onAbort } from '../../base/abort.ts';
import { type Clock, systemClock } from '../../base/clock.ts';

interface Sleeper {
  readonly at: number;
  readonly wake: () => void;
}

/** A clock that moves only when a test says so. */
export class FakeClock implements Clock {
  #now: number;
  #sleepers: Sleeper[] = [];

  constructor(now = Date.UTC(2026, 7, 20, 18, 59, 46)) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const stopListening =
        signal &&
        onAbort(signal, () => {
          this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
          reject(signal.reason);
        });
      const wake = (): void => {
        stopListening?.();
        resolve();
      };
      const sleeper: Sleeper = { at: this.#now + ms, wake };
      this.#sleepers.push(sleeper);
    });
  }

  /** Moves time on and wakes, in order, everyone whose time has come. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      const next = this.#sleepers.filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#sleepers = this.#sleepers.filter((other) => other !== next);
      this.#now = Math.max(this.#now, next.at);
      next.wake();
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.#now = end;
  }
}

/** A fake clock that reports each sleep, so that a test can wait for it and then move time. */
export class ObservedClock extends FakeClock {
  readonly #slept: number[] = [];
  readonly #readers: ((ms: number) => void)[] = [];

  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const sleeping = super.sleep(ms, signal);
    const reader = this.#readers.shift();
    if (reader === undefined) this.#slept.push(ms);
    else reader(ms);
    return sleeping;
  }

  /** The duration of the next sleep that was not yet returned. */
  nextSleep(): Promise<number> {
    const ms = this.#slept.shift();
    return ms === undefined ? new Promise((resolve) => this.#readers.push(resolve)) : Promise.resolve(ms);
  }
}

/** Real time, but faster: for tests with real connections, whose minutes of patience would take minutes. */
export function hastyClock(times: number): Clock {
  const start = systemClock.now();
  return {
    now: () => start + (systemClock.now() - start) * times,
    sleep: (ms, signal) => systemClock.sleep(ms / times, signal),
  };
}

/** Lets everything that waits for no clock come to rest: a few turns of the event loop, in which promises resolve. */
export async function settle(turns = 5): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** What node warns of while a test runs: listeners that look like a leak, above all. */
export async function warningsOf(act: () => Promise<unknown>): Promise<readonly string[]> {
  const warnings: string[] = [];
  const listen = ({ message }: Error): void => void warnings.push(message);
  process.on('warning', listen);
  try {
    await act();
    await settle();
    return warnings;
  } finally {
    process.off('warning', listen);
  }
}
