/**
 * Keeps what is in use from disappearing: a claim while a pod on some node names it, a volume while it is bound. Both carry a
 * finalizer, which goes when they are being deleted and nothing uses them.
 *
 * For a claim a finished pod counts as long as it is there, and one without a node does not. The condition `Unused` is the
 * opposite: there pods without a node count, and finished ones do not.
 */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { claimNamesOf, claimProtection, isTerminated, volumeProtection } from '../../kube/references/claims.ts';
import { claimNameOf, isMadeFor } from '../../kube/references/volume-spec.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { timestamp } from '../../kube/values/times.ts';
import { type ControllerDeps, unlessRefused } from '../cluster/cluster.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import { type ClaimId, type StorageView, claimIdsOf } from './storage-view.ts';

export async function runVolumeProtection(deps: ControllerDeps, view: StorageView, signal: AbortSignal): Promise<void> {
  const controller = 'pv-protection-controller';
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  const change = (volume: KubeObject & { readonly status?: { readonly phase?: string } }): KubeObject =>
    withFinalizer(volume, volumeProtection, volume.status?.phase === 'Bound');
  view.follow({
    volumeChanged: (name, volume) => {
      if (volume !== undefined && change(volume) !== volume) queue.touch(view.keyOfVolume(name));
    },
  });
  await queue.run((key) => unlessRefused(cluster.update(key, change), 404), signal);
}

export async function runClaimProtection(deps: ControllerDeps, view: StorageView, signal: AbortSignal): Promise<void> {
  const controller = 'pvc-protection-controller';
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  view.follow({
    claimChanged: (id, claim) => {
      if (claim !== undefined) queue.touch(id);
    },
    podChanged: (_key, pod, before) => {
      for (const each of [pod, before]) for (const id of each === undefined ? [] : claimIdsOf(each)) queue.touch(id);
    },
  });
  const look = async (id: ClaimId): Promise<void> => {
    const claim = view.claims.get(id);
    if (claim === undefined) return;
    const key = view.keyOfClaim(id);
    await unlessRefused(
      cluster.update(key, (current) => withUsage(current, view.podsUsing(id), deps.clock.now()), 'status'),
      404,
    );
    const isDeleting = claim.metadata.deletionTimestamp !== undefined;
    const isUsed = async (): Promise<boolean> => {
      if (view.podsUsing(id).some((pod) => protects(pod, claim))) return true;
      // Before it is let go, what is there now is asked for: the view may lag behind.
      const pods = await cluster.list(view.kinds.pod, claim.metadata.namespace ?? '');
      return pods.some(({ object }) => protects(object as Pod, claim));
    };
    const keeps = !isDeleting || (await isUsed());
    await unlessRefused(
      cluster.update(key, (current) =>
        // Deleted a moment ago: there will be another look.
        current.metadata.uid !== claim.metadata.uid || (current.metadata.deletionTimestamp !== undefined) !== isDeleting
          ? current
          : withFinalizer(current, claimProtection, keeps),
      ),
      404,
    );
  };
  await queue.run(look, signal);
}

/** With the finalizer while it lives, and while it is deleted for as long as it is used; the same object when nothing is to change. */
function withFinalizer(object: KubeObject, finalizer: string, isUsed: boolean): KubeObject {
  const { finalizers = [], deletionTimestamp } = object.metadata;
  const has = finalizers.includes(finalizer);
  if (deletionTimestamp === undefined) {
    return has ? object : { ...object, metadata: { ...object.metadata, finalizers: [...finalizers, finalizer] } };
  }
  if (!has || isUsed) return object;
  const others = finalizers.filter((one) => one !== finalizer);
  return { ...object, metadata: { ...object.metadata, finalizers: others } };
}

function protects(pod: Pod, claim: PersistentVolumeClaim): boolean {
  if ((pod.spec.nodeName ?? '') === '' || pod.metadata.namespace !== claim.metadata.namespace) return false;
  return (pod.spec.volumes ?? []).some((volume) => {
    if (claimNameOf(pod, volume) !== claim.metadata.name) return false;
    if (volume.persistentVolumeClaim !== undefined) return true;
    // A claim of that name that is not the pod's own is not used by it; one of a pod that is shut down no longer.
    const isShutDown = pod.metadata.deletionTimestamp !== undefined && pod.metadata.deletionGracePeriodSeconds === 0;
    return isMadeFor(pod, claim) && !isShutDown;
  });
}

const unused = 'Unused';

/** With the condition `Unused`, for claims that are bound and stay. */
function withUsage(object: KubeObject, pods: readonly Pod[], now: number): KubeObject {
  const claim = object as PersistentVolumeClaim;
  if (claim.metadata.deletionTimestamp !== undefined || claim.status?.phase !== 'Bound') return object;
  const isUsed = pods.some((pod) => !isTerminated(pod) && claimNamesOf(pod).includes(claim.metadata.name));
  const status = isUsed ? 'False' : 'True';
  const { conditions = [] } = claim.status;
  if (conditions.find(({ type }) => type === unused)?.status === status) return object;
  const condition = {
    type: unused,
    status,
    lastTransitionTime: timestamp(now),
    reason: isUsed ? 'PodUsingPVC' : 'NoPodsUsingPVC',
    message: isUsed ? 'A pod is currently referencing this PVC' : 'No pods are currently referencing this PVC',
  };
  const others = conditions.filter(({ type }) => type !== unused);
  return { ...claim, status: { ...claim.status, conditions: [...others, condition] } } as KubeObject;
}
