/** Keeps new pods from nodes whose disks are short: the node says so in a condition, and the scheduler looks at taints. */
import type { Node } from '../kube/kinds/node.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { timestamp } from '../kube/values/times.ts';
import { type ControllerDeps, coreKind, unlessRefused } from './cluster/cluster.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'node-controller';
const key = 'node.kubernetes.io/disk-pressure';
const effect = 'NoSchedule';

type Taint = NonNullable<NonNullable<Node['spec']>['taints']>[number];

export async function runNodeTaints(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  const taint = (node: KubeObject): KubeObject => tainted(node, timestamp(deps.clock.now()));
  const stop = cluster.watch(coreKind(cluster, 'Node'), ({ key: node, type, object }) => {
    if (type === 'put' && taint(object) !== object) queue.touch(node);
  });
  try {
    await queue.run((node) => unlessRefused(cluster.update(node, taint), 404), signal);
  } finally {
    stop();
  }
}

/** The node with the taint it should have; the same object when nothing is wrong. */
export function tainted(node: Node, time: string): Node {
  const isShort =
    node.status?.conditions?.some(({ type, status }) => type === 'DiskPressure' && status === 'True') ?? false;
  const taints = node.spec?.taints ?? [];
  const others = taints.filter((taint) => !isOurs(taint));
  if (isShort === others.length < taints.length) return node;
  const now = isShort ? [...others, { key, effect, timeAdded: time }] : others;
  const { taints: _before, ...spec } = node.spec ?? {};
  return { ...node, spec: { ...spec, ...(now.length > 0 && { taints: now }) } };
}

function isOurs(taint: Taint): boolean {
  return taint.key === key && taint.effect === effect;
}
