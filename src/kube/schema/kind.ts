/**
 * A Kubernetes kind as one value: its names, shape, defaults, rules and field numbers on the wire. Everything that has to know a
 * kind (the API server's table, protobuf, OpenAPI, manifests, the client's paths) is made from it. How the API server serves it
 * (columns, subresources, deletion) is an entry in `apiserver/resources/`.
 */
import type { FieldError } from './field-errors.ts';
import type { ObjectMeta } from './meta.ts';
import type { Shape } from './schema.ts';

/** What all objects have in common. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

/** Protobuf messages by name, in the notation of `apiserver/wire/message-notation.ts`. */
export type WireMessages = Readonly<Record<string, string>>;

export interface Kind<T extends KubeObject = KubeObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  /** Further versions of the group in which the same object may be written. */
  readonly otherVersions: readonly string[];
  readonly kind: string;
  readonly shape: Shape<T>;
  /**
   * The first message is the kind's own. It may use messages of other kinds. Empty for kinds that clients send only as JSON.
   */
  readonly wire: WireMessages;
  /** Fills in defaults, before validation; applying it again changes nothing. */
  complete(this: void, object: T): T;
  validate(this: void, object: T): readonly FieldError[];
}

/** A kind that has a path of its own: `/api/v1/namespaces/shop/configmaps`. */
export interface ResourceKind<T extends KubeObject = KubeObject> extends Kind<T> {
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly namespaced: boolean;
  validateUpdate(this: void, object: T, old: T): readonly FieldError[];
}

type Given<K, Needed extends keyof K> = Pick<K, Needed> & Partial<K>;

/** A kind that is only sent and answered, such as TokenRequest. */
export function exchangedKind<T extends KubeObject>(given: Given<Kind<T>, 'kind' | 'shape'>): Kind<T> {
  return {
    group: '',
    version: 'v1',
    otherVersions: [],
    wire: {},
    complete: (object) => object,
    validate: () => [],
    ...given,
  };
}

export function resourceKind<T extends KubeObject>(
  given: Given<ResourceKind<T>, 'kind' | 'shape' | 'plural' | 'namespaced'>,
): ResourceKind<T> {
  return {
    ...exchangedKind(given),
    singular: given.kind.toLowerCase(),
    shortNames: [],
    categories: [],
    validateUpdate: () => [],
    ...given,
  };
}

/** `v1` for the core group, else `group/version`. */
export function apiVersionOf({ group, version }: Pick<Kind, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`;
}

/** The versions an object of the kind may be written in, the stored one first. */
export function apiVersionsOf<T extends KubeObject>({ group, version, otherVersions }: Kind<T>): readonly string[] {
  return [version, ...otherVersions].map((one) => apiVersionOf({ group, version: one }));
}
