/**
 * Deletes objects whose owners are all gone, and carries out what a deletion wants of dependents: `foregroundDeletion` waits for
 * those that block it, `orphan` lets them live without their owner.
 */
import type { KubeObject, Resource } from '../apiserver/model/resource.ts';
import { objectKey, parseStored, placeOfKey } from '../apiserver/model/stored-objects.ts';
import { deleteObject } from '../apiserver/rest/delete.ts';
import { updateObject } from '../apiserver/rest/update.ts';
import type { Change } from '../apiserver/store/store.ts';
import type { ObjectMeta, OwnerReference } from '../kube/schema/meta.ts';
import { type ControllerDeps, controllerContext, readObjectAt, storedResources, unlessRefused } from './cluster.ts';
import { OwnerIndex } from './owner-index.ts';
import { WorkQueue } from './work-queue.ts';

const controller = 'generic-garbage-collector';
const foreground = 'foregroundDeletion';
const orphan = 'orphan';

export async function runGarbageCollector(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const collector = new Collector(deps, signal);
  const stop = deps.store.subscribe((changes) => {
    for (const change of changes) collector.see(change);
  });
  // An object that cannot be read is never judged, and as an owner it is not taken for gone: to look at it fails.
  for (const { key, value, revision } of deps.store.list({ prefix: '/registry/', leavesOutDamaged: true }).items) {
    collector.see({ type: 'put', key, value, revision, previous: undefined });
  }
  try {
    await collector.run();
  } finally {
    stop();
  }
}

class Collector {
  readonly #deps: ControllerDeps;
  readonly #signal: AbortSignal;
  readonly #queue: WorkQueue;
  readonly #index = new OwnerIndex();
  readonly #kinds: ReadonlyMap<string, Resource>;

  constructor(deps: ControllerDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#signal = signal;
    this.#queue = new WorkQueue(controller, deps);
    this.#kinds = new Map(storedResources(deps.resources).map((resource) => [kindKey(resource), resource]));
  }

  run(): Promise<void> {
    return this.#queue.run((key) => this.#look(key), this.#signal);
  }

  see({ type, key, value, previous }: Change): void {
    // Most objects have neither owners nor these finalizers; they are not even parsed.
    const mentions = (text: string): boolean => text.includes('"ownerReferences"') || text.includes(`"${orphan}"`);
    const isOfInterest = mentions(value) || value.includes(`"${foreground}"`);
    if (type === 'delete') {
      if (this.#index.isEmpty) return;
      const { metadata } = parseStored(value);
      this.#index.set(key, undefined);
      for (const dependent of this.#index.dependentsOf(metadata.uid ?? '')) this.#queue.touch(dependent);
      // An owner may be waiting for this one.
      for (const owner of metadata.ownerReferences ?? []) this.#touchOwner(owner, metadata);
    } else if (isOfInterest) {
      this.#index.set(key, parseStored(value));
      this.#queue.touch(key);
    } else if (previous !== undefined && this.#index.has(key)) this.#index.set(key, undefined);
  }

  #touchOwner(reference: OwnerReference, metadata: ObjectMeta): void {
    const key = this.#ownerKey(reference, metadata);
    if (key !== undefined) this.#queue.touch(key);
  }

  /** Undefined for kinds that this server does not know: it cannot say that such an owner is gone. */
  #ownerKey({ apiVersion, kind, name }: OwnerReference, { namespace = '' }: ObjectMeta): string | undefined {
    const resource = this.#deps.resources.byKind(apiVersion, kind);
    return resource && objectKey(resource.viewOf?.resource ?? resource, namespace, name);
  }

  async #look(key: string): Promise<void> {
    const object = readObjectAt(this.#deps.store, key);
    const resource = this.#resourceOf(key);
    if (object === undefined || resource === undefined) return;
    const { deletionTimestamp, finalizers = [] } = object.metadata;
    if (deletionTimestamp === undefined) return this.#judge(key, resource, object);
    if (finalizers.includes(orphan)) return this.#orphan(key, resource, object);
    if (finalizers.includes(foreground)) return this.#endInForeground(key, resource, object);
  }

  #resourceOf(key: string): Resource | undefined {
    return this.#kinds.get(kindKey(placeOfKey(key)));
  }

