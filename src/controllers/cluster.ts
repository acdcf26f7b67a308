/**
 * What all controllers share: they look at what is, not at what happened, and put right what is not as it should be. A change
 * only tells them which keys to look at again, so a doubled or missed one does no harm, and after a restart they look at all.
 */
import { type User, wellKnownGroups } from '../apiserver/identity/user.ts';
import type { Notify } from '../apiserver/model/notices.ts';
import type { KubeObject, Resource, ResourceTable } from '../apiserver/model/resource.ts';
import { StatusError } from '../apiserver/model/status.ts';
import { parseStored } from '../apiserver/model/stored-objects.ts';
import type { WriteContext, WriteDeps } from '../apiserver/rest/write-context.ts';
import type { Change, Store } from '../apiserver/store/store.ts';

export interface ControllerDeps extends WriteDeps {
  readonly store: Store;
  readonly resources: ResourceTable;
  readonly notify: Notify;
}

interface Sighting {
  readonly key: string;
  readonly type: Change['type'];
  /** Of a deletion, the last content. */
  readonly object: KubeObject;
}

/** Tells of every object below the prefix, first of those that are there, then of each change. Returns how to stop. */
export function followObjects(store: Store, prefix: string, see: (sighting: Sighting) => void): () => void {
  const stop = store.subscribe((changes) => {
    for (const { key, type, value } of changes) {
      if (key.startsWith(prefix)) see(sighting(key, type, value));
    }
  });
  for (const { key, value } of store.list({ prefix, leavesOutDamaged: true }).items) see(sighting(key, 'put', value));
  return stop;
}

/** Parsed when somebody looks: a key is often all they want to know. */
function sighting(key: string, type: Change['type'], value: string): Sighting {
  return {
    key,
    type,
    get object() {
      return parseStored(value);
    },
  };
}

export function readObjectAt(store: Store, key: string): KubeObject | undefined {
  const stored = store.get(key);
  return stored === undefined ? undefined : parseStored(stored.value);
}

/** A controller of this server is one of its masters. */
export function controllerUser(name: string): User {
  return { name: `system:controller:${name}`, uid: '', groups: [wellKnownGroups.masters], extra: {} };
}

export function controllerContext(name: string, signal: AbortSignal): WriteContext {
  return { user: controllerUser(name), manager: name, dryRun: false, isController: true, signal };
}

/** A kind that the server cannot be without. */
export function coreResource(resources: ResourceTable, plural: string): Resource {
  const found = resources.byPlural({ group: '', version: 'v1' }, plural);
  if (found === undefined) throw new Error(`the table of resources has no ${plural}`);
  return found;
}

/** Resources whose objects are in the store under their own name. */
export function storedResources(resources: ResourceTable): readonly Resource[] {
  return resources.all.filter(({ isStored, viewOf }) => isStored && viewOf === undefined);
}

/** Somebody else was faster, which is as good: `codes` are the refusals that say so. */
export async function unlessRefused(write: Promise<unknown>, ...codes: readonly number[]): Promise<void> {
  try {
    await write;
  } catch (error) {
    if (!(error instanceof StatusError) || !codes.includes(error.code)) throw error;
  }
}
