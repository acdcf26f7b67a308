/**
 * One kind that the API server serves, as one entry of one table (`resources.ts`). All that the server
 * knows of a kind stands here: there is no code path for a single kind. What only some kinds can do is an optional member.
 */
import { means } from '../../kube/schema/equality.ts';
import type { FieldError } from '../../kube/schema/field-errors.ts';
import type { Kind, KubeObject, ResourceKind } from '../../kube/schema/kind.ts';

export type { KubeObject };

export type Verb = 'create' | 'delete' | 'deletecollection' | 'get' | 'list' | 'patch' | 'update' | 'watch';

export interface Column<T = KubeObject> {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'boolean' | 'date';
  /** `name` marks the column that names the object. */
  readonly format?: string;
  readonly description: string;
  /** 1: only with `-o wide`. */
  readonly priority: 0 | 1;
  cell(object: T, now: number): string | number | boolean;
}

/** A mark on a row: `Completed` makes clients leave the object out of some views. */
export interface RowCondition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

/** Of the given object only a part counts: `prepare` takes the rest from the old one. */
export interface UpdateRules<T = KubeObject> {
  prepare(object: T, old: T, now: number): T;
  validate(object: T, old: T): readonly FieldError[];
}

/** What a subresource exchanges. It has no shape where nothing is sent in a body (PodExecOptions are query parameters). */
export type ExchangedKind = Pick<Kind, 'group' | 'version' | 'kind'> & Partial<Kind>;

export interface Subresource<T = KubeObject> {
  readonly name: string;
  /** The kind it exchanges, where that is not the resource's own. */
  readonly kind?: ExchangedKind;
  readonly verbs: readonly string[];
  /** For subresources that show a part of the object in another form (scale). */
  readonly view?: Resource;
  /** For subresources that are a part of the object itself (status, finalize). */
  readonly update?: UpdateRules<T>;
}

/** How deletion goes for a kind where it takes more than the absence of finalizers. */
interface DeletionRules<T = KubeObject> {
  /** How long the object may take to end; 0 means now. `requested` is what the client asked for. */
  graceSeconds?(object: T, requested: number | undefined): number;
  /** Still needed, whatever its metadata says. */
  isHeld?(object: T): boolean;
  /** What the object says of itself once its end has begun. */
  begin?(object: T): T;
  /** What becomes of its dependents when a request does not say; they go with it if absent. */
  readonly dependents?: 'Orphan';
  /** Why it may not be deleted at all. */
  refusal?(object: T): string | undefined;
}

/** The same objects as another resource's, in another form: kept under the other's keys, shown and selected in this form. */
interface View<T = KubeObject> {
  readonly resource: Resource;
  /** `current`: the stored object, for a view of a part of it. */
  toStored(object: T, current?: KubeObject): KubeObject;
  fromStored(stored: KubeObject): T;
}

/** Written as a method's type, so that resources of many kinds fit into one table. */
export type FieldReader<T> = { read(object: T): string }['read'];

/** How a kind is served, besides what holds for the kind everywhere. */
export interface Resource<T extends KubeObject = KubeObject> extends ResourceKind<T> {
  readonly verbs: readonly Verb[];
  readonly subresources: readonly Subresource<T>[];
  /** Reviews are answered and never kept. */
  readonly isStored: boolean;
  /** What the server itself decides of a new object: status reset, generation, phase. */
  prepareForCreate(object: T, now: number): T;
  /** An update of the main resource: status stays the old one, generation moves with the spec. */
  prepareForUpdate(object: T, old: T, now: number): T;
  /** What a client should know of an object that is taken as it is. */
  warnings?(object: T): readonly string[];
  readonly deletion?: DeletionRules<T>;
  readonly viewOf?: View<T>;
  /** Field selectors besides metadata.name and metadata.namespace; a missing value is the empty string. */
  readonly fields: Readonly<Record<string, FieldReader<T>>>;
  readonly columns: readonly Column<T>[];
  rowConditions?(object: T): readonly RowCondition[];
  /** PUT of an object that is not there creates it (events, leases, services). */
  readonly allowsCreateOnUpdate: boolean;
  /** PUT without a resourceVersion overwrites. Not where one would take something from its holder (leases). */
  readonly allowsUnconditionalUpdate: boolean;
  /** What a successful delete answers: the object, or a Status. */
  readonly deleteAnswers: 'object' | 'status';
  /** Kept encrypted on disk. */
  readonly isSecret: boolean;
  /** Removed by itself after this long without an update (events). */
  readonly timeToLiveMs?: number;
  /** It is kept, but nothing in this server acts on it: what therefore does not happen. Who writes one is warned. */
  readonly withoutEffect?: string;
}

const allVerbs: readonly Verb[] = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];

