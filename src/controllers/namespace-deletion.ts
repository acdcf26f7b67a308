/** Empties namespaces that are to end, and lets them go when nothing is left in them. */
import type { KubeObject, Resource } from '../apiserver/model/resource.ts';
import { objectKey, objectPrefix, placeOfKey } from '../apiserver/model/stored-objects.ts';
import { deleteObject } from '../apiserver/rest/delete.ts';
import { updateObject } from '../apiserver/rest/update.ts';
import type { Namespace } from '../kube/kinds/namespace.ts';
import {
  type ControllerDeps,
  controllerContext,
  coreResource,
  readObjectAt,
  storedResources,
  unlessRefused,
} from './cluster.ts';
import { WorkQueue } from './work-queue.ts';

const controller = 'namespace-controller';
const ownFinalizer = 'kubernetes';
// Enough to share commits, too few to fill the store's queue.
const deletionsAtOnce = 100;

export async function runNamespaceDeletion(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const { store, resources } = deps;
  const queue = new WorkQueue(controller, deps);
  const namespaces = coreResource(resources, 'namespaces');
  const prefix = objectPrefix(namespaces);
  const stop = store.subscribe((changes) => {
    for (const { key, type } of changes) {
      if (key.startsWith(prefix)) queue.touch(placeOfKey(key).name);
      // The last object of a namespace that waits for it may have gone.
      else if (type === 'delete') queue.touch(placeOfKey(key).namespace);
    }
  });
  for (const { key } of store.list({ prefix, leavesOutDamaged: true }).items) queue.touch(placeOfKey(key).name);
  try {
    await queue.run((namespace) => look(deps, namespaces, namespace, signal), signal);
  } finally {
    stop();
  }
}

async function look(deps: ControllerDeps, namespaces: Resource, namespace: string, signal: AbortSignal): Promise<void> {
  if (namespace === '') return;
  const home: Namespace | undefined = readObjectAt(deps.store, objectKey(namespaces, '', namespace));
  // Something may have been created in the moment the namespace went: it goes too.
  const isEnding = home === undefined || home.metadata.deletionTimestamp !== undefined;
  if (!isEnding) return;
  const kinds = storedResources(deps.resources).filter(({ namespaced }) => namespaced);
  for (const resource of kinds) await empty(deps, resource, namespace, signal);
  const isEmpty = kinds.every(
    (resource) => deps.store.list({ prefix: objectPrefix(resource, namespace), limit: 1 }).items.length === 0,
  );
  const { finalizers = [] } = home?.spec ?? {};
  if (home === undefined || !isEmpty || !finalizers.includes(ownFinalizer)) return;
  await letGo(deps, namespaces, home, signal);
}

async function empty(deps: ControllerDeps, resource: Resource, namespace: string, signal: AbortSignal): Promise<void> {
  const { user } = controllerContext(controller, signal);
  const { items } = deps.store.list({ prefix: objectPrefix(resource, namespace) });
  for (let start = 0; start < items.length; start += deletionsAtOnce) {
    const batch = items.slice(start, start + deletionsAtOnce).map(({ key }) => {
      const { name } = placeOfKey(key);
      const options = { propagationPolicy: 'Background' };
      const context = { user, dryRun: false };
      return unlessRefused(deleteObject(deps, { resource, namespace, name, options, context }), 404);
    });
    await Promise.all(batch);
  }
}

async function letGo(deps: ControllerDeps, namespaces: Resource, home: Namespace, signal: AbortSignal): Promise<void> {
  const { name, uid } = home.metadata;
  const without = (object: KubeObject): Namespace => {
    const { spec, ...rest } = object as Namespace;
    return { ...rest, spec: { ...spec, finalizers: (spec?.finalizers ?? []).filter((one) => one !== ownFinalizer) } };
  };
  const update = updateObject(deps, {
    resource: namespaces,
    namespace: '',
    name,
    subresource: 'finalize',
    context: controllerContext(controller, signal),
    change: (current) => (current.metadata.uid === uid ? without(current) : current),
  });
  await unlessRefused(update, 404);
}
