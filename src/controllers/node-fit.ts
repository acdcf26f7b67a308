/** Whether a pod may run on a node, and if not, why, in the scheduler's words. Pure. */
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { selectsNode, tolerates } from '../kube/references/node-affinity.ts';

/** Undefined: it fits. */
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
