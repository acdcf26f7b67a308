/**
 * Notices nodes that have fallen silent, and what follows from it: their conditions become Unknown, pods there are not ready, and
 * those that do not tolerate it are deleted when their time is up. Pods of nodes that are no longer there are collected.
 *
 * A node shows that it lives by its lease, or by its status. When that was is measured here: clocks of others are not believed.
 */
import { type Timer, Timers } from '../base/timers.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { isOver } from '../kube/references/claims.ts';
import { tolerates } from '../kube/references/node-affinity.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { timestamp } from '../kube/values/times.ts';
import { type Cluster, type ControllerDeps, coreKind, kindNamed, unlessRefused } from './cluster/cluster.ts';
import { ControllerEvents } from './cluster/events.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'node-controller';
/** A node renews its lease every 10 s, and may miss some. */
const silenceMsMax = 50_000;
/** One that has not reported yet is still starting. */
const startMsMax = 60_000;
/** A pod may be there before its node. */
const quarantineMs = 40_000;
/** Finished pods are kept for their logs; more than this many only fill the store. */
const finishedMax = 12_500;
const outOfService = 'node.kubernetes.io/out-of-service';
const leaseNamespace = 'kube-node-lease';
const conditionTypes = ['Ready', 'MemoryPressure', 'DiskPressure', 'PIDPressure'];

type Taint = NonNullable<NonNullable<Node['spec']>['taints']>[number];

export async function runNodeLife(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const life = new NodeLife(deps, cluster);
  const stops = [
    cluster.watch(coreKind(cluster, 'Node'), ({ type, object }) => {
      const { name } = object.metadata;
      life.nodeChanged(name, type === 'put' ? object : undefined);
    }),
    cluster.watch(kindNamed(cluster, 'coordination.k8s.io/v1', 'Lease'), ({ key, type }) => {
      const { namespace, name } = cluster.placeOf(key);
      if (type === 'put' && namespace === leaseNamespace) life.sawSign(name);
    }),
    cluster.watch(coreKind(cluster, 'Pod'), (change) => {
      if (change.type === 'delete') return life.podGone(change.key);
      // A pod keeps its node: a large one is read once. The words only say that a closer look may be worth it.
      if (!life.knows(change.key)) life.podSeen(change.key, change.object as Pod);
      if (change.mentions('deletionTimestamp')) life.podEnding(change.key);
      if (change.mentions('Succeeded') || change.mentions('Failed')) life.podFinished(change.key);
    }),
  ];
  try {
    await life.run(signal);
  } finally {
    for (const stop of stops) stop();
  }
}

interface KnownNode {
  /** Of the Ready condition, to notice a new one. */
  readonly heartbeat: string | undefined;
  readonly evicting: readonly Taint[];
  /** An administrator says that it is down, and it does not say otherwise: nothing runs there any more. */
  readonly isOutOfService: boolean;
}

class NodeLife {
  readonly #deps: ControllerDeps;
  readonly #cluster: Cluster;
  readonly #events: ControllerEvents;
  readonly #evictionEvents: ControllerEvents;
  /** Keys `silent/NODE`, `evict/POD KEY`, `collect/POD KEY`, `finished/`. */
  readonly #queue: WorkQueue;
  readonly #nodes = new Map<string, KnownNode>();
  readonly #signsAtMs = new Map<string, number>();
  /** By the key of a pod: its node. */
  readonly #places = new Map<string, string>();
  /** Keys of pods that may have finished, in that order. */
  readonly #finished = new Set<string>();
  /** By the key of a pod that is to leave its node: since when. */
  readonly #evictedSinceMs = new Map<string, number>();
  readonly #timers: Timers;
  /** By the key of what is to be looked at then. */
  readonly #due = new Map<string, Timer>();