/** What a resource must say for itself; for the rest it may rely on what most kinds do. */
export function resource<T extends KubeObject>(
  kind: ResourceKind<T>,
  parts: Pick<Resource<NoInfer<T>>, 'columns'> & Partial<Resource<NoInfer<T>>>,
): Resource<T> {
  return {
    ...kind,
    verbs: allVerbs,
    subresources: [],
    isStored: true,
    prepareForCreate: (object) => object,
    prepareForUpdate: (object) => object,
    fields: {},
    allowsCreateOnUpdate: false,
    allowsUnconditionalUpdate: true,
    deleteAnswers: 'status',
    isSecret: false,
    ...parts,
  };
}

interface Specified extends KubeObject {
  readonly spec?: unknown;
  readonly status?: unknown;
}

/** What most kinds with a spec keep to: it counts its generations, and the status, where there is one, is not for its writers. */
export function specAndStatus<T extends Specified>(
  { shape }: ResourceKind<T>,
  status?: T['status'],
): Pick<Resource<T>, 'prepareForCreate' | 'prepareForUpdate'> {
  const specShape = shape.fields?.['spec'];
  return {
    prepareForCreate: (object) => ({
      ...object,
      metadata: { ...object.metadata, generation: 1 },
      ...(status !== undefined && { status }),
    }),
    prepareForUpdate(object, old) {
      const before = old.metadata.generation ?? 0;
      const isSame = specShape !== undefined && means<unknown>(specShape, object.spec, old.spec);
      const metadata = { ...object.metadata, generation: isSame ? before : before + 1 };
      return keepFields({ ...object, metadata }, old, 'status');
    },
  };
}

/** The status alone; metadata may come with it. */
export function statusOf<T extends Specified>(validate: UpdateRules<T>['validate']): Subresource<T> {
  return {
    name: 'status',
    verbs: ['get', 'patch', 'update'],
    update: { prepare: (object, old) => keepFields(object, old, 'spec'), validate },
  };
}

/** Requests that are passed on, with every method. */
export function proxyOf(kind: string): Subresource<never> {
  const verbs = ['create', 'delete', 'get', 'patch', 'update'];
  return { name: 'proxy', kind: { group: '', version: 'v1', kind: `${kind}ProxyOptions` }, verbs };
}

export interface GroupVersion {
  readonly group: string;
  readonly version: string;
}

/** Finds resources by what a request names. Made once for a table, because every request asks it. */
export class ResourceTable {
  readonly all: readonly Resource[];
  readonly #byPlural = new Map<string, Resource>();
  readonly #byKind = new Map<string, Resource>();
  readonly #paths: ReadonlySet<string>;

  /** Of `unannounced` only their paths are known. */
  constructor(all: readonly Resource[], unannounced: readonly Resource[] = []) {
    this.all = all;
    for (const entry of all) this.#byKind.set(keyOf(entry, entry.kind), entry);
    for (const entry of [...unannounced, ...all]) this.#byPlural.set(keyOf(entry, entry.plural), entry);
    this.#paths = new Set([...unannounced, ...all].map(apiVersionOf));
  }

  /** Whether something can be asked for below the path of a group and version. */
  hasPath(groupVersion: GroupVersion): boolean {
    return this.#paths.has(apiVersionOf(groupVersion));
  }

  /** As a path names it: `/apis/coordination.k8s.io/v1/…/leases`. Only clients know of short names. */
  byPlural(groupVersion: GroupVersion, plural: string): Resource | undefined {
    return this.#byPlural.get(keyOf(groupVersion, plural));
  }

  /** What a path shows: a resource, or the view that its subresource is. */
  shownAt(groupVersion: GroupVersion, plural: string, subresource: string): Resource | undefined {
    const found = this.byPlural(groupVersion, plural);
    return found?.subresources.find(({ name }) => name === subresource)?.view ?? found;
  }

  /** As an object names itself: `apiVersion` and `kind`. */
  byKind(apiVersion: string, kind: string): Resource | undefined {
    return this.#byKind.get(keyOf(parseApiVersion(apiVersion), kind));
  }

  /** Every group and version with its resources, in the order of the table. */
  groupVersions(): ReadonlyMap<string, readonly Resource[]> {
    const groups = new Map<string, Resource[]>();
    for (const entry of this.all) {
      const name = apiVersionOf(entry);
      groups.set(name, [...(groups.get(name) ?? []), entry]);
    }
    return groups;
  }
}

/** `v1` for the core group, else `group/version`. */
export function apiVersionOf({ group, version }: GroupVersion): string {
  return group === '' ? version : `${group}/${version}`;
}

export function parseApiVersion(apiVersion: string): GroupVersion {
  const slash = apiVersion.indexOf('/');
  if (slash < 0) return { group: '', version: apiVersion };
  return { group: apiVersion.slice(0, slash), version: apiVersion.slice(slash + 1) };
}

function keyOf({ group, version }: GroupVersion, name: string): string {
  return `${group}/${version}/${name}`;
}

/** The object with some fields as the old one has them, absent where they are absent there: what an update cannot change. */
export function keepFields<T extends object>(object: T, old: T, ...fields: readonly (keyof T & string)[]): T {
  const kept: T = { ...object };
  for (const field of fields) {
    if (old[field] === undefined) Reflect.deleteProperty(kept, field);
    else kept[field] = old[field];
  }
  return kept;
}
