/** Runs all controllers of the server, each until it is told to stop. */
import { type CompanionDeps, ensureCompanions, runCompanions } from './default-objects.ts';
import { runExpiry } from './expiry.ts';
import { runGarbageCollector } from './garbage-collector.ts';
import { runNamespaceDeletion } from './namespace-deletion.ts';
import { runNodeTtl } from './node-ttl.ts';
import { runScheduler } from './scheduler.ts';

interface RunningControllers {
  /** The objects that every cluster has are there. */
  readonly settled: Promise<void>;
  /** All have stopped. */
  readonly done: Promise<unknown>;
}

export function runControllers(deps: CompanionDeps, signal: AbortSignal): RunningControllers {
  const settled = ensureCompanions(deps, signal);
  const run = (): Promise<unknown> =>
    Promise.all([
      runCompanions(deps, signal),
      runNamespaceDeletion(deps, signal),
      runGarbageCollector(deps, signal),
      runExpiry(deps, signal),
      runScheduler(deps, signal),
      runNodeTtl(deps, signal),
    ]);
  // Whoever waits for `settled` learns of its failure there, and only there.
  return { settled, done: settled.then(run, () => undefined) };
}
