/**
 * Gives pods without a node one: the first, by name, that is ready and that the pod may run on. Where there is none the pod says
 * why, and is looked at again when a node changes. It counts no resources: on one machine or a handful that is the user's call.
 */
import { nextTurn } from '../base/turns.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { CsiDriver, CsiNode } from '../kube/kinds/storage/csi.ts';
import type { PersistentVolumeClaim } from '../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import type { VolumeAttachment } from '../kube/kinds/storage/volume-attachment.ts';
import { annotated, bindCompleted, hasAnnotation, isOver, selectedNode } from '../kube/references/claims.ts';
import { selectsNode, tolerates } from '../kube/references/node-affinity.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { timestamp } from '../kube/values/times.ts';
import { type Cluster, type ControllerDeps, coreKind, kindNamed, unlessRefused } from './cluster/cluster.ts';
import { type ControllerEvent, ControllerEvents } from './cluster/events.ts';
import { claimed } from './storage/binding.ts';
import { type ClaimId, type StorageView, claimId, claimIdsOf } from './storage/storage-view.ts';
import {
  type Placement,
  type PodClaims,
  claimsOf,
  conflictOf,
  csiVolumeId,
  csiVolumesOf,
  inUseByAnother,
  isForOnePod,
  placeClaims,
} from './storage/volume-placement.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'default-scheduler';
const storageGroup = 'storage.k8s.io/v1';
/** What a driver and the volumes on a node say of how many more it can have. */
const limitKinds = ['CSINode', 'CSIDriver', 'VolumeAttachment'];
/** As long as Kubernetes' scheduler leaves a pod alone that it could not place. */
const sweepMs = 5 * 60_000;

export async function runScheduler(deps: ControllerDeps, storage: StorageView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const scheduler = new Scheduler(deps, cluster, storage);
  const stops = [
    cluster.watch(coreKind(cluster, 'Pod'), ({ key, type }) => scheduler.podChanged(key, type)),
    ...['Node', ...limitKinds].map((name) => {
      const kind = kindNamed(cluster, name === 'Node' ? 'v1' : storageGroup, name);
      return cluster.watch(kind, () => scheduler.touchPending());
    }),
  ];
  const touchUsers = (id: ClaimId): void => {
    for (const { metadata } of storage.podsUsing(id)) {
      scheduler.touchIfPending(cluster.keyOf(storage.kinds.pod, metadata.namespace ?? '', metadata.name));
    }
  };
  storage.follow({
    claimChanged: (id, claim, before) => {
      if (placeOf(claim) !== placeOf(before)) touchUsers(id);
    },
    // One that ends may free a claim that only one pod can have.
    podChanged: (key, pod, before) => {
      if (pod === undefined || (pod.spec.nodeName ?? '') !== '') scheduler.release(key);
      if (pod === undefined || isOver(pod)) for (const id of claimIdsOf(before)) touchUsers(id);
    },
    // A volume that belongs to a claim concerns the claim's pods alone: thousands are provisioned without a look at all others.
    volumeChanged: (_name, volume, before) => {
      for (const { claimRef } of [volume, before].flatMap((each) => each?.spec ?? [])) {
        if (claimRef !== undefined) touchUsers(claimId(claimRef.namespace, claimRef.name));
      }
      if (volume?.spec.claimRef === undefined) scheduler.touchPending();
    },
    classChanged: () => scheduler.touchPending(),
  });
  try {
    await Promise.all([scheduler.run(signal), scheduler.sweep(signal)]);
  } finally {
    for (const stop of stops) stop();
  }
}

/** What of a claim decides where its pods may run. */
function placeOf(claim: PersistentVolumeClaim | undefined): string {
  if (claim === undefined) return '';
  const { uid, deletionTimestamp, annotations } = claim.metadata;
  const isBound = hasAnnotation(claim, bindCompleted);
  const { volumeName, storageClassName } = claim.spec;
  const place = [uid, deletionTimestamp, annotations?.[selectedNode], isBound, volumeName, storageClassName];
  return JSON.stringify([...place, claim.status?.phase]);
}

class Scheduler {
  readonly #deps: ControllerDeps;
  readonly #cluster: Cluster;
  readonly #storage: StorageView;
  readonly #queue: WorkQueue;
  readonly #events: ControllerEvents;
  /** Keys of pods. */
  readonly #pending = new Set<string>();
  /** These have a node, which they keep until they are deleted. */
  readonly #bound = new Set<string>();
  /** Claims that only one pod can have, by UID, and the pod that is about to: the view does not show it with a node yet. */
  readonly #held = new Map<string, string>();

  constructor(deps: ControllerDeps, cluster: Cluster, storage: StorageView) {
    this.#deps = deps;
    this.#cluster = cluster;
    this.#storage = storage;
    this.#queue = new WorkQueue(controller, deps);
    this.#events = new ControllerEvents(controller, deps, cluster);
  }

