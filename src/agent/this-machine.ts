/** This machine as a Node object, for pods whose manifests bring none. */
import { availableParallelism, networkInterfaces, totalmem } from 'node:os';
import { statfsSync } from 'node:fs';
import type { Node } from '../kube/objects/node.ts';

/** `root` is where pods live: its file system is what their ephemeral storage comes from. */
export function thisMachine(name: string, root: string): Node {
  const { bsize, blocks } = statfsSync(root);
  const resources = {
    cpu: String(availableParallelism()),
    memory: String(totalmem()),
    'ephemeral-storage': String(bsize * blocks),
  };
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name },
    status: { capacity: resources, allocatable: resources, addresses: addresses(name) },
  };
}

function addresses(name: string): readonly { type: string; address: string }[] {
  const found = Object.values(networkInterfaces())
    .flatMap((all) => all ?? [])
    .filter(({ internal, scopeid }) => !internal && (scopeid ?? 0) === 0)
    .map(({ address }) => ({ type: 'InternalIP', address }));
  return [
    ...(found.length > 0 ? found : [{ type: 'InternalIP', address: '127.0.0.1' }]),
    { type: 'Hostname', address: name },
  ];
}
