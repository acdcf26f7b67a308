/** This machine as a Node object, for pods whose manifests bring none. */
import type { Node } from '../kube/kinds/node.ts';
import { machineFacts } from './machine-facts.ts';

/** `root` is where pods live. */
export function thisMachine(name: string, root: string): Node {
  const { capacity, internalAddresses } = machineFacts(root, undefined);
  const addresses = [
    ...internalAddresses.map((address) => ({ type: 'InternalIP', address })),
    { type: 'Hostname', address: name },
  ];
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name },
    status: { capacity, allocatable: capacity, addresses },
  };
}
