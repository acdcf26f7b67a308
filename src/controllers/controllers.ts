/** Runs all controllers of a cluster until the signal aborts. */
import { type DefaultObjectDeps, ensureDefaultObjects, runDefaultObjects } from './default-objects.ts';
import { runExpiry } from './expiry.ts';
import { runGarbageCollector } from './garbage-collector.ts';
import { runNamespaceDeletion } from './namespace-deletion.ts';
import { runNodeLife } from './node-life.ts';
import { runNodeTaints } from './node-taints.ts';
import { runNodeTtl } from './node-ttl.ts';
import { runScheduler } from './scheduler.ts';
import type { LocalPath } from './storage/local-path.ts';
import { runStorage } from './storage/storage.ts';

interface RunningControllers {
  /** The objects that every cluster has are there. */
  readonly settled: Promise<void>;
  /** All have stopped. */
  readonly done: Promise<unknown>;
}

interface ControllersDeps extends DefaultObjectDeps {
  /** Directories of this machine for claims; absent where it has no node. */
  readonly localPath?: LocalPath;
}

export function runControllers(deps: ControllersDeps, signal: AbortSignal): RunningControllers {
  const settled = ensureDefaultObjects(deps, signal);
  const run = (): Promise<unknown> =>
    Promise.all([
      runDefaultObjects(deps, signal),
      runNamespaceDeletion(deps, signal),
      runGarbageCollector(deps, signal),
      runExpiry(deps, signal),
      runStorage(deps, deps.localPath, (storage) => runScheduler(deps, storage, signal), signal),
      runNodeTtl(deps, signal),
      runNodeTaints(deps, signal),
      runNodeLife(deps, signal),
    ]);
  // A failure of `settled` is reported there, and only there.
  return { settled, done: settled.then(run, () => undefined) };
}
