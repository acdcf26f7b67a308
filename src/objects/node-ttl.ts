/** How long a node may use a copy of an object, as the cluster's TTL controller says by the number of its nodes. */
import type { Node } from '../kube/kinds/node.ts';

const ttlAnnotation = 'node.alpha.kubernetes.io/ttl';

/** Undefined when the node says nothing, or no whole number. Zero is an answer: never use a copy. */
export function ttlMsOfNode(node: Node | undefined): number | undefined {
  const text = node?.metadata.annotations?.[ttlAnnotation];
  return text !== undefined && /^[+-]?\d+$/.test(text) ? Number(text) * 1000 : undefined;
}
