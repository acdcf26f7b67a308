/** The loops of workloads, on one view of pods and of what owns them. */
import { runTogether } from '../../base/run-task.ts';
import type { ControllerDeps } from '../cluster/cluster.ts';
import { WorkloadView } from './object-table.ts';

/** It asks for its tables and follows them before it waits for anything. */
export type WorkloadLoop = (deps: ControllerDeps, view: WorkloadView, signal: AbortSignal) => Promise<void>;

export async function runWorkloads(
  deps: ControllerDeps,
  loops: readonly WorkloadLoop[],
  signal: AbortSignal,
): Promise<void> {
  const view = new WorkloadView(deps.clusterFor('workloads', signal), deps.clock);
  await runTogether(
    [...loops.map((loop) => (until: AbortSignal) => loop(deps, view, until)), (until) => view.run(until)],
    signal,
  );
}
