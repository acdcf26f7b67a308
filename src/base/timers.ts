/**
 * Many timers on one timer of Node's. Cancelling costs nothing, so that everything can have a deadline, even what almost
 * always ends long before it.
 */
import { onAbort } from './abort.ts';
import type { Clock } from './clock.ts';

export interface Timer {
  /** Cancelling twice, or after it fired, does no harm. */
  cancel(): void;
}

interface Entry {
  at: number;
  /** Undefined once it was cancelled or fired. */
  fire: (() => void) | undefined;
}

export class Timers {
  readonly #clock: Clock;
  /** A heap: no entry fires before its parent, which is at half its index. The first fires next. */
  #heap: Entry[] = [];
  #cancelled = 0;
  #wake: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Fires once, at this time or as soon after it as the process gets to it. */
  at(time: number, fire: () => void): Timer {
    const entry: Entry = { at: time, fire };
    this.#push(entry);
    if (this.#heap[0] === entry) this.#wake();
    return {
      cancel: () => {
        if (entry.fire === undefined) return;
        entry.fire = undefined;
        this.#cancelled += 1;
        if (this.#cancelled * 2 > this.#heap.length) this.#dropCancelled();
      },
    };
  }

  after(ms: number, fire: () => void): Timer {
    return this.at(this.#clock.now() + ms, fire);
  }

  /** Nothing fires unless this runs. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const next = this.#heap[0];
      if (next !== undefined && next.at <= this.#clock.now()) {
        this.#pop();
        const { fire } = next;
        next.fire = undefined;
        if (fire === undefined) this.#cancelled -= 1;
        else fire();
      } else await this.#sleep(next, signal);
    }
  }

  /** Fires all that are set, before their time: nothing is left undone at the end. */
  fireAll(): void {
    this.#cancelled = 0;
    for (const entry of this.#heap.splice(0)) {
      const { fire } = entry;
      entry.fire = undefined;
      fire?.();
    }
  }

  /** Until the next timer is due, an earlier one was set, or the signal aborts. */
  async #sleep(next: Entry | undefined, signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    const stopListening = onAbort(signal, this.#wake);
    const before = this.#clock.now();
    const ms = next === undefined ? sleepMsMax : Math.min(sleepMsMax, next.at - before);
    try {
      await this.#clock.sleep(ms, woken.signal);
      this.#follow(this.#clock.now() - before - ms);
    } catch (thrown) {
      if (!woken.signal.aborted) throw thrown;
    } finally {
      this.#wake = () => {};
      stopListening();
    }
  }

  /** If the clock was set back, timers are not extended. */
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
    this.#heap = this.#heap.filter(({ fire }) => fire !== undefined).sort((a, b) => a.at - b.at);
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

/** Node's timers fire a little early now and then. */
const driftMsMax = 100;
/** Node's timers overflow after about 24 days. */
const sleepMsMax = 24 * 60 * 60 * 1000;
