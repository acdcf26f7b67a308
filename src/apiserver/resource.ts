/**
 * One kind that the API server serves, as one entry of one table (`resources.ts`). Everything the server does with a kind it
 * learns from here: there is no code path for a single kind. What only some kinds can do is an optional member.
 */
import type { FieldError } from '../kube/field-errors.ts';
import type { ObjectMeta } from '../kube/metadata.ts';
import type { Shape } from '../kube/schema.ts';

/** What all objects have in common; the server handles them as this and leaves the rest to their resource. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

export type Verb = 'create' | 'delete' | 'deletecollection' | 'get' | 'list' | 'patch' | 'update' | 'watch';

export interface Column<T = KubeObject> {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'date';
  /** `name` marks the column that names the object. */
  readonly format?: string;
  readonly description: string;
  /** 1: only with `-o wide`. */
  readonly priority: 0 | 1;
  cell(object: T, now: number): string | number;
}

export interface Subresource {
  readonly name: string;
  /** The kind it exchanges, where that is not the resource's own. */
  readonly kind?: { readonly group: string; readonly version: string; readonly kind: string };
  readonly verbs: readonly string[];
}

export interface Ending<T> {
  /** Seconds from the request to delete until the end (pods), 0 for an end at once; `requested` may be absent or negative. */
  graceSeconds?(object: T, requested: number | undefined): number;
  /** Something besides metadata.finalizers keeps the object (a namespace's spec.finalizers). */
  isHeld?(object: T): boolean;
  /** What else the object says from the moment its deletion was asked for (a namespace's phase). */
  mark?(object: T): T;
}

export interface Resource<T extends KubeObject = KubeObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly singular: string;
  readonly kind: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly namespaced: boolean;
  readonly verbs: readonly Verb[];
  readonly subresources: readonly Subresource[];
  readonly shape: Shape<T>;
  /** Defaults, before validation; applying it again changes nothing. */
  complete(object: T): T;
  validate(object: T): readonly FieldError[];
  validateUpdate(object: T, old: T): readonly FieldError[];
  /** What the server itself decides of a new object: status reset, generation, phase. */
  prepareForCreate(object: T): T;
  /** An update of the main resource: status stays the old one, generation moves with the spec. */
  prepareForUpdate(object: T, old: T): T;
  /** Kinds with a status subresource: of the given object only the status (and what else it may change) counts. */
  prepareForStatusUpdate?(object: T, old: T): T;
  /** Field selectors besides metadata.name and metadata.namespace; a missing value is the empty string. */
  readonly fields: Readonly<Record<string, (object: T) => string>>;
  readonly columns: readonly Column<T>[];
  /** PUT of an object that is not there creates it (events, leases). */
  readonly allowsCreateOnUpdate: boolean;
  /** PUT without a resourceVersion overwrites (all but leases). */
  readonly allowsUnconditionalUpdate: boolean;
  /** What a successful delete answers: the object, or a Status. */
  readonly deleteAnswers: 'object' | 'status';
  /** Kinds that do not end at once when they are deleted. */
  readonly ending?: Ending<T>;
  /** Kept encrypted on disk. */
  readonly isSecret: boolean;
  /** Removed by itself after this long without an update (events). */
  readonly timeToLiveMs?: number;
}
