/**
 * The cluster as a controller in this process sees it: the same get, list, watch and write that a client has over HTTP, on the
 * store and through admission and validation. Which loops run on it is not this room's business.
 */
import { type User, wellKnownGroups } from '../identity/user.ts';
import { type KubeObject, type Resource, type ResourceTable } from '../model/resource.ts';
import { objectKey, objectPrefix, parseStored, placeOfKey } from '../model/stored-objects.ts';
import { createObject } from '../rest/create.ts';
import { deleteObject } from '../rest/delete.ts';
import { bindPod } from '../rest/pod-subresources.ts';
import { updateObject } from '../rest/update.ts';
import type { WriteContext, WriteDeps } from '../rest/write-context.ts';
import type { Change, Store } from '../store/store.ts';

interface StoreClusterDeps extends WriteDeps {
  readonly store: Store;
  readonly resources: ResourceTable;
}

type Kind = Pick<Resource, 'group' | 'version' | 'plural' | 'namespaced'>;

/** Where an object is, with its kind. */
interface Place {
  readonly kind: Resource | undefined;
  readonly namespace: string;
  readonly name: string;
}

/** A stored text, parsed when the object is read, once for all who watch: none of them changes it. */
class StoredChange {
  readonly key: string;
  readonly type: Change['type'];
  readonly isInitial: boolean;
  readonly #text: string;
  #object: KubeObject | undefined;

  constructor(key: string, type: Change['type'], text: string, isInitial: boolean) {
    this.key = key;
    this.type = type;
    this.isInitial = isInitial;
    this.#text = text;
  }

  get object(): KubeObject {
    return (this.#object ??= parseStored(this.#text));
  }

  mentions(word: string): boolean {
    return this.#text.includes(`"${word}"`);
  }
}

/** By what was committed together, which the store reports to one watch after the other. */
const sharedChanges = new WeakMap<readonly Change[], readonly StoredChange[]>();

function sharedBy(changes: readonly Change[]): readonly StoredChange[] {
  const shared =
    sharedChanges.get(changes) ?? changes.map(({ key, type, value }) => new StoredChange(key, type, value, false));
  sharedChanges.set(changes, shared);
  return shared;
}

export class StoreCluster {
  readonly #deps: StoreClusterDeps;
  readonly #context: WriteContext;
  readonly #kinds: ReadonlyMap<string, Resource>;

  /** A controller of this server is one of its masters. */
  constructor(deps: StoreClusterDeps, controller: string, signal: AbortSignal) {
    const user: User = {
      name: `system:controller:${controller}`,
      uid: '',
      groups: [wellKnownGroups.masters],
      extra: {},
    };
    this.#deps = deps;
    this.#context = { user, manager: controller, dryRun: false, isController: true, signal };
    const stored = deps.resources.all.filter(({ isStored, viewOf }) => isStored && viewOf === undefined);
    this.#kinds = new Map(stored.map((resource) => [kindKey(resource), resource]));
  }

  async kinds(): Promise<readonly Resource[]> {
    return [...this.#kinds.values()];
  }

  async ready(): Promise<void> {}

  kindOf(apiVersion: string, kind: string): Resource | undefined {
    const resource = this.#deps.resources.byKind(apiVersion, kind);
    return resource?.viewOf?.resource ?? resource;
  }

  keyOf(kind: Kind, namespace: string, name: string): string {
    return objectKey(kind, namespace, name);
  }

  placeOf(key: string): Place {
    const place = placeOfKey(key);
    return { kind: this.#kinds.get(kindKey(place)), namespace: place.namespace, name: place.name };
  }

  async get(key: string): Promise<KubeObject | undefined> {
    const stored = this.#deps.store.get(key);
    return stored === undefined ? undefined : parseStored(stored.value);
  }

  async list(kind: Kind, namespace = ''): Promise<readonly StoredChange[]> {
    const { items } = this.#deps.store.list({ prefix: objectPrefix(kind, namespace) });
    return items.map(({ key, value }) => new StoredChange(key, 'put', value, true));
  }

  watch(kind: Kind | undefined, report: (change: StoredChange) => void): () => void {
    const { store } = this.#deps;
    const prefix = kind === undefined ? '/registry/' : objectPrefix(kind);
    const stop = store.subscribe((changes) => {
      for (const change of sharedBy(changes)) if (change.key.startsWith(prefix)) report(change);
    });
    // What cannot be read is left out: a controller never judges it.
    for (const { key, value } of store.list({ prefix, leavesOutDamaged: true }).items) {
      report(new StoredChange(key, 'put', value, true));
    }
    return stop;
  }

  async create(kind: Kind, namespace: string, object: KubeObject): Promise<KubeObject> {
    const creation = { resource: this.#resource(kind), namespace, object, context: this.#context };
    return parseStored((await createObject(this.#deps, creation)).text);
  }

  async update(key: string, change: (object: KubeObject) => KubeObject, subresource = ''): Promise<void> {
    await updateObject(this.#deps, { ...this.#place(key), subresource, context: this.#context, change });
  }

  async delete(
    key: string,
    preconditions: { readonly uid?: string; readonly resourceVersion?: string } = {},
    given: { readonly gracePeriodSeconds?: number; readonly propagationPolicy?: string } = {},
  ): Promise<void> {
    const options = { preconditions, propagationPolicy: 'Background', ...given };
    await deleteObject(this.#deps, { ...this.#place(key), options, context: this.#context });
  }

  async bind(key: string, podUid: string, nodeName: string): Promise<void> {
    const { resource, namespace, name } = this.#place(key);
    const binding = { metadata: { name, uid: podUid }, target: { apiVersion: 'v1', kind: 'Node', name: nodeName } };
    await bindPod(this.#deps, resource, namespace, name, binding, this.#context);
  }

  #resource(kind: Pick<Resource, 'group' | 'plural'>): Resource {
    const resource = this.#kinds.get(kindKey(kind));
    if (resource === undefined) throw new Error(`no ${kind.plural} are stored`);
    return resource;
  }

  #place(key: string): { readonly resource: Resource; readonly namespace: string; readonly name: string } {
    const place = placeOfKey(key);
    return { resource: this.#resource(place), namespace: place.namespace, name: place.name };
  }
}

function kindKey({ group, plural }: Pick<Resource, 'group' | 'plural'>): string {
  return `${group}/${plural}`;
}
