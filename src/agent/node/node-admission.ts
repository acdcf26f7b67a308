/** Whether this node takes a pod that was bound to it: nobody else may have looked, as for static pods and explicit node names. */
import { nodeSelectorMatches } from '../../kube/node-affinity.ts';
import type { Node } from '../../kube/objects/node.ts';
import type { Pod } from '../../kube/objects/pod.ts';
import type { Eviction } from '../../pods/workers/pod-steps.ts';

export interface AdmissionSettings {
  readonly podsMax: number;
}

/** `others` are the pods that are here besides it. Answers why it cannot stay, in the kubelet's words. */
export function refusePod(
  pod: Pod,
  others: number,
  node: Node | undefined,
  { podsMax }: AdmissionSettings,
): Eviction | undefined {
  if (others >= podsMax) {
    const message = `Node didn't have enough resource: pods, requested: 1, used: ${others}, capacity: ${podsMax}`;
    return { reason: 'OutOfpods', message };
  }
  const { nodeSelector = {}, affinity } = pod.spec;
  const { name, labels = {} } = node?.metadata ?? { name: '' };
  const required = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const isMeant =
    node === undefined ||
    (Object.entries(nodeSelector).every(([key, value]) => labels[key] === value) &&
      (required === undefined || nodeSelectorMatches(required, { name, labels })));
  if (isMeant) return undefined;
  return {
    reason: 'NodeAffinity',
    message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
  };
}
