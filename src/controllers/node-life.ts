/**
 * Notices nodes that have fallen silent, and what follows from it: their conditions become Unknown, pods there are not ready, and
 * those that do not tolerate it are deleted when their time is up. Pods of nodes that are no longer there are collected.
 *
 * A node shows that it lives by its lease, or by its status. When that was is measured here: clocks of others are not believed.
 */
import { type Timer, Timers } from '../base/timers.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { tolerates } from '../kube/references/node-affinity.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { timestamp } from '../kube/values/times.ts';
import { type Cluster, type ControllerDeps, coreKind, kindNamed, unlessRefused } from './cluster/cluster.ts';
import { ControllerEvents } from './cluster/events.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'node-controller';
/** A node renews its lease every 10 s, and may miss some. */
const silenceMsMax = 50_000;
/** A pod may be there before its node. */
const quarantineMs = 40_000;
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
      if (change.type === 'delete') life.podGone(change.key);
      // A pod keeps its node: a large one is read once.
      else if (!life.knows(change.key)) life.podSeen(change.key, change.object as Pod);
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
}

class NodeLife {
  readonly #deps: ControllerDeps;
  readonly #cluster: Cluster;
  readonly #events: ControllerEvents;
  /** Keys `silent/NODE`, `evict/POD KEY`, `collect/POD KEY`. */
  readonly #queue: WorkQueue;
  readonly #nodes = new Map<string, KnownNode>();
  readonly #signsAtMs = new Map<string, number>();
  /** By the key of a pod: its node. */
  readonly #places = new Map<string, string>();
  readonly #timers: Timers;
  /** By the key of what is to be looked at then. */
  readonly #due = new Map<string, Timer>();

  constructor(deps: ControllerDeps, cluster: Cluster) {
    this.#deps = deps;
    this.#cluster = cluster;
    this.#events = new ControllerEvents(controller, deps, cluster);
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
    const heartbeat = node.status?.conditions?.find(({ type }) => type === 'Ready')?.lastHeartbeatTime;
    const evicting = (node.spec?.taints ?? []).filter(({ effect }) => effect === 'NoExecute');
    this.#nodes.set(name, { heartbeat, evicting });
    if (before?.heartbeat !== heartbeat || before === undefined) this.sawSign(name);
    if (before === undefined || JSON.stringify(before.evicting) !== JSON.stringify(evicting)) {
      for (const key of this.#podsOn(name)) this.#queue.touch(`evict/${key}`);
    }
  }

  sawSign(node: string): void {
    const now = this.#deps.clock.now();
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

  podGone(key: string): void {
    this.#places.delete(key);
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
    return what === 'evict' ? this.#evict(rest) : this.#collect(rest);
  }

  async #lookAtNode(name: string): Promise<void> {
    const { clock } = this.#deps;
    const silentMs = clock.now() - (this.#signsAtMs.get(name) ?? clock.now());
    if (!this.#nodes.has(name) || silentMs < silenceMsMax) return;
    const key = this.#cluster.keyOf(coreKind(this.#cluster, 'Node'), '', name);
    let node: Node | undefined;
    const change = (object: KubeObject): KubeObject => {
      const next = silenced(object, timestamp(clock.now()));
      node = next === object ? undefined : next;
      return next;
    };
    await unlessRefused(this.#cluster.update(key, change, 'status'), 404);
    if (node === undefined) return;
    await this.#events.record(coreKind(this.#cluster, 'Node'), node, {
      type: 'Normal',
      reason: 'NodeNotReady',
      message: `Node ${name} status is now: NodeNotReady`,
    });
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
    const atMs = pod === undefined ? undefined : evictionMs(pod, taints, clock.now());
    if (pod === undefined || pod.metadata.deletionTimestamp !== undefined || atMs === undefined) {
      return this.#lookAt(`evict/${key}`, undefined);
    }
    if (atMs > clock.now()) return this.#lookAt(`evict/${key}`, atMs);
    const { namespace = '', name, uid } = pod.metadata;
    await this.#events.record(coreKind(this.#cluster, 'Pod'), pod, {
      type: 'Normal',
      reason: 'TaintManagerEviction',
      message: `Marking for deletion Pod ${namespace}/${name}`,
    });
    await this.#disrupt(key, 'DeletionByTaintManager', 'Taint manager: deleting due to NoExecute taint');
    await unlessRefused(this.#cluster.delete(key, uid === undefined ? {} : { uid }), 404, 409);
  }

  /** Of a pod whose node is gone, or never was: nobody else would ever end it. */
  async #collect(key: string): Promise<void> {
    const pod = (await this.#cluster.get(key)) as Pod | undefined;
    const nodeName = pod?.spec.nodeName ?? '';
    if (pod === undefined || nodeName === '' || this.#nodes.has(nodeName)) return;
    const node = this.#cluster.keyOf(coreKind(this.#cluster, 'Node'), '', nodeName);
    if ((await this.#cluster.get(node)) !== undefined) return;
    await this.#disrupt(key, 'DeletionByPodGC', 'PodGC: node no longer exists', 'Failed');
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
      const isOver = pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
      const status = { ...pod.status, conditions: [...others, condition], ...(phase && !isOver && { phase }) };
      return { ...pod, status } as KubeObject;
    };
    await unlessRefused(this.#cluster.update(key, change, 'status'), 404);
  }
}

/** The node as one that nobody has heard of; the same object when that is said already. */
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

/** When a pod has to leave a node with these taints; undefined: never. */
export function evictionMs(
  { spec: { tolerations = [] } }: Pod,
  taints: readonly Taint[],
  now: number,
): number | undefined {
  const ends = taints.map((taint) => {
    const tolerated = tolerations.filter((one) => tolerates(one, taint));
    if (tolerated.length === 0) return now;
    const seconds = tolerated.flatMap(({ tolerationSeconds }) => tolerationSeconds ?? []);
    if (seconds.length === 0) return Infinity;
    const sinceMs = Date.parse(taint.timeAdded ?? '') || now;
    return sinceMs + Math.max(0, Math.min(...seconds)) * 1000;
  });
  const first = Math.min(...ends);
  return first === Infinity ? undefined : first;
}
