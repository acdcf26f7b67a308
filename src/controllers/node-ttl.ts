/** Tells nodes by an annotation how long they may trust what they have read; in a cluster this small not at all. */
import type { KubeObject } from '../apiserver/model/resource.ts';
import { objectKey, objectPrefix, placeOfKey } from '../apiserver/model/stored-objects.ts';
import { updateObject } from '../apiserver/rest/update.ts';
import {
  type ControllerDeps,
  controllerContext,
  coreResource,
  followObjects,
  readObjectAt,
  unlessRefused,
} from './cluster.ts';
import { WorkQueue } from './work-queue.ts';

const controller = 'ttl-controller';
const annotation = 'node.alpha.kubernetes.io/ttl';
const seconds = '0';

export async function runNodeTtl(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const nodes = coreResource(deps.resources, 'nodes');
  const queue = new WorkQueue(controller, deps);
  const stop = followObjects(deps.store, objectPrefix(nodes), ({ key, type, object }) => {
    if (type === 'put' && !isMarked(object)) queue.touch(placeOfKey(key).name);
  });
  const look = async (name: string): Promise<void> => {
    const node = readObjectAt(deps.store, objectKey(nodes, '', name));
    if (node === undefined || isMarked(node)) return;
    const context = controllerContext(controller, signal);
    const update = { resource: nodes, namespace: '', name, subresource: '', context, change: marked };
    await unlessRefused(updateObject(deps, update), 404);
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
