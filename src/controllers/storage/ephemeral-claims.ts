/** Makes the claims of generic ephemeral volumes. They belong to their pod and go with it, by garbage collection. */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { ephemeralClaim } from '../../kube/references/claim-templates.ts';
import { requireOwner } from '../../kube/references/volume-spec.ts';
import { messageOf } from '../../base/errors.ts';
import { type Cluster, type ControllerDeps, refusalCode } from '../cluster/cluster.ts';
import { ControllerEvents } from '../cluster/events.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import type { StorageView } from './storage-view.ts';

const controller = 'ephemeral_volume';

export async function runEphemeralClaims(deps: ControllerDeps, view: StorageView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor('ephemeral-volume-controller', signal);
  const events = new ControllerEvents(controller, deps, cluster);
  const queue = new WorkQueue(controller, deps);
  view.follow({
    podChanged: (key, pod, before) => {
      if (pod !== undefined && pod.metadata.uid !== before?.metadata.uid && hasEphemeral(pod)) queue.touch(key);
    },
    claimChanged: (id, claim) => {
      if (claim !== undefined) return;
      for (const pod of view.podsUsing(id)) {
        if (hasEphemeral(pod))
          queue.touch(cluster.keyOf(view.kinds.pod, pod.metadata.namespace ?? '', pod.metadata.name));
      }
    },
  });
  const look = async (key: string): Promise<void> => {
    const pod = (await cluster.get(key)) as Pod | undefined;
    if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return;
    for (const volume of pod.spec.volumes ?? []) {
      const claim = ephemeralClaim(pod, volume);
      if (claim === undefined) continue;
      try {
        await ensure(cluster, view, pod, claim);
      } catch (error) {
        const message = `ephemeral volume ${volume.name}: ${messageOf(error)}`;
        await events.record(view.kinds.pod, pod, { type: 'Warning', reason: 'FailedBinding', message });
        throw error;
      }
    }
  };
  await queue.run(look, signal);
}

function hasEphemeral({ spec }: Pod): boolean {
  return (spec.volumes ?? []).some(({ ephemeral }) => ephemeral !== undefined);
}

async function ensure(cluster: Cluster, view: StorageView, pod: Pod, claim: PersistentVolumeClaim): Promise<void> {
  const { namespace = '' } = pod.metadata;
  const key = cluster.keyOf(view.kinds.claim, namespace, claim.metadata.name);
  const present = (await cluster.get(key)) as PersistentVolumeClaim | undefined;
  if (present !== undefined) return requireOwner(pod, present);
  try {
    await cluster.create(view.kinds.claim, namespace, claim);
  } catch (error) {
    // It may have been created a moment ago: the next look says whether for this pod.
    const message = `create PVC ${claim.metadata.name}: ${messageOf(error)}`;
    throw Object.assign(new Error(message, { cause: error }), { code: refusalCode(error) });
  }
}
