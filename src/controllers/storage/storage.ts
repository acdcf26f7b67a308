/** The loops of storage, on one view of it. */
import type { ControllerDeps } from '../cluster/cluster.ts';
import { runEphemeralClaims } from './ephemeral-claims.ts';
import { type LocalPath, runLocalPath } from './local-path.ts';
import { runProtection } from './protection.ts';
import { StorageView } from './storage-view.ts';
import { runVolumeBinder } from './volume-binder.ts';
import { runVolumeExpander } from './volume-expander.ts';

/** `also` follows the same view: the scheduler has to know of volumes too. */
export async function runStorage(
  deps: ControllerDeps,
  local: LocalPath | undefined,
  also: (view: StorageView) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const view = new StorageView(deps.clusterFor('storage', signal));
  const running = [
    runVolumeBinder(deps, view, signal),
    runProtection(deps, view, signal),
    runEphemeralClaims(deps, view, signal),
    runVolumeExpander(deps, view, signal),
    ...(local === undefined ? [] : [runLocalPath(deps, view, local, signal)]),
    also(view),
  ];
  // All of them follow by now: what is there already is reported to each.
  const stop = view.start();
  try {
    await Promise.all(running);
  } finally {
    stop();
  }
}
