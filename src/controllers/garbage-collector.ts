/**
 * Deletes objects whose owners are all gone, and carries out what a deletion wants of dependents: `foregroundDeletion` waits for
 * those that block it, `orphan` lets them live without their owner.
 */
import type { KubeObject } from '../kube/schema/kind.ts';
import type { ObjectMeta, OwnerReference } from '../kube/schema/meta.ts';
import { type Cluster, type ControllerDeps, type ObjectChange, deleteSame, unlessRefused } from './cluster/cluster.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'generic-garbage-collector';
const foreground = 'foregroundDeletion';
const orphan = 'orphan';

export async function runGarbageCollector(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const collector = new Collector(cluster, deps);
  // Dependents that are not known yet would be taken for none.
  await cluster.ready(undefined);
  // An object that cannot be read is never judged, and as an owner it is not taken for gone: to look at it fails.
  const stop = cluster.watch(undefined, (change) => collector.see(change));
  try {
    await collector.run(signal);
  } finally {
    stop();
  }
}

class Collector {
  readonly #cluster: Cluster;
  readonly #queue: WorkQueue;
  readonly #index = new OwnerIndex();

  constructor(cluster: Cluster, deps: ControllerDeps) {
    this.#cluster = cluster;
    this.#queue = new WorkQueue(controller, deps);
  }

  run(signal: AbortSignal): Promise<void> {
    return this.#queue.run((key) => this.#look(key), signal);
  }

  see(change: ObjectChange): void {
    const { type, key } = change;
    if (type === 'delete') {
      if (this.#index.isEmpty) return;
      const { metadata } = change.object;
      this.#index.set(key, undefined);
      for (const dependent of this.#index.dependentsOf(metadata.uid ?? '')) this.#queue.touch(dependent);
      // An owner may be waiting for this one.
      for (const owner of metadata.ownerReferences ?? []) this.#touchOwner(owner, metadata);
    } else if (['ownerReferences', orphan, foreground].some((word) => change.mentions(word))) {
      // Most objects have neither owners nor these finalizers; they are not even parsed.
      this.#index.set(key, change.object);
      this.#queue.touch(key);
    } else if (this.#index.has(key)) this.#index.set(key, undefined);
  }

  #touchOwner(reference: OwnerReference, metadata: ObjectMeta): void {
    const key = this.#ownerKey(reference, metadata);
    if (key !== undefined) this.#queue.touch(key);
  }

  /** Undefined where nothing can say that such an owner is gone: of an unknown kind, or in no namespace although it needs one. */
  #ownerKey({ apiVersion, kind, name }: OwnerReference, { namespace = '' }: ObjectMeta): string | undefined {
    const known = this.#cluster.kindOf(apiVersion, kind);
    if (known === undefined || (known.namespaced && namespace === '')) return undefined;
    return this.#cluster.keyOf(known, namespace, name);
  }

  async #look(key: string): Promise<void> {
    const object = await this.#cluster.get(key);
    if (object === undefined || this.#cluster.placeOf(key).kind === undefined) return;
    const { deletionTimestamp, finalizers = [] } = object.metadata;
    if (deletionTimestamp === undefined) return this.#judge(key, object);
    if (finalizers.includes(orphan)) return this.#orphan(key, object);
    if (finalizers.includes(foreground)) return this.#endInForeground(key, object);
  }

  /** Deletes an object that has lost all its owners, and takes the names of lost ones from one that has others. */
  async #judge(key: string, { metadata }: KubeObject): Promise<void> {
    const references = metadata.ownerReferences ?? [];
    if (references.length === 0) return;
    const states = await Promise.all(references.map((reference) => this.#ownerState(reference, metadata)));
    if (!states.includes('here')) {
      return deleteSame(this.#cluster, key, { metadata });
    }
    const lost = references.filter((_, index) => states[index] === 'gone');
    if (lost.length > 0) await this.#update(key, withoutOwners(new Set(lost.map(({ uid }) => uid))));
  }

  async #ownerState(reference: OwnerReference, dependent: ObjectMeta): Promise<'here' | 'ending' | 'gone'> {
    const key = this.#ownerKey(reference, dependent);
    if (key === undefined) return 'here';
    const owner = await this.#cluster.get(key);
    if (owner?.metadata.uid !== reference.uid) return 'gone';
    const { deletionTimestamp, finalizers = [] } = owner.metadata;
    return deletionTimestamp !== undefined && finalizers.includes(foreground) ? 'ending' : 'here';
  }

  async #orphan(key: string, { metadata }: KubeObject): Promise<void> {
    const uid = metadata.uid ?? '';
    for (const dependent of this.#index.dependentsOf(uid)) {
      await this.#update(dependent, withoutOwners(new Set([uid])));
    }
    await this.#update(key, withoutFinalizer(orphan));
  }

  async #endInForeground(key: string, { metadata }: KubeObject): Promise<void> {
    const uid = metadata.uid ?? '';
    let isBlocked = false;
    for (const dependent of this.#index.dependentsOf(uid)) {
      const object = await this.#cluster.get(dependent);
      const isBlocking = object?.metadata.ownerReferences?.some(
        (reference) => reference.uid === uid && reference.blockOwnerDeletion === true,
      );
      if (isBlocking !== true) continue;
      isBlocked = true;
      this.#queue.touch(dependent);
    }
    if (!isBlocked) await this.#update(key, withoutFinalizer(foreground));
  }

  #update(key: string, change: (object: KubeObject) => KubeObject): Promise<void> {
    return unlessRefused(this.#cluster.update(key, change), 404);
  }
}

/** For each owner, by uid, the keys of the objects that name it. */
class OwnerIndex {
  readonly #dependents = new Map<string, Set<string>>();
  readonly #owners = new Map<string, readonly string[]>();

  /** The object as it is now; undefined when it is gone. */
  set(key: string, object: KubeObject | undefined): void {
    for (const uid of this.#owners.get(key) ?? []) {
      const keys = this.#dependents.get(uid);
      keys?.delete(key);
      if (keys?.size === 0) this.#dependents.delete(uid);
    }
    this.#owners.delete(key);
    const uids = (object?.metadata.ownerReferences ?? []).map(({ uid }) => uid);
    if (uids.length === 0) return;
    this.#owners.set(key, uids);
    for (const uid of uids) {
      const keys = this.#dependents.get(uid) ?? new Set();
      this.#dependents.set(uid, keys.add(key));
    }
  }

  dependentsOf(uid: string): readonly string[] {
    return [...(this.#dependents.get(uid) ?? [])];
  }

  /** No object has an owner, so that no deletion needs a look. */
  get isEmpty(): boolean {
    return this.#dependents.size === 0;
  }

  has(key: string): boolean {
    return this.#owners.has(key);
  }
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
