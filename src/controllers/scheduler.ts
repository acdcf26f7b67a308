/**
 * Gives pods without a node one: the first, by name, that is ready and that the pod may run on. Where there is none the pod says
 * why, and is looked at again when a node changes. It counts no resources: on one machine or a handful that is the user's call.
 */
import { nextTurn } from '../base/turns.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { selectsNode, tolerates } from '../kube/references/node-affinity.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { microTimestamp, timestamp } from '../kube/values/times.ts';
import { type Cluster, type ControllerDeps, coreKind, unlessRefused } from './cluster.ts';
import { WorkQueue } from './work-queue.ts';

const controller = 'default-scheduler';

export async function runScheduler(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  const known = { pending: new Set<string>(), bound: new Set<string>() };
  const stops = [
    cluster.watch(coreKind(cluster, 'Pod'), ({ key, type }) => {
      if (type === 'delete') known.bound.delete(key);
      // Its node reports its state again and again, and a large pod takes long to read.
      if (!known.bound.has(key)) queue.touch(key);
    }),
    cluster.watch(coreKind(cluster, 'Node'), () => {
      for (const key of known.pending) queue.touch(key);
    }),
  ];
  try {
    await queue.run((key) => schedule(deps, cluster, key, known), signal);
  } finally {
    for (const stop of stops) stop();
  }
}

/** Keys of pods. */
interface KnownPods {
  readonly pending: Set<string>;
  /** These have a node, which they keep until they are deleted. */
  readonly bound: Set<string>;
}

function isPending({ metadata, spec }: Pod): boolean {
  return (
    (spec.nodeName ?? '') === '' &&
    metadata.deletionTimestamp === undefined &&
    (spec.schedulerName ?? controller) === controller &&
    (spec.schedulingGates ?? []).length === 0
  );
}

async function schedule(
  deps: ControllerDeps,
  cluster: Cluster,
  key: string,
  { pending, bound }: KnownPods,
): Promise<void> {
  const pod = (await cluster.get(key)) as Pod | undefined;
  if ((pod?.spec.nodeName ?? '') !== '') bound.add(key);
  if (pod === undefined || !isPending(pod)) return void pending.delete(key);
  pending.add(key);
  const { namespace, name } = cluster.placeOf(key);
  const nodes = (await cluster.list(coreKind(cluster, 'Node'))).map(({ object }) => object as Node);
  const reasons = nodes.map((node) => misfit(pod, node));
  const node = nodes[reasons.indexOf(undefined)];
  if (node === undefined) {
    const message = unschedulableMessage(reasons.filter((reason) => reason !== undefined));
    await nextTurn(); // the update of a large pod takes milliseconds, and gets a turn for itself
    return reportUnschedulable(deps, cluster, key, pod, message);
  }
  await unlessRefused(cluster.bind(key, pod.metadata.uid ?? '', node.metadata.name), 404, 409);
  const message = `Successfully assigned ${namespace}/${name} to ${node.metadata.name}`;
  await record(deps, cluster, pod, { type: 'Normal', reason: 'Scheduled', message });
}

async function reportUnschedulable(
  deps: ControllerDeps,
  cluster: Cluster,
  key: string,
  pod: Pod,
  message: string,
): Promise<void> {
  const known = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
  if (known?.status === 'False' && known.message === message) return;
  const condition = {
    type: 'PodScheduled',
    status: 'False',
    lastTransitionTime: timestamp(deps.clock.now()),
    reason: 'Unschedulable',
    message,
  };
  const change = (current: KubeObject): KubeObject => {
    const { status, ...rest } = current as Pod;
    const others = (status?.conditions ?? []).filter(({ type }) => type !== 'PodScheduled');
    return { ...rest, status: { ...status, conditions: [...others, condition] } } as KubeObject;
  };
  await unlessRefused(cluster.update(key, change, 'status'), 404, 409);
  await record(deps, cluster, pod, { type: 'Warning', reason: 'FailedScheduling', message });
}

interface PodEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}

async function record(deps: ControllerDeps, cluster: Cluster, pod: Pod, news: PodEvent): Promise<void> {
  const { namespace = '', name, uid = '', resourceVersion = '' } = pod.metadata;
  const now = deps.clock.now();
  const event = {
    metadata: { name: `${name}.${deps.random.suffix(10)}`, namespace },
    involvedObject: { kind: 'Pod', namespace, name, uid, apiVersion: 'v1', resourceVersion },
    ...news,
    source: { component: controller },
    firstTimestamp: timestamp(now),
    lastTimestamp: timestamp(now),
    eventTime: microTimestamp(now),
    count: 1,
    action: news.type === 'Normal' ? 'Binding' : 'Scheduling',
    reportingComponent: controller,
    reportingInstance: controller,
  };
  // An event about a pod that is about to go is not missed.
  const created = cluster.create(coreKind(cluster, 'Event'), namespace, event);
  await unlessRefused(created, 403, 404, 409, 422);
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

/** `0/2 nodes are available: 1 node(s) were not ready, 1 node(s) were unschedulable.` */
export function unschedulableMessage(reasons: readonly string[]): string {
  if (reasons.length === 0) return 'no nodes available to schedule pods';
  const counts = new Map<string, number>();
  for (const reason of reasons) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  const texts = [...counts].map(([reason, count]) => `${count} ${reason}`).sort();
  return `0/${reasons.length} nodes are available: ${texts.join(', ')}.`;
}
