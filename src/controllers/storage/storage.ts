/** The loops of storage, on one view of it. */
import { runTogether } from '../../base/run-task.ts';
import type { ControllerDeps } from '../cluster/cluster.ts';
import { StorageView } from './storage-view.ts';

/** It follows the view before it waits for anything. */
export type StorageLoop<Deps = ControllerDeps> = (deps: Deps, view: StorageView, signal: AbortSignal) => Promise<void>;

/** `hasPods`: some of them have to know which pods use claims. */
export async function runStorage<Deps extends ControllerDeps>(
  deps: Deps,
  loops: readonly StorageLoop<Deps>[],
  hasPods: boolean,
  signal: AbortSignal,
): Promise<void> {
  const view = new StorageView(deps.clusterFor('storage', signal), hasPods);
  let stop = (): void => {};
  try {
    await runTogether(
      [
        ...loops.map((loop) => (until: AbortSignal) => loop(deps, view, until)),
        // All of them follow by now: what is there already is reported to each.
        async () => void (stop = await view.start()),
      ],
      signal,
    );
  } finally {
    stop();
  }
}