  podChanged(key: string, type: 'put' | 'delete'): void {
    if (type === 'delete') {
      this.#bound.delete(key);
      this.release(key);
    }
    // Its node reports its state again and again, and a large pod takes long to read.
    if (!this.#bound.has(key)) this.#queue.touch(key);
  }

  /** From here on the view knows whether the pod has its claims. */
  release(podKey: string): void {
    for (const [uid, holder] of this.#held) if (holder === podKey) this.#held.delete(uid);
  }

  touchPending(): void {
    for (const key of this.#pending) this.#queue.touch(key);
  }

  touchIfPending(key: string): void {
    if (this.#pending.has(key)) this.#queue.touch(key);
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.#queue.run((key) => this.#schedule(key), signal);
  }

  /** A change that was missed costs a pod this long, not its life. */
  async sweep(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#deps.clock.sleep(sweepMs, signal).catch(() => {});
      if (signal.aborted) return;
      this.touchPending();
    }
  }

  async #schedule(key: string): Promise<void> {
    const cluster = this.#cluster;
    const pod = (await cluster.get(key)) as Pod | undefined;
    if ((pod?.spec.nodeName ?? '') !== '') this.#bound.add(key);
    if (pod === undefined || !isPending(pod)) return void this.#pending.delete(key);
    this.#pending.add(key);
    this.release(key);
    const nodes = (await cluster.list(coreKind(cluster, 'Node'))).map(({ object }) => object as Node);
    const claims = claimsOf(pod, this.#storage);
    if (typeof claims === 'string') return this.#reportUnschedulable(key, pod, noneFits(nodes.length, claims));
    const tries = await Promise.all(nodes.map((node) => this.#tryNode(pod, claims, node)));
    const at = tries.findIndex((one) => typeof one !== 'string');
    const [node, placement] = [nodes[at], tries[at]];
    if (node === undefined || placement === undefined || typeof placement === 'string') {
      return this.#reportUnschedulable(key, pod, unschedulableMessage(tries.filter((one) => typeof one === 'string')));
    }
    // The pod is looked at again when its claims have their volumes.
    if (placement.reserve.length + placement.provision.length > 0) return this.#prepare(placement, node);
    // Pods are looked at side by side: what one of them takes here, another must see before it is written.
    const alone = claims.bound.filter(isForOnePod).map((claim) => claim.metadata.uid ?? '');
    if (alone.some((uid) => this.#held.has(uid))) {
      return this.#reportUnschedulable(key, pod, unschedulableMessage(nodes.map(() => inUseByAnother)));
    }
    for (const uid of alone) this.#held.set(uid, key);
    const { namespace, name } = cluster.placeOf(key);
    await unlessRefused(cluster.bind(key, pod.metadata.uid ?? '', node.metadata.name), 404, 409);
    const message = `Successfully assigned ${namespace}/${name} to ${node.metadata.name}`;
    await this.#record(pod, { type: 'Normal', reason: 'Scheduled', message, action: 'Binding' });
  }

  /** What the pod's volumes need on this node, or why the pod may not run there. */
  async #tryNode(pod: Pod, claims: PodClaims, node: Node): Promise<Placement | string> {
    const problem = misfit(pod, node);
    if (problem !== undefined) return problem;
    const wanted = csiVolumesOf([pod], this.#storage);
    const csiNode =
      wanted.size === 0 ? undefined : ((await this.#read('CSINode', node.metadata.name)) as CsiNode | undefined);
    const conflict = conflictOf(pod, claims, this.#storage) ?? (await this.#limitOf(wanted, node, csiNode));
    return conflict ?? placeClaims(claims, node, csiNode, this.#storage);
  }

  /** Why the node cannot have the pod's CSI volumes besides those of its pods and those that are still attached. */
  async #limitOf(
    wanted: ReadonlyMap<string, string>,
    { metadata: { name } }: Node,
    csiNode: CsiNode | undefined,
  ): Promise<string | undefined> {
    if (wanted.size === 0) return undefined;
    const { drivers = [] } = csiNode?.spec ?? {};
    for (const driver of new Set(wanted.values())) {
      const { spec } = ((await this.#read('CSIDriver', driver)) as CsiDriver | undefined) ?? {};
      const isMissing = spec?.preventPodSchedulingIfMissing === true && !drivers.some((one) => one.name === driver);
      if (isMissing) return `${driver} CSI driver is not installed on the node`;
    }
    const limits = drivers.flatMap(({ name: driver, allocatable }) =>
      allocatable?.count === undefined ? [] : [[driver, allocatable.count] as const],
    );
    if (limits.length === 0) return undefined;
    const others = this.#storage.podsOn(name).filter((other) => !isOver(other));
    const present = csiVolumesOf(others, this.#storage);
    const added = [...wanted].filter(([volume]) => !present.has(volume));
    for (const [volume, driver] of await this.#attachedTo(name)) present.set(volume, driver);
    const countOf = (volumes: Iterable<readonly [string, string]>, driver: string): number =>
      [...volumes].filter(([, one]) => one === driver).length;
    const isFull = limits.some(([driver, most]) => {
      const more = countOf(added, driver);
      return more > 0 && countOf(present, driver) + more > most;
    });
    return isFull ? 'node(s) exceed max volume count' : undefined;
  }

  #read(kind: string, name: string): Promise<KubeObject | undefined> {
    return this.#cluster.get(this.#cluster.keyOf(kindNamed(this.#cluster, storageGroup, kind), '', name));
  }

  async #attachedTo(node: string): Promise<readonly (readonly [volume: string, driver: string])[]> {
    const attachments = await this.#cluster.list(kindNamed(this.#cluster, storageGroup, 'VolumeAttachment'));
    return attachments.flatMap(({ object }) => {
      const { nodeName, attacher, source } = (object as VolumeAttachment).spec;
      const { csi } = this.#storage.volumes.get(source.persistentVolumeName ?? '')?.spec ?? {};
      if (nodeName !== node || csi === undefined) return [];
      return [[csiVolumeId(attacher, csi.volumeHandle), attacher] as const];
    });
  }

  /** Asks for volumes: those that are there are reserved for their claims, the rest is left to provisioners. */
  async #prepare({ reserve, provision }: Placement, { metadata }: Node): Promise<void> {
    for (const { claim, volume } of reserve) {
      const take = (object: KubeObject): KubeObject => {
        const current = object as PersistentVolume;
        // It belongs to another claim by now: the next look finds another one. The volume binder does the rest.
        return current.spec.claimRef === undefined ? claimed(current, claim) : current;
      };
      await unlessRefused(this.#cluster.update(this.#storage.keyOfVolume(volume.metadata.name), take), 404);
    }
    for (const claim of provision) {
      const key = this.#storage.keyOfClaim(claimId(claim.metadata.namespace, claim.metadata.name));
      const select = (object: KubeObject): KubeObject => {
        const chosen = object.metadata.annotations?.[selectedNode] ?? '';
        if (object.metadata.uid !== claim.metadata.uid || chosen !== '') return object;
        return annotated(object, [selectedNode], metadata.name);
      };
      await unlessRefused(this.#cluster.update(key, select), 404);
    }
  }

  async #reportUnschedulable(key: string, pod: Pod, message: string): Promise<void> {
    const known = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
    if (known?.status === 'False' && known.message === message) return;
    await nextTurn(); // the update of a large pod takes milliseconds, and gets a turn for itself
    const condition = {
      type: 'PodScheduled',
      status: 'False',
      lastTransitionTime: timestamp(this.#deps.clock.now()),
      reason: 'Unschedulable',
      message,
    };
    const change = (current: KubeObject): KubeObject => {
      const { status, ...rest } = current as Pod;
      const others = (status?.conditions ?? []).filter(({ type }) => type !== 'PodScheduled');
      return { ...rest, status: { ...status, conditions: [...others, condition] } } as KubeObject;
    };
    await unlessRefused(this.#cluster.update(key, change, 'status'), 404, 409);
    await this.#record(pod, { type: 'Warning', reason: 'FailedScheduling', message, action: 'Scheduling' });
  }

  #record(pod: Pod, event: ControllerEvent): Promise<void> {
    return this.#events.record(this.#storage.kinds.pod, pod, event);
  }
}

function isPending({ metadata, spec }: Pod): boolean {
  return (
    (spec.nodeName ?? '') === '' &&
    metadata.deletionTimestamp === undefined &&
    (spec.schedulerName ?? controller) === controller &&
    (spec.schedulingGates ?? []).length === 0
  );
}

/** Why a pod may not run on a node, in the scheduler's words; undefined when it fits. */
export function misfit({ spec: pod }: Pod, { metadata, spec: node, status }: Node): string | undefined {
  const tolerations = pod.tolerations ?? [];
  const cordon = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };
  if (node?.unschedulable === true && !tolerations.some((one) => tolerates(one, cordon))) {
    return 'node(s) were unschedulable';
  }
  const taint = (node?.taints ?? [])
    .filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute')
    .find((one) => !tolerations.some((toleration) => tolerates(toleration, one)));
  if (taint !== undefined) return `node(s) had untolerated taint {${taint.key}: ${taint.value ?? ''}}`;
  if (!selectsNode(pod, metadata)) return "node(s) didn't match Pod's node affinity/selector";
  const ready = (status?.conditions ?? []).find(({ type }) => type === 'Ready');
  return ready?.status === 'True' ? undefined : 'node(s) were not ready';
}

function noneFits(nodes: number, reason: string): string {
  return nodes === 0 ? unschedulableMessage([]) : `0/${nodes} nodes are available: ${reason}.`;
}

/** `0/2 nodes are available: 1 node(s) were not ready, 1 node(s) were unschedulable.` */
export function unschedulableMessage(reasons: readonly string[]): string {
  if (reasons.length === 0) return 'no nodes available to schedule pods';
  const counts = new Map<string, number>();
  for (const reason of reasons) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  const texts = [...counts].map(([reason, count]) => `${count} ${reason}`).sort();
  return `0/${reasons.length} nodes are available: ${texts.join(', ')}.`;
}
