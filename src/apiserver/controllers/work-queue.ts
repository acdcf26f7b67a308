/**
 * Keys that need a look, each once however often it was touched, and never two looks at the same key at once. A look that fails
 * is repeated, each time after a longer pause.
 *
 *   touched ──▶ waiting ──▶ looked at ──▶ (forgotten)
 *                  ▲            │ touched meanwhile, or failed and paused
 *                  └────────────┘
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import type { Notify } from '../model/notices.ts';

interface QueueDeps {
  readonly clock: Clock;
  readonly notify: Notify;
}

const pauseMsMin = 10;
// Long enough to be no load, short enough that nobody has to restart anything after a full disk was cleared.
const pauseMsMax = 30_000;
// Looks wait for the disk most of the time; some of them together share a commit.
const parallelMax = 16;

export class WorkQueue {
  readonly #controller: string;
  readonly #deps: QueueDeps;
  readonly #waiting = new Set<string>();
  readonly #active = new Set<string>();
  readonly #failures = new Map<string, number>();
  #wake: () => void = () => {};

  constructor(controller: string, deps: QueueDeps) {
    this.#controller = controller;
    this.#deps = deps;
  }

  touch(key: string): void {
    this.#waiting.add(key);
    this.#wake();
  }

  /** Lives until the signal aborts and what was begun has ended. */
  async run(look: (key: string) => Promise<void>, signal: AbortSignal): Promise<void> {
    const looks = new Set<Promise<void>>();
    const onAbort = (): void => this.#wake();
    signal.addEventListener('abort', onAbort, { once: true });
    while (!signal.aborted) {
      const ready = this.#ready();
      for (const key of ready) {
        this.#waiting.delete(key);
        this.#active.add(key);
        const done = this.#lookAt(key, look, signal).finally(() => {
          looks.delete(done);
          this.#active.delete(key);
          this.#wake();
        });
        looks.add(done);
      }
      if (ready.length > 0) continue;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    signal.removeEventListener('abort', onAbort);
    await Promise.all(looks);
  }

  #ready(): string[] {
    const free = parallelMax - this.#active.size;
    const ready: string[] = [];
    for (const key of this.#waiting) {
      if (ready.length >= free) break;
      if (!this.#active.has(key)) ready.push(key);
    }
    return ready;
  }

  async #lookAt(key: string, look: (key: string) => Promise<void>, signal: AbortSignal): Promise<void> {
    const { clock, notify } = this.#deps;
    try {
      // In a turn of its own: the one that told of a large object has parsed it for several followers already.
      await nextTurn();
      await look(key);
      this.#failures.delete(key);
    } catch (error) {
      if (signal.aborted) return;
      const failures = (this.#failures.get(key) ?? 0) + 1;
      this.#failures.set(key, failures);
      notify({ kind: 'ControllerFailed', controller: this.#controller, object: key, error });
      await clock.sleep(Math.min(pauseMsMin * 2 ** failures, pauseMsMax), signal).catch(() => {});
      this.#waiting.add(key);
    }
  }
}
