/**
 * Workloads on a store in memory, with the loops that look after them in a party that can be killed, and a node without a machine:
 * its pods run, become ready, and end as an annotation of theirs says.
 */
import { coreKind, unlessRefused } from '../../controllers/cluster/cluster.ts';
import { WorkQueue } from '../../controllers/cluster/work-queue.ts';
import { runCompanion, serviceAccounts } from '../../controllers/default-objects.ts';
import { runGarbageCollector } from '../../controllers/garbage-collector.ts';
import { runNamespaceDeletion } from '../../controllers/namespace-deletion.ts';
import { runScheduler } from '../../controllers/scheduling/scheduler.ts';
import { runLocalPath } from '../../controllers/storage/local-path.ts';
import { runClaimProtection } from '../../controllers/storage/protection.ts';
import { runStorage } from '../../controllers/storage/storage.ts';
import { runVolumeBinder } from '../../controllers/storage/volume-binder.ts';
import { type WorkloadLoop, runWorkloads } from '../../controllers/workloads/workloads.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { timestamp } from '../../kube/values/times.ts';
import type { Party, PartyDeps, StorageWorld } from './storage-world.ts';

/** Of a pod: `Succeeded`, `Failed`, or `Stuck`, which never gets ready. Absent: it runs for ever. */
export const endsAnnotation = 'test/ends';

export function workloadParties(...loops: readonly WorkloadLoop[]): Readonly<Record<string, Party>> {
  return {
    controllers: (deps, signal) =>
      Promise.all([
        runCompanion(serviceAccounts, deps, signal),
        runNamespaceDeletion(deps, signal),
        runGarbageCollector(deps, signal),
        runStorage(
          deps,
          [runScheduler, runVolumeBinder, runClaimProtection, runLocalPath(deps.localPath)],
          true,
          signal,
        ),
        runWorkloads(deps, loops, signal),
      ]),
    node: runWorkloadNode,
  };
}

async function runWorkloadNode(deps: PartyDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor('node', signal);
  const queue = new WorkQueue('node', deps);
  const stop = cluster.watch(coreKind(cluster, 'Pod'), ({ key, type }) => {
    if (type === 'put') queue.touch(key);
  });
  const look = async (key: string): Promise<void> => {
    const pod = (await cluster.get(key)) as Pod | undefined;
    if (pod === undefined || (pod.spec.nodeName ?? '') === '') return;
    const phase = phaseOf(pod);
    if (phase !== undefined) {
      const status = { ...pod.status, phase, ...stateOf(phase, timestamp(deps.clock.now())) };
      await unlessRefused(
        cluster.update(key, (current) => ({ ...current, status }) as KubeObject, 'status'),
        404,
      );
    } else if (pod.metadata.deletionTimestamp !== undefined) {
      await unlessRefused(cluster.delete(key, {}, { gracePeriodSeconds: 0 }), 404);
    }
  };
  await queue.run(look, signal).finally(stop);
}

/** The phase that comes next. */
function phaseOf({ metadata, status }: Pod): string | undefined {
  const ends = metadata.annotations?.[endsAnnotation];
  const { phase } = status ?? {};
  if (phase === 'Succeeded' || phase === 'Failed') return undefined;
  if (metadata.deletionTimestamp !== undefined) return 'Failed';
  if (phase !== 'Running') return ends === 'Stuck' ? undefined : 'Running';
  return ends === 'Succeeded' || ends === 'Failed' ? ends : undefined;
}

function stateOf(phase: string, now: string): NonNullable<Pod['status']> {
  const isOver = phase !== 'Running';
  const exitCode = phase === 'Failed' ? 1 : 0;
  return {
    conditions: [{ type: 'Ready', status: isOver ? 'False' : 'True', lastTransitionTime: now }],
    containerStatuses: [
      {
        name: 'main',
        ready: !isOver,
        restartCount: 0,
        image: 'none',
        imageID: '',
        state: isOver ? { terminated: { exitCode, finishedAt: now } } : { running: { startedAt: now } },
      },
    ],
  };
}

/** Through the pauses that follow failures, and no further: `ms` in steps, after each of which everything comes to rest. */
export async function passTime(world: StorageWorld, ms: number): Promise<void> {
  await world.rest();
  const step = 20_000;
  for (let passed = 0; passed < ms; passed += step) {
    await world.clock.advance(step);
    await world.rest();
  }
}
