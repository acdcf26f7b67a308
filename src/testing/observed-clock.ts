import { FakeClock } from './fake-clock.ts';

/** A fake clock that tells who goes to sleep, so that a test can wait for that and then move time. */
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

  /** How long the next one wants to sleep, that nobody asked about yet. */
  nextSleep(): Promise<number> {
    const ms = this.#slept.shift();
    return ms === undefined ? new Promise((resolve) => this.#readers.push(resolve)) : Promise.resolve(ms);
  }
}
