/**
 * Keeps what is in use from disappearing: a claim while a pod on some node names it, a volume while it is bound. Both carry a
 * finalizer, which goes when they are being deleted and nothing uses them.
 *
 * For a claim a finished pod counts as long as it is there, and one without a node does not. The condition `Unused` is the
 * opposite: there pods without a node count, and finished ones do not.
 */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { resizeStatusOf } from '../../kube/references/claim-resize.ts';
import {
  claimNamesOf,
  claimProtection,
  isTerminated,
  volumeProtection,
  withFinalizer,
  withoutFinalizer,
} from '../../kube/references/claims.ts';
import { claimNameOf, isMadeFor } from '../../kube/references/volume-spec.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { timestamp } from '../../kube/values/times.ts';
import { type ControllerDeps, unlessRefused, updateSame } from '../cluster/cluster.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import { type ClaimId, type StorageView, claimIdsOf } from './storage-view.ts';

export async function runVolumeProtection(deps: ControllerDeps, view: StorageView, signal: AbortSignal): Promise<void> {
  const controller = 'pv-protection-controller';
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  const change = (volume: KubeObject & { readonly status?: { readonly phase?: string } }): KubeObject =>
    guarded(volume, volumeProtection, volume.status?.phase === 'Bound');
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
  /** Claims that end, by namespace: one list of its pods serves all of them. */
  const ending = new Map<string, Set<ClaimId>>();
  const endings = new WorkQueue(controller, deps);
  const touch = (id: ClaimId, claim = view.claims.get(id)): void => {
    if (claim === undefined) return;
    const { namespace = '', deletionTimestamp, finalizers = [] } = claim.metadata;
    if (deletionTimestamp === undefined) return queue.touch(id);
    if (!finalizers.includes(claimProtection)) return;
    ending.set(namespace, (ending.get(namespace) ?? new Set()).add(id));
    endings.touch(namespace);
  };
  view.follow({
    claimChanged: touch,
    podChanged: (_key, pod, before) => {
      for (const each of [pod, before]) for (const id of claimIdsOf(each)) touch(id);
    },
  });
  const look = async (id: ClaimId): Promise<void> => {
    const claim = view.claims.get(id);
    if (claim === undefined || claim.metadata.deletionTimestamp !== undefined) return;
    const usage = (object: KubeObject): KubeObject => withUsage(object, view.podsUsing(id), deps.clock.now());
    // Most looks find nothing to do: they read nothing.
    if (usage(claim) !== claim) await unlessRefused(cluster.update(view.keyOfClaim(id), usage, 'status'), 404);
    if (guarded(claim, claimProtection, true) !== claim) await setFinalizer(claim, id, true);
  };
  const setFinalizer = (claim: PersistentVolumeClaim, id: ClaimId, isUsed: boolean): Promise<void> =>
    updateSame(cluster, view.keyOfClaim(id), claim, (current) => guarded(current, claimProtection, isUsed));
  const release = async (namespace: string): Promise<void> => {
    const ids = ending.get(namespace) ?? new Set();
    // What is still used is looked at again when one of its pods changes.
    ending.delete(namespace);
    try {
      await releaseUnused(namespace, [...ids]);
    } catch (error) {
      for (const id of ids) touch(id);
      throw error;
    }
  };
  const releaseUnused = async (namespace: string, ids: readonly ClaimId[]): Promise<void> => {
    const unused = ids.flatMap((id) => {
      const claim = view.claims.get(id);
      if (claim?.metadata.deletionTimestamp === undefined) return [];
      return view.podsUsing(id).some((pod) => protects(pod, claim)) ? [] : [[id, claim] as const];
    });
    // Before they are let go, the pods are listed: the view may lag behind.
    const pods = unused.length === 0 ? [] : await cluster.list(view.kinds.pod, namespace);
    const using = usersOf(pods.map(({ object }) => object as Pod));
    const free = unused.filter(([, claim]) => !using(claim.metadata.name).some((pod) => protects(pod, claim)));
    await Promise.all(free.map(([id, claim]) => setFinalizer(claim, id, false)));
  };
  await Promise.all([queue.run(look, signal), endings.run(release, signal)]);
}

/** Pods by the name of a claim. */
function usersOf(pods: readonly Pod[]): (claimName: string) => readonly Pod[] {
  const users = new Map<string, Pod[]>();
  for (const pod of pods) {
    for (const name of claimNamesOf(pod)) users.set(name, [...(users.get(name) ?? []), pod]);
  }
  return (name) => users.get(name) ?? [];
}

/** With the finalizer while it lives, and while it is deleted for as long as it is used; the same object when nothing is to change. */
function guarded(object: KubeObject, finalizer: string, isUsed: boolean): KubeObject {
  if (object.metadata.deletionTimestamp === undefined) return withFinalizer(object, finalizer);
  return isUsed ? object : withoutFinalizer(object, finalizer);
}

function protects(pod: Pod, claim: PersistentVolumeClaim): boolean {
  const isShutDown = pod.metadata.deletionTimestamp !== undefined && pod.metadata.deletionGracePeriodSeconds === 0;
  return (pod.spec.nodeName ?? '') !== '' && uses(pod, claim, !isShutDown);
}

/** By name; an ephemeral volume uses only the claim that was made for its pod. */
function uses(pod: Pod, claim: PersistentVolumeClaim, countsEphemeral = true): boolean {
  return (pod.spec.volumes ?? []).some(
    (volume) =>
      claimNameOf(pod, volume) === claim.metadata.name &&
      (volume.ephemeral === undefined || (countsEphemeral && isMadeFor(pod, claim))),
  );
}

const unused = 'Unused';
/** All that resizers write which do not recover from a failed expansion. */
const resizing = new Set(['Resizing', 'FileSystemResizePending']);

/** With the condition `Unused`, for claims that are bound and stay. */
function withUsage(object: KubeObject, pods: readonly Pod[], now: number): KubeObject {
  const claim = object as PersistentVolumeClaim;
  if (claim.metadata.deletionTimestamp !== undefined || claim.status?.phase !== 'Bound') return object;
  // A resizer writes the conditions between two looks of its own, and older ones drop this one: to put it back would only
  // make their next write meet a conflict.
  const { conditions = [] } = claim.status;
  if (resizeStatusOf(claim) !== '' || conditions.some(({ type }) => resizing.has(type))) return object;
  const isUsed = pods.some((pod) => !isTerminated(pod) && uses(pod, claim));
  const status = isUsed ? 'False' : 'True';
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
