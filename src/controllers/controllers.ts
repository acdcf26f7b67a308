/** Runs all controllers of a cluster until the signal aborts. */
import { type DefaultObjectDeps, ensureDefaultObjects, runDefaultObjects } from './default-objects.ts';
import { runExpiry } from './expiry.ts';
import { runGarbageCollector } from './garbage-collector.ts';
import { runNamespaceDeletion } from './namespace-deletion.ts';
import { runNodeTaints } from './node-taints.ts';
import { runNodeTtl } from './node-ttl.ts';
import { runScheduler } from './scheduler.ts';

interface RunningControllers {
  /** The objects that every cluster has are there. */
  readonly settled: Promise<void>;
  /** All have stopped. */
  readonly done: Promise<unknown>;
}

export function runControllers(deps: DefaultObjectDeps, signal: AbortSignal): RunningControllers {
  const settled = ensureDefaultObjects(deps, signal);
  const run = (): Promise<unknown> =>
    Promise.all([
      runDefaultObjects(deps, signal),
      runNamespaceDeletion(deps, signal),
      runGarbageCollector(deps, signal),
      runExpiry(deps, signal),
      runScheduler(deps, signal),
      runNodeTtl(deps, signal),
      runNodeTaints(deps, signal),
    ]);
  // A failure of `settled` is reported there, and only there.
  return { settled, done: settled.then(run, () => undefined) };
}
