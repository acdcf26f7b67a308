/**
 * Deletes objects whose owners are all gone, and carries out what a deletion wants of dependents: `foregroundDeletion` waits for
 * those that block it, `orphan` lets them live without their owner.
 */
import type { KubeObject } from '../kube/schema/kind.ts';
import type { ObjectMeta, OwnerReference } from '../kube/schema/meta.ts';
import { canonicalJson } from '../kube/schema/equality.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { type Cluster, type ControllerDeps, type ObjectChange, refusalCode, unlessRefused } from './cluster/cluster.ts';
import { ControllerEvents } from './cluster/events.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'generic-garbage-collector';
const component = 'garbage-collector-controller';
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
  readonly #events: ControllerEvents;
  readonly #index = new OwnerIndex();

  constructor(cluster: Cluster, deps: ControllerDeps) {
    this.#cluster = cluster;
    this.#queue = new WorkQueue(controller, deps);
    this.#events = new ControllerEvents(component, deps, cluster);
  }

  run(signal: AbortSignal): Promise<void> {
    return this.#queue.run((key) => this.#look(key), signal);
  }

  see(change: ObjectChange): void {
    const { type, key } = change;
    if (type === 'delete') {
      if (this.#index.isEmpty) return;
      const { metadata } = change.object;
      this.#index.bury(metadata.uid ?? '');
      // An owner may be waiting for this one.
      for (const owner of this.#index.set(key, undefined) ?? []) this.#touchOwner(owner, metadata);
      this.#touchDependents(metadata.uid);
    } else if (['ownerReferences', orphan, foreground].some((word) => change.mentions(word))) {
      // Most objects have neither owners nor these finalizers; they are not even parsed. There are many Events, and none is collected.
      if (this.#cluster.placeOf(key).kind?.plural === 'events') return;
      const { metadata } = change.object;
      const changed = this.#index.set(key, metadata);
      for (const owner of changed ?? []) this.#touchOwner(owner, metadata);
      // A pod reports its state again and again: only who owns it, and its end, are looked at.
      if (changed !== undefined || metadata.deletionTimestamp !== undefined) this.#queue.touch(key);
    } else if (this.#index.has(key)) {
      const { metadata } = change.object;
      for (const owner of this.#index.set(key, undefined) ?? []) this.#touchOwner(owner, metadata);
    }
  }

  #touchDependents(uid = ''): void {
    for (const dependent of this.#index.dependentsOf(uid)) this.#queue.touch(dependent);
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
  async #judge(key: string, object: KubeObject): Promise<void> {
    const { metadata } = object;
    const references = metadata.ownerReferences ?? [];
    if (references.length === 0) return;
    const states = await Promise.all(references.map((reference) => this.#ownerState(reference, metadata)));
    if (states.includes('here')) {
      const lost = references.filter((_, index) => states[index] !== 'here');
      if (lost.length > 0) await this.#update(key, withoutOwners(new Set(lost.map(({ uid }) => uid))));
      return;
    }
    const dependents = this.#index.dependentsOf(metadata.uid ?? '');
    if (states.includes('ending') && dependents.length > 0) {
      const objects = await Promise.all(dependents.map((dependent) => this.#cluster.get(dependent)));
      // In a circle each would wait for the other.
      if (objects.some((one) => one !== undefined && isEndingInForeground(one))) await this.#update(key, unblocking);
      return this.#delete(key, 'Foreground', { uid: metadata.uid });
    }
    await this.#reportForeignOwners(key, object);
    const { finalizers = [], uid, resourceVersion } = metadata;
    const kept = finalizers.includes(orphan) ? 'Orphan' : finalizers.includes(foreground) ? 'Foreground' : 'Background';
    // Not if it has got another owner meanwhile.
    await this.#delete(key, kept, { uid, resourceVersion });
  }

  async #delete(
    key: string,
    propagationPolicy: 'Background' | 'Foreground' | 'Orphan',
    { uid, resourceVersion }: { readonly uid?: string | undefined; readonly resourceVersion?: string | undefined },
  ): Promise<void> {
    const preconditions = {
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
    };
    try {
      await unlessRefused(this.#cluster.delete(key, preconditions, { propagationPolicy }), 404);
    } catch (error) {
      if (refusalCode(error) !== 409) throw error;
      // It has changed meanwhile, perhaps in nothing that would bring it here again.
      this.#queue.touch(key);
    }
  }

  async #ownerState(reference: OwnerReference, dependent: ObjectMeta): Promise<'here' | 'ending' | 'gone'> {
    const key = this.#ownerKey(reference, dependent);
    if (key === undefined) return 'here';
    const owner = await this.#cluster.get(key);
    if (owner?.metadata.uid !== reference.uid) return 'gone';
    return isEndingInForeground(owner) ? 'ending' : 'here';
  }

  /** An owner has to be in the namespace of what it owns. Somebody who meant another one learns why the object is gone. */
  async #reportForeignOwners(key: string, object: KubeObject): Promise<void> {
    const { kind, namespace } = this.#cluster.placeOf(key);
    for (const { apiVersion, kind: owner, name, uid } of object.metadata.ownerReferences ?? []) {
      const known = this.#cluster.kindOf(apiVersion, owner);
      // One whose end was seen is not looked for.
      if (kind === undefined || known?.namespaced !== true || this.#index.isGone(uid)) continue;
      const found = (await this.#cluster.list(known)).find((one) => one.object.metadata.uid === uid);
      const home = found?.object.metadata.namespace ?? namespace;
      if (home === namespace) continue;
      const text = `[${apiVersion}/${owner}, namespace: ${namespace}, name: ${name}, uid: ${uid}]`;
      const message = `ownerRef ${text} does not exist in namespace ${goQuote(namespace)}`;
      await this.#events.record(kind, object, { type: 'Warning', reason: 'OwnerRefInvalidNamespace', message });
    }
  }

  async #orphan(key: string, { metadata }: KubeObject): Promise<void> {
    const uid = metadata.uid ?? '';
    for (const dependent of this.#index.dependentsOf(uid)) {
      await this.#update(dependent, withoutOwners(new Set([uid])));
    }
    await this.#update(key, withoutFinalizer(orphan));
  }

  /** All dependents go; those that block the owner are waited for. */
  async #endInForeground(key: string, { metadata }: KubeObject): Promise<void> {
    const uid = metadata.uid ?? '';
    let isBlocked = false;
    for (const dependent of this.#index.dependentsOf(uid)) {
      // One that names itself would wait for its own end.
      const object = dependent === key ? undefined : await this.#cluster.get(dependent);
      if (object === undefined) continue;
      isBlocked ||=
        object.metadata.ownerReferences?.some((one) => one.uid === uid && one.blockOwnerDeletion === true) === true;
      if (object.metadata.deletionTimestamp === undefined) this.#queue.touch(dependent);
    }
    if (!isBlocked) await this.#update(key, withoutFinalizer(foreground));
  }

  #update(key: string, change: (object: KubeObject) => KubeObject): Promise<void> {
    return unlessRefused(this.#cluster.update(key, change), 404);
  }
}

/** Owners whose end was seen; what is older is asked of the server. */
const goneMax = 4_096;

/** For each owner, by uid, the keys of the objects that name it. */
class OwnerIndex {
  readonly #dependents = new Map<string, Set<string>>();
  readonly #owners = new Map<string, readonly OwnerReference[]>();
  readonly #gone = new Set<string>();

  /** The object as it is now; undefined when it is gone. Returns the owners it had, if it is new or has others now. */
  set(key: string, metadata: ObjectMeta | undefined): readonly OwnerReference[] | undefined {
    const before = this.#owners.get(key);
    const now = metadata?.ownerReferences ?? [];
    if (canonicalJson(before ?? []) === canonicalJson(now)) return undefined;
    for (const { uid } of before ?? []) {
      const keys = this.#dependents.get(uid);
      keys?.delete(key);
      if (keys?.size === 0) this.#dependents.delete(uid);
    }
    this.#owners.delete(key);
    if (now.length > 0) this.#owners.set(key, now);
    for (const { uid } of now) {
      const keys = this.#dependents.get(uid) ?? new Set();
      this.#dependents.set(uid, keys.add(key));
    }
    return before ?? [];
  }

  dependentsOf(uid: string): readonly string[] {
    return [...(this.#dependents.get(uid) ?? [])];
  }

  bury(uid: string): void {
    this.#gone.add(uid);
    const [oldest] = this.#gone;
    if (this.#gone.size > goneMax && oldest !== undefined) this.#gone.delete(oldest);
  }

  isGone(uid: string): boolean {
    return this.#gone.has(uid);
  }

  /** No object has an owner, so that no deletion needs a look. */
  get isEmpty(): boolean {
    return this.#dependents.size === 0;
  }

  has(key: string): boolean {
    return this.#owners.has(key);
  }
}

function isEndingInForeground({ metadata: { deletionTimestamp, finalizers = [] } }: KubeObject): boolean {
  return deletionTimestamp !== undefined && finalizers.includes(foreground);
}

/** None of its owners waits for it any more. */
function unblocking(object: KubeObject): KubeObject {
  const { ownerReferences = [] } = object.metadata;
  if (!ownerReferences.some((one) => one.blockOwnerDeletion === true)) return object;
  const all = ownerReferences.map((one) => ({ ...one, blockOwnerDeletion: false }));
  return { ...object, metadata: { ...object.metadata, ownerReferences: all } };
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
    if (others.length === ownerReferences.length) return object;
    return { ...object, metadata: { ...metadata, ...(others.length > 0 && { ownerReferences: others }) } };
  };
}
