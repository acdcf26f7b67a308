/**
 * Keys that need a look, each once however often it was touched, and never two looks at the same key at once. A look that fails
 * is repeated, each time after a longer pause.
 *
 *   touched ──▶ waiting ──▶ looked at ──▶ (forgotten)
 *                  ▲            │ touched meanwhile, or failed and paused
 *                  └────────────┘
 */
import { nextTurn } from '../../base/turns.ts';
import type { ControllerDeps } from './cluster.ts';
import { KeyedBackOff } from '../../base/back-off.ts';
import { CoalescingQueue } from '../../base/coalescing-queue.ts';
import { type Timer, Timers } from '../../base/timers.ts';
import { Semaphore } from '../../base/semaphore.ts';

type QueueDeps = Pick<ControllerDeps, 'clock' | 'notify'>;

// Long enough to be no load, short enough that nothing has to be restarted after a full disk was cleared.
const retries = { firstMs: 20, msMax: 30_000 };
// Looks wait for the disk most of the time; some of them together share a commit.
const parallelDefault = 16;

export class WorkQueue {
  readonly #controller: string;
  readonly #deps: QueueDeps;
  readonly #parallelMax: number;
  readonly #queue = new CoalescingQueue<string>();
  readonly #active = new Set<string>();
  /** Active ones that need another look. */
  readonly #again = new Set<string>();
  readonly #timers: Timers;
  readonly #appointments = new Map<string, Timer>();
  readonly #retries = new KeyedBackOff<string>(retries);

  constructor(controller: string, deps: QueueDeps, parallelMax = parallelDefault) {
    this.#controller = controller;
    this.#deps = deps;
    this.#parallelMax = parallelMax;
    this.#timers = new Timers(deps.clock);
  }

  touch(key: string): void {
    this.#queue.add(key);
  }

  /** At this time, in place of an earlier time that was set for the key. */
  touchAt(key: string, timeMs: number): void {
    this.#appointments.get(key)?.cancel();
    const fire = (): void => {
      this.#appointments.delete(key);
      this.touch(key);
    };
    this.#appointments.set(key, this.#timers.at(timeMs, fire));
  }

  /** Lives until the signal aborts and what was begun has ended. */
  async run(look: (key: string) => Promise<void>, signal: AbortSignal): Promise<void> {
    await Promise.all([this.#timers.run(signal), this.#lookAtAll(look, signal)]);
  }

  async #lookAtAll(look: (key: string) => Promise<void>, signal: AbortSignal): Promise<void> {
    const looks = new Set<Promise<void>>();
    const slots = new Semaphore(this.#parallelMax);
    for await (const key of this.#queue.take(signal)) {
      if (this.#active.has(key)) {
        this.#again.add(key);
        continue;
      }
      const release = await slots.acquire(signal).catch(() => undefined);
      if (release === undefined) break;
      this.#active.add(key);
      const done = this.#lookAt(key, look, release, signal).finally(() => {
        looks.delete(done);
        this.#active.delete(key);
        if (this.#again.delete(key)) this.#queue.add(key);
      });
      looks.add(done);
    }
    await Promise.all(looks);
  }

  /** A failed look waits for its next try without a slot: the keys that fail for ever must not stop the others. */
  async #lookAt(
    key: string,
    look: (key: string) => Promise<void>,
    release: () => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, notify } = this.#deps;
    try {
      // In a turn of its own: the one that reported a large object has parsed it for several watchers already.
      await nextTurn();
      await look(key).finally(release);
      this.#retries.reset(key);
    } catch (error) {
      if (signal.aborted) return;
      notify({ kind: 'ControllerFailed', controller: this.#controller, object: key, error });
      await clock.sleep(this.#retries.next(key), signal).catch(() => {});
      this.#again.add(key);
    }
  }
}
