/**
 * Who waits for whom when a pod ends: containers and init containers go at once, a sidecar when all of them and all
 * sidecars after it are gone, because they may need it until then.
 */
import type { Clock } from '../../base/clock.ts';
import { isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';

interface Ended {
  readonly promise: Promise<void>;
  resolve: () => void;
}

export class TerminationOrder {
  readonly #ended = new Map<string, Ended>();
  readonly #predecessors = new Map<string, readonly string[]>();

  constructor({ spec }: Pod, running: Iterable<string>) {
    for (const name of running) {
      const entry: { promise: Promise<void>; resolve: () => void } = { promise: Promise.resolve(), resolve: () => {} };
      entry.promise = new Promise((resolve) => (entry.resolve = resolve));
      this.#ended.set(name, entry);
    }
    const { initContainers = [], containers } = spec;
    for (const [index, container] of initContainers.entries()) {
      if (!isSidecar(container)) continue;
      const later = initContainers.slice(index + 1).filter(isSidecar);
      this.#predecessors.set(
        container.name,
        [...containers, ...later].map(({ name }) => name),
      );
    }
  }

  ended(name: string): void {
    this.#ended.get(name)?.resolve();
  }

  /** Answers how long it took; gives up after `msMax`. */
  async wait(name: string, msMax: number, clock: Clock, signal: AbortSignal): Promise<number> {
    const waiting = (this.#predecessors.get(name) ?? []).flatMap((other) => this.#ended.get(other)?.promise ?? []);
    if (waiting.length === 0) return 0;
    const startMs = clock.now();
    const stop = new AbortController();
    const timeout = clock.sleep(msMax, AbortSignal.any([signal, stop.signal])).catch(() => {});
    await Promise.race([Promise.all(waiting), timeout]);
    stop.abort();
    signal.throwIfAborted();
    return clock.now() - startMs;
  }
}
