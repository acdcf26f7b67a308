/**
 * Keeps new pods from nodes that are short of something, do not answer, or are closed to them, and ends those that do not tolerate a
 * failed node: nodes say so in conditions, and schedulers look at taints.
 *
 * Where no node at all is ready no pod has to leave: there is no better place, and more likely the fault is on this side.
 */
import type { Node } from '../kube/kinds/node.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { timestamp } from '../kube/values/times.ts';
import { type ControllerDeps, coreKind, unlessRefused } from './cluster/cluster.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'node-controller';
const prefix = 'node.kubernetes.io/';

type Taint = NonNullable<NonNullable<Node['spec']>['taints']>[number];

/** Type and status of a condition, and the taint that follows. */
const causes: readonly (readonly [type: string, status: string, taint: string, effects: readonly string[]])[] = [
  ['Ready', 'False', 'not-ready', ['NoSchedule', 'NoExecute']],
  ['Ready', 'Unknown', 'unreachable', ['NoSchedule', 'NoExecute']],
  ['MemoryPressure', 'True', 'memory-pressure', ['NoSchedule']],
  ['DiskPressure', 'True', 'disk-pressure', ['NoSchedule']],
  ['PIDPressure', 'True', 'pid-pressure', ['NoSchedule']],
  ['NetworkUnavailable', 'True', 'network-unavailable', ['NoSchedule']],
];
const unschedulable = 'unschedulable';
const ours: ReadonlySet<string> = new Set([
  ...causes.flatMap(([, , taint, effects]) => effects.map((effect) => `${prefix}${taint}:${effect}`)),
  `${prefix}${unschedulable}:NoSchedule`,
]);

export async function runNodeTaints(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  /** Keys of nodes, and whether each is ready. */
  const nodes = new Map<string, boolean>();
  const isAnyReady = (): boolean => [...nodes.values()].includes(true);
  const taint = (node: KubeObject): KubeObject => tainted(node, timestamp(deps.clock.now()), isAnyReady());
  const stop = cluster.watch(coreKind(cluster, 'Node'), ({ key, type, object }) => {
    const before = isAnyReady();
    const { status }: Node = object;
    const isReady = status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') ?? false;
    if (type === 'put') nodes.set(key, isReady);
    else nodes.delete(key);
    if (isAnyReady() !== before) for (const node of nodes.keys()) queue.touch(node);
    else if (type === 'put' && taint(object) !== object) queue.touch(key);
  });
  try {
    await queue.run((node) => unlessRefused(cluster.update(node, taint), 404), signal);
  } finally {
    stop();
  }
}

/** The node with the taints it should have; the same object when nothing is wrong. */
export function tainted(node: Node, time: string, isAnyReady: boolean): Node {
  const taints = node.spec?.taints ?? [];
  const wanted = wantedTaints(node).filter(({ effect }) => effect !== 'NoExecute' || isAnyReady);
  const kept = taints.filter(
    (taint) => !ours.has(nameOf(taint)) || wanted.some((one) => nameOf(one) === nameOf(taint)),
  );
  const missing = wanted.filter((one) => !taints.some((taint) => nameOf(taint) === nameOf(one)));
  if (missing.length === 0 && kept.length === taints.length) return node;
  const now = [...kept, ...missing.map((taint) => ({ ...taint, timeAdded: time }))];
  const { taints: _before, ...spec } = node.spec ?? {};
  return { ...node, spec: { ...spec, ...(now.length > 0 && { taints: now }) } };
}

function wantedTaints({ spec, status }: Node): readonly Taint[] {
  const conditions = status?.conditions ?? [];
  const found = causes.flatMap(([type, is, taint, effects]) =>
    conditions.some((one) => one.type === type && one.status === is)
      ? effects.map((effect) => ({ key: `${prefix}${taint}`, effect }))
      : [],
  );
  return spec?.unschedulable === true ? [...found, { key: `${prefix}${unschedulable}`, effect: 'NoSchedule' }] : found;
}

function nameOf({ key, effect }: Taint): string {
  return `${key}:${effect}`;
}