  constructor(deps: ControllerDeps, cluster: Cluster) {
    this.#deps = deps;
    this.#cluster = cluster;
    this.#events = new ControllerEvents(controller, deps, cluster);
    this.#evictionEvents = new ControllerEvents('taint-eviction-controller', deps, cluster);
    this.#queue = new WorkQueue(controller, deps);
    this.#timers = new Timers(deps.clock);
  }

  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#queue.run((key) => this.#look(key), signal), this.#timers.run(signal)]);
  }

  nodeChanged(name: string, node: Node | undefined): void {
    const before = this.#nodes.get(name);
    if (node === undefined) {
      this.#nodes.delete(name);
      this.#signsAtMs.delete(name);
      this.#lookAt(`silent/${name}`, undefined);
      for (const key of this.#podsOn(name)) this.#watchOrphan(key);
      return;
    }
    const ready = node.status?.conditions?.find(({ type }) => type === 'Ready');
    const heartbeat = ready?.lastHeartbeatTime;
    const taints = node.spec?.taints ?? [];
    const evicting = taints.filter(({ effect }) => effect === 'NoExecute');
    const isOutOfService = ready?.status !== 'True' && taints.some(({ key }) => key === outOfService);
    this.#nodes.set(name, { heartbeat, evicting, isOutOfService });
    if (before?.heartbeat !== heartbeat || before === undefined) this.sawSign(name, ready === undefined);
    if (isOutOfService && before?.isOutOfService !== true) {
      for (const key of this.#podsOn(name)) this.#queue.touch(`collect/${key}`);
    }
    if (before === undefined || JSON.stringify(before.evicting) !== JSON.stringify(evicting)) {
      for (const key of this.#podsOn(name)) this.#queue.touch(`evict/${key}`);
    }
  }

  sawSign(node: string, isStarting = false): void {
    const now = this.#deps.clock.now() + (isStarting ? startMsMax - silenceMsMax : 0);
    this.#signsAtMs.set(node, now);
    this.#lookAt(`silent/${node}`, now + silenceMsMax);
  }

  knows(podKey: string): boolean {
    return this.#places.has(podKey);
  }

  podSeen(key: string, { spec }: Pod): void {
    const { nodeName = '' } = spec;
    if (nodeName === '') return;
    this.#places.set(key, nodeName);
    const node = this.#nodes.get(nodeName);
    if (node === undefined) this.#watchOrphan(key);
    else if (node.evicting.length > 0) this.#queue.touch(`evict/${key}`);
  }

  podEnding(key: string): void {
    if (this.#nodes.get(this.#places.get(key) ?? '')?.isOutOfService === true) this.#queue.touch(`collect/${key}`);
  }

  podFinished(key: string): void {
    this.#finished.add(key);
    if (this.#finished.size > finishedMax) this.#queue.touch('finished/');
  }

  podGone(key: string): void {
    this.#places.delete(key);
    this.#finished.delete(key);
    this.#evictedSinceMs.delete(key);
    this.#lookAt(`evict/${key}`, undefined);
    this.#lookAt(`collect/${key}`, undefined);
  }

  #podsOn(node: string): readonly string[] {
    return [...this.#places].filter(([, place]) => place === node).map(([key]) => key);
  }

  #watchOrphan(key: string): void {
    this.#lookAt(`collect/${key}`, this.#deps.clock.now() + quarantineMs);
  }

  /** At this time, and not at the one that was set before; undefined: never. */
  #lookAt(key: string, atMs: number | undefined): void {
    this.#due.get(key)?.cancel();
    this.#due.delete(key);
    if (atMs === undefined) return;
    const fire = (): void => {
      this.#due.delete(key);
      this.#queue.touch(key);
    };
    this.#due.set(key, this.#timers.at(atMs, fire));
  }

  async #look(key: string): Promise<void> {
    const at = key.indexOf('/');
    const [what, rest] = [key.slice(0, at), key.slice(at + 1)];
    if (what === 'silent') return this.#lookAtNode(rest);
    if (what === 'finished') return this.#collectFinished();
    return what === 'evict' ? this.#evict(rest) : this.#collect(rest);
  }

  async #lookAtNode(name: string): Promise<void> {
    const { clock } = this.#deps;
    const silentMs = clock.now() - (this.#signsAtMs.get(name) ?? clock.now());
    if (!this.#nodes.has(name) || silentMs < silenceMsMax) return;
    const key = this.#cluster.keyOf(coreKind(this.#cluster, 'Node'), '', name);
    let wasReady: Node | undefined;
    const change = (object: Node): Node => {
      const isReady = object.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
      wasReady = isReady === true ? object : undefined;
      return silenced(object, timestamp(clock.now()));
    };
    await unlessRefused(this.#cluster.update(key, change, 'status'), 404);
    if (wasReady !== undefined) {
      await this.#events.record(coreKind(this.#cluster, 'Node'), wasReady, {
        type: 'Normal',
        reason: 'NodeNotReady',
        message: `Node ${name} status is now: NodeNotReady`,
      });
    }
    // Also where the node is unknown already: an earlier look may have failed here.
    for (const pod of this.#podsOn(name)) await this.#markNotReady(pod);
  }

  async #markNotReady(key: string): Promise<void> {
    const time = timestamp(this.#deps.clock.now());
    let marked: Pod | undefined;
    const change = (object: KubeObject): KubeObject => {
      const pod = object as Pod;
      const ready = pod.status?.conditions?.find(({ type }) => type === 'Ready');
      marked = undefined;
      if (ready?.status !== 'True') return object;
      const conditions = pod.status?.conditions?.map((one) =>
        one === ready ? { ...one, status: 'False', lastTransitionTime: time } : one,
      );
      marked = { ...pod, status: { ...pod.status, ...(conditions && { conditions }) } };
      return marked;
    };
    await unlessRefused(this.#cluster.update(key, change, 'status'), 404);
    if (marked === undefined) return;
    const news = { type: 'Warning', reason: 'NodeNotReady', message: 'Node is not ready' } as const;
    await this.#events.record(coreKind(this.#cluster, 'Pod'), marked, news);
  }

  /** Now, later, or not at all: decided anew whenever the taints of its node change. */
  async #evict(key: string): Promise<void> {
    const { clock } = this.#deps;
    const taints = this.#nodes.get(this.#places.get(key) ?? '')?.evicting ?? [];
    const pod = (await this.#cluster.get(key)) as Pod | undefined;
    const sinceMs = this.#evictedSinceMs.get(key) ?? clock.now();
    const atMs = pod === undefined ? undefined : evictionMs(pod, taints, sinceMs);
    const { namespace = '', name, uid, deletionTimestamp } = pod?.metadata ?? { name: '' };
    const record = (message: string): Promise<void> =>
      this.#evictionEvents.record(coreKind(this.#cluster, 'Pod'), pod ?? { metadata: { name } }, {
        type: 'Normal',
        reason: 'TaintManagerEviction',
        message: `${message} Pod ${namespace}/${name}`,
      });
    if (pod === undefined || deletionTimestamp !== undefined || atMs === undefined) {
      this.#lookAt(`evict/${key}`, undefined);
      const wasDue = this.#evictedSinceMs.delete(key);
      return pod !== undefined && deletionTimestamp === undefined && wasDue
        ? record('Cancelling deletion of')
        : undefined;
    }
    this.#evictedSinceMs.set(key, sinceMs);
    if (atMs > clock.now()) return this.#lookAt(`evict/${key}`, atMs);
    await record('Marking for deletion');
    await this.#disrupt(key, 'DeletionByTaintManager', 'Taint manager: deleting due to NoExecute taint');
    await unlessRefused(this.#cluster.delete(key, uid === undefined ? {} : { uid }), 404, 409);
  }

  /** Deletes a pod whose node is gone, never was, or is out of service while the pod ends: no kubelet would ever end it. */
  async #collect(key: string): Promise<void> {
    const pod = (await this.#cluster.get(key)) as Pod | undefined;
    const nodeName = pod?.spec.nodeName ?? '';
    if (pod === undefined || nodeName === '') return;
    const known = this.#nodes.get(nodeName);
    if (known !== undefined && (!known.isOutOfService || pod.metadata.deletionTimestamp === undefined)) return;
    const node = this.#cluster.keyOf(coreKind(this.#cluster, 'Node'), '', nodeName);
    if (known === undefined && (await this.#cluster.get(node)) !== undefined) return;
    if (known === undefined && !isOver(pod)) {
      await this.#disrupt(key, 'DeletionByPodGC', 'PodGC: node no longer exists', 'Failed');
    }
    return this.#deleteNow(key, pod);
  }

  /** The oldest ones beyond the number that is kept. */
  async #collectFinished(): Promise<void> {
    for (const key of this.#finished) {
      if (this.#finished.size <= finishedMax) return;
      const pod = (await this.#cluster.get(key)) as Pod | undefined;
      this.#finished.delete(key);
      if (pod !== undefined && isOver(pod)) await this.#deleteNow(key, pod);
    }
  }

  async #deleteNow(key: string, pod: Pod): Promise<void> {
    if (!isOver(pod)) {
      const fail = (object: KubeObject): KubeObject => {
        const current = object as Pod;
        return isOver(current)
          ? current
          : ({ ...current, status: { ...current.status, phase: 'Failed' } } as KubeObject);
      };
      await unlessRefused(this.#cluster.update(key, fail, 'status'), 404);
    }
    const { uid } = pod.metadata;
    await unlessRefused(
      this.#cluster.delete(key, uid === undefined ? {} : { uid }, { gracePeriodSeconds: 0 }),
      404,
      409,
    );
  }

  async #disrupt(key: string, reason: string, message: string, phase?: string): Promise<void> {
    const type = 'DisruptionTarget';
    const condition = { type, status: 'True', lastTransitionTime: timestamp(this.#deps.clock.now()), reason, message };
    const change = (object: KubeObject): KubeObject => {
      const pod = object as Pod;
      const others = (pod.status?.conditions ?? []).filter((one) => one.type !== type);
      const status = { ...pod.status, conditions: [...others, condition], ...(phase && !isOver(pod) && { phase }) };
      return { ...pod, status } as KubeObject;
    };
    await unlessRefused(this.#cluster.update(key, change, 'status'), 404);
  }
}

/** The node as one that no longer reports; the same object when its conditions say so already. */
export function silenced(node: Node, time: string): Node {
  const before = node.status?.conditions ?? [];
  const isSaid = conditionTypes.every((type) => before.some((one) => one.type === type && one.status === 'Unknown'));
  if (isSaid) return node;
  const unknown = conditionTypes.map((type) => {
    const known = before.find((one) => one.type === type);
    if (known?.status === 'Unknown') return known;
    const [reason, message] =
      known === undefined
        ? ['NodeStatusNeverUpdated', 'Kubelet never posted node status.']
        : ['NodeStatusUnknown', 'Kubelet stopped posting node status.'];
    return { ...known, type, status: 'Unknown', reason, message, lastTransitionTime: time };
  });
  const others = before.filter(({ type }) => !conditionTypes.includes(type));
  return { ...node, status: { ...node.status, conditions: [...others, ...unknown] } };
}

/** When a pod has to leave a node with these taints, the first of which was seen at `sinceMs`; undefined: never. */
export function evictionMs(
  { spec: { tolerations = [] } }: Pod,
  taints: readonly Taint[],
  sinceMs: number,
): number | undefined {
  const ends = taints.map((taint) => {
    // Of several tolerations the first counts.
    const tolerated = tolerations.find((one) => tolerates(one, taint));
    if (tolerated === undefined) return sinceMs;
    const { tolerationSeconds: seconds } = tolerated;
    return seconds === undefined
      ? Infinity
      : (Date.parse(taint.timeAdded ?? '') || sinceMs) + Math.max(0, seconds) * 1000;
  });
  const first = Math.min(...ends);
  return first === Infinity ? undefined : first;
}
