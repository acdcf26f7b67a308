/**
 * Many points in time, one timer: whoever wants to be called later says when. Calling off an alarm costs nothing, so a
 * deadline can be set for everything, also for what is over long before it.
 */
import type { Clock } from './clock.ts';

export interface Alarm {
  /** After this it does not ring any more; calling it off twice, or after it rang, does no harm. */
  cancel(): void;
}

interface Entry {
  at: number;
  /** Undefined once it was called off or rang. */
  ring: (() => void) | undefined;
}

export class Alarms {
  readonly #clock: Clock;
  /** A heap: no entry rings before its parent, which is at half its index. The first place is the next to ring. */
  #heap: Entry[] = [];
  #cancelled = 0;
  #wake: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Rings once, at this time or as soon after it as the process gets to it. */
  at(time: number, ring: () => void): Alarm {
    const entry: Entry = { at: time, ring };
    this.#push(entry);
    if (this.#heap[0] === entry) this.#wake();
    return {
      cancel: () => {
        if (entry.ring === undefined) return;
        entry.ring = undefined;
        this.#cancelled += 1;
        if (this.#cancelled * 2 > this.#heap.length) this.#dropCancelled();
      },
    };
  }

  after(ms: number, ring: () => void): Alarm {
    return this.at(this.#clock.now() + ms, ring);
  }

  /** Nothing rings unless this runs. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const next = this.#heap[0];
      if (next !== undefined && next.at <= this.#clock.now()) {
        this.#pop();
        const { ring } = next;
        next.ring = undefined;
        if (ring === undefined) this.#cancelled -= 1;
        else ring();
      } else await this.#rest(next, signal);
    }
  }

  /** Rings all that are set, before their time: for whoever has to end and leave nothing undone. */
  ringAll(): void {
    this.#cancelled = 0;
    for (const entry of this.#heap.splice(0)) {
      const { ring } = entry;
      entry.ring = undefined;
      ring?.();
    }
  }

  /** Until the next alarm is due, an earlier one was set, or the signal aborts. */
  async #rest(next: Entry | undefined, signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    const wake = (): void => woken.abort();
    this.#wake = wake;
    signal.addEventListener('abort', wake, { once: true });
    const before = this.#clock.now();
    const ms = next === undefined ? restMsMax : Math.min(restMsMax, next.at - before);
    try {
      await this.#clock.sleep(ms, woken.signal);
      this.#follow(this.#clock.now() - before - ms);
    } catch (thrown) {
      if (!woken.signal.aborted) throw thrown;
    } finally {
      this.#wake = () => {};
      signal.removeEventListener('abort', wake);
    }
  }

  /** A clock that was set back must not make anybody wait for the time that comes twice. */
  #follow(driftMs: number): void {
    if (driftMs < -driftMsMax) for (const entry of this.#heap) entry.at += driftMs;
  }

  #push(entry: Entry): void {
    this.#heap.push(entry);
    this.#rise(this.#heap.length - 1);
  }

  #pop(): void {
    const last = this.#heap.pop();
    if (last === undefined || this.#heap.length === 0) return;
    this.#heap[0] = last;
    this.#sink(0);
  }

  #dropCancelled(): void {
    this.#heap = this.#heap.filter(({ ring }) => ring !== undefined).sort((a, b) => a.at - b.at);
    this.#cancelled = 0;
  }

  #rise(start: number): void {
    for (let index = start; index > 0;) {
      const parent = (index - 1) >> 1;
      if (!this.#swapIfLater(parent, index)) return;
      index = parent;
    }
  }

  #sink(start: number): void {
    for (let index = start; ;) {
      const left = 2 * index + 1;
      const right = left + 1;
      const first = (this.#heap[right]?.at ?? Infinity) < (this.#heap[left]?.at ?? Infinity) ? right : left;
      if (first >= this.#heap.length || !this.#swapIfLater(index, first)) return;
      index = first;
    }
  }

  #swapIfLater(parent: number, child: number): boolean {
    const [above, below] = [this.#heap[parent], this.#heap[child]];
    if (above === undefined || below === undefined || above.at <= below.at) return false;
    this.#heap[parent] = below;
    this.#heap[child] = above;
    return true;
  }
}

/** Timers end a little early now and then. */
const driftMsMax = 100;
/** The longest sleep that a timer of Node.js can do is about 24 days. */
const restMsMax = 24 * 60 * 60 * 1000;
