/** Annotates nodes with how long they may trust what they have read; in a cluster this small not at all. */
import type { KubeObject } from '../kube/schema/kind.ts';
import { type ControllerDeps, coreKind, unlessRefused } from './cluster/cluster.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'ttl-controller';
const annotation = 'node.alpha.kubernetes.io/ttl';
const seconds = '0';

export async function runNodeTtl(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  const stop = cluster.watch(coreKind(cluster, 'Node'), ({ key, type, object }) => {
    if (type === 'put' && !isMarked(object)) queue.touch(key);
  });
  const look = async (key: string): Promise<void> => {
    const node = await cluster.get(key);
    if (node !== undefined && !isMarked(node)) await unlessRefused(cluster.update(key, marked), 404);
  };
  try {
    await queue.run(look, signal);
  } finally {
    stop();
  }
}

function isMarked({ metadata }: KubeObject): boolean {
  return metadata.annotations?.[annotation] !== undefined;
}

function marked(node: KubeObject): KubeObject {
  const { metadata } = node;
  return { ...node, metadata: { ...metadata, annotations: { ...metadata.annotations, [annotation]: seconds } } };
}
