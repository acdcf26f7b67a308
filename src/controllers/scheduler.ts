/**
 * Gives pods without a node one: the first, by name, that is ready and that the pod may run on. Where there is none the pod says
 * why, and is looked at again when a node changes. It counts no resources: on one machine or a handful that is the user's call.
 */
import { nextTurn } from '../base/turns.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { CsiNode } from '../kube/kinds/storage/csi.ts';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import { annotated, hasAnnotation, selectedNode } from '../kube/references/claims.ts';
import { selectsNode, tolerates } from '../kube/references/node-affinity.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { timestamp } from '../kube/values/times.ts';
import { type Cluster, type ControllerDeps, coreKind, kindNamed, unlessRefused } from './cluster/cluster.ts';
import { type ControllerEvent, ControllerEvents } from './cluster/events.ts';
import { claimed } from './storage/binding.ts';
import { type ClaimId, type StorageView, claimId, claimIdsOf } from './storage/storage-view.ts';
import { type Placement, type PodClaims, claimsOf, placeClaims, volumesByDriver } from './storage/volume-placement.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'default-scheduler';

export async function runScheduler(deps: ControllerDeps, storage: StorageView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const scheduler = new Scheduler(deps, cluster, storage);
  const stops = [
    cluster.watch(coreKind(cluster, 'Pod'), ({ key, type }) => scheduler.podChanged(key, type)),
    cluster.watch(coreKind(cluster, 'Node'), () => scheduler.touchPending()),
  ];
  const claimChanged = (id: ClaimId): void => {
    for (const { metadata } of storage.podsUsing(id)) {
      scheduler.touchIfPending(cluster.keyOf(storage.kinds.pod, metadata.namespace ?? '', metadata.name));
    }
  };
  storage.follow({
    claimChanged,
    // One that ends may free a claim that only one pod can have.
    podChanged: (_key, pod, before) => {
      for (const each of [pod, before]) for (const id of each === undefined ? [] : claimIdsOf(each)) claimChanged(id);
    },
    volumeChanged: () => scheduler.touchPending(),
    classChanged: () => scheduler.touchPending(),
  });
  try {
    await scheduler.run(signal);
  } finally {
    for (const stop of stops) stop();
  }
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

  constructor(deps: ControllerDeps, cluster: Cluster, storage: StorageView) {
    this.#deps = deps;
    this.#cluster = cluster;
    this.#storage = storage;
    this.#queue = new WorkQueue(controller, deps);
    this.#events = new ControllerEvents(controller, deps, cluster);
  }

  podChanged(key: string, type: 'put' | 'delete'): void {
    if (type === 'delete') this.#bound.delete(key);
    // Its node reports its state again and again, and a large pod takes long to read.
    if (!this.#bound.has(key)) this.#queue.touch(key);
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

  async #schedule(key: string): Promise<void> {
    const cluster = this.#cluster;
    const pod = (await cluster.get(key)) as Pod | undefined;
    if ((pod?.spec.nodeName ?? '') !== '') this.#bound.add(key);
    if (pod === undefined || !isPending(pod)) return void this.#pending.delete(key);
    this.#pending.add(key);
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
    const { namespace, name } = cluster.placeOf(key);
    await unlessRefused(cluster.bind(key, pod.metadata.uid ?? '', node.metadata.name), 404, 409);
    const message = `Successfully assigned ${namespace}/${name} to ${node.metadata.name}`;
    await this.#record(pod, { type: 'Normal', reason: 'Scheduled', message, action: 'Binding' });
  }

  /** What the pod's volumes need on this node, or why the pod may not run there. */
  async #tryNode(pod: Pod, claims: PodClaims, node: Node): Promise<Placement | string> {
    const problem = misfit(pod, node);
    if (problem !== undefined) return problem;
    if (await this.#exceedsLimits(pod, node)) return 'node(s) exceed max volume count';
    return placeClaims(pod, claims, node, this.#storage);
  }

  async #exceedsLimits(pod: Pod, { metadata: { name } }: Node): Promise<boolean> {
    const wanted = volumesByDriver(pod, [], this.#storage);
    if (wanted.size === 0) return false;
    const cluster = this.#cluster;
    const key = cluster.keyOf(kindNamed(cluster, 'storage.k8s.io/v1', 'CSINode'), '', name);
    const { drivers = [] } = ((await cluster.get(key)) as CsiNode | undefined)?.spec ?? {};
    const counts = volumesByDriver(pod, this.#storage.podsOn(name), this.#storage);
    return drivers.some(({ name: driver, allocatable }) => {
      const most = allocatable?.count;
      return wanted.has(driver) && most !== undefined && (counts.get(driver) ?? 0) > most;
    });
  }

  /** Asks for volumes: those that are there are reserved for their claims, the rest is left to provisioners. */
  async #prepare({ reserve, provision }: Placement, { metadata }: Node): Promise<void> {
    for (const { claim, volume } of reserve) {
      const take = (object: KubeObject): KubeObject => {
        const current = object as PersistentVolume;
        // Another's by now: the next look finds another one. The rest is the volume binder's.
        return current.spec.claimRef === undefined ? claimed(current, claim) : current;
      };
      await unlessRefused(this.#cluster.update(this.#storage.keyOfVolume(volume.metadata.name), take), 404);
    }
    for (const claim of provision) {
      const key = this.#storage.keyOfClaim(claimId(claim.metadata.namespace, claim.metadata.name));
      const select = (object: KubeObject): KubeObject => {
        if (object.metadata.uid !== claim.metadata.uid || hasAnnotation(object, selectedNode)) return object;
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