  /** Deletes an object that has lost all its owners, and takes the names of lost ones from one that has others. */
  async #judge(key: string, resource: Resource, { metadata }: KubeObject): Promise<void> {
    const references = metadata.ownerReferences ?? [];
    if (references.length === 0) return;
    const lost = references.filter((reference) => this.#ownerState(reference, metadata) === 'gone');
    const ending = references.filter((reference) => this.#ownerState(reference, metadata) === 'ending');
    if (lost.length + ending.length === references.length) return this.#delete(key, resource, metadata);
    if (lost.length > 0) await this.#update(key, resource, withoutOwners(new Set(lost.map(({ uid }) => uid))));
  }

  #ownerState(reference: OwnerReference, dependent: ObjectMeta): 'here' | 'ending' | 'gone' {
    const key = this.#ownerKey(reference, dependent);
    if (key === undefined) return 'here';
    const owner = readObjectAt(this.#deps.store, key);
    if (owner?.metadata.uid !== reference.uid) return 'gone';
    const { deletionTimestamp, finalizers = [] } = owner.metadata;
    return deletionTimestamp !== undefined && finalizers.includes(foreground) ? 'ending' : 'here';
  }

  async #orphan(key: string, resource: Resource, { metadata }: KubeObject): Promise<void> {
    const uid = metadata.uid ?? '';
    for (const dependent of this.#index.dependentsOf(uid)) {
      const kind = this.#resourceOf(dependent);
      if (kind !== undefined) await this.#update(dependent, kind, withoutOwners(new Set([uid])));
    }
    await this.#update(key, resource, withoutFinalizer(orphan));
  }

  async #endInForeground(key: string, resource: Resource, { metadata }: KubeObject): Promise<void> {
    const uid = metadata.uid ?? '';
    let isBlocked = false;
    for (const dependent of this.#index.dependentsOf(uid)) {
      const object = readObjectAt(this.#deps.store, dependent);
      const isBlocking = object?.metadata.ownerReferences?.some(
        (reference) => reference.uid === uid && reference.blockOwnerDeletion === true,
      );
      if (isBlocking !== true) continue;
      isBlocked = true;
      this.#queue.touch(dependent);
    }
    if (!isBlocked) await this.#update(key, resource, withoutFinalizer(foreground));
  }

  #delete(key: string, resource: Resource, { uid = '' }: ObjectMeta): Promise<void> {
    const { namespace, name } = placeOfKey(key);
    const { user } = controllerContext(controller, this.#signal);
    const options = { preconditions: { uid }, propagationPolicy: 'Background' };
    const context = { user, dryRun: false };
    return unlessRefused(deleteObject(this.#deps, { resource, namespace, name, options, context }), 404, 409);
  }

  #update(key: string, resource: Resource, change: (object: KubeObject) => KubeObject): Promise<void> {
    const { namespace, name } = placeOfKey(key);
    const context = controllerContext(controller, this.#signal);
    const update = { resource, namespace, name, subresource: '', context, change };
    return unlessRefused(updateObject(this.#deps, update), 404);
  }
}

function kindKey({ group, plural }: Pick<Resource, 'group' | 'plural'>): string {
  return `${group}/${plural}`;
}

function withoutFinalizer(name: string): (object: KubeObject) => KubeObject {
  return (object) => {
    const { finalizers = [], ...metadata } = object.metadata;
    const others = finalizers.filter((one) => one !== name);
    return { ...object, metadata: { ...metadata, ...(others.length > 0 && { finalizers: others }) } };
  };
}

function withoutOwners(uids: ReadonlySet<string>): (object: KubeObject) => KubeObject {
  return (object) => {
    const { ownerReferences = [], ...metadata } = object.metadata;
    const others = ownerReferences.filter(({ uid }) => !uids.has(uid));
    return { ...object, metadata: { ...metadata, ...(others.length > 0 && { ownerReferences: others }) } };
  };
}
