/**
 * Removes containers that have ended and that nobody asks about any more. Of each name the newest one of a pod stays, so that its
 * end is known and the log of the last one can be read. Whole pods are removed by housekeeping.
 */
import { messageOf } from '../../base/errors.ts';
import type { Runtime, RuntimeContainer, RuntimePod } from '../../runtimes/runtime.ts';
import type { ContainerFiles } from './container-request.ts';

interface DeadContainersDeps {
  readonly runtime: Pick<Runtime, 'removeContainer' | 'stopContainer'>;
  readonly files: Pick<ContainerFiles, 'removeLog'>;
}

const keptMax = 1;
/** The kubelet stops no container with less. */
const unknownGraceMs = 2000;

/** Those that are not needed any more, the oldest first. `containers` has the newest first. */
export function surplusContainers(containers: readonly RuntimeContainer[]): readonly RuntimeContainer[] {
  const kept = new Map<string, number>();
  const names = new Set<string>();
  const surplus = containers.filter(({ name, state }) => {
    const isNewest = !names.has(name);
    names.add(name);
    // One that is about to start is not dead, and does not push out the one whose end is shown.
    if (state.kind === 'running' || (state.kind === 'created' && isNewest)) return false;
    const count = (kept.get(name) ?? 0) + 1;
    kept.set(name, count);
    return count > keptMax;
  });
  return surplus.toReversed();
}

export class DeadContainers {
  readonly #deps: DeadContainersDeps;

  constructor(deps: DeadContainersDeps) {
    this.#deps = deps;
  }

  /** The others are removed whatever becomes of one; then it rejects. */
  async removeSurplus({ containers }: RuntimePod, signal: AbortSignal): Promise<void> {
    const errors: unknown[] = [];
    for (const container of surplusContainers(containers)) {
      try {
        await this.#remove(container, signal);
      } catch (error) {
        signal.throwIfAborted();
        errors.push(error);
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, errors.map(messageOf).join(', '));
  }

  async #remove({ id, state, logPath }: RuntimeContainer, signal: AbortSignal): Promise<void> {
    const { runtime, files } = this.#deps;
    // It may run: the runtime lost track of it.
    if (state.kind === 'unknown') await runtime.stopContainer(id, unknownGraceMs, signal);
    // The log goes first: without its container nobody would find it again.
    await files.removeLog(logPath, signal);
    await runtime.removeContainer(id, signal);
  }
}
