/**
 * The contract of an object manager: it has the ConfigMaps (or the Secrets) that the registered pods name. How it gets them is
 * its strategy: see watched-objects.ts and cached-objects.ts.
 */
import { OperatingError } from '../base/errors.ts';
import type { TaskFailed } from '../base/run-task.ts';
import { type ResourceReference, configMaps, secrets, withShape } from '../client/api/resource-reference.ts';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { Secret } from '../kube/kinds/secret.ts';
import { type PodReference, type ReferencedKind, referencesOf } from '../kube/references/pod-references.ts';
import type { ObjectMeta } from '../kube/schema/meta.ts';
import { boolean, bytes, map, object, required, string } from '../kube/schema/schema.ts';
import { goQuote } from '../kube/values/go-text.ts';

/** Names of different namespaces never meet in one map: every map here is keyed by `objectKey`. */
export interface ObjectId {
  readonly namespace: string;
  readonly name: string;
}

export type ObjectKey = string & { readonly brand: 'ObjectKey' };

/** Unambiguous although a pod may write any name: a namespace has no slash, so the first one ends it. */
export function objectKey({ namespace, name }: ObjectId): ObjectKey {
  return `${namespace}/${name}` as ObjectKey;
}

export interface ObjectChange extends ObjectId {
  /** Undefined: there is no such object. */
  readonly resourceVersion: string | undefined;
}

export interface ObjectManager<T> {
  /** Undefined when there is no such object. Rejects when that is not known. */
  get(namespace: string, name: string, signal: AbortSignal): Promise<T | undefined>;
  /** Never waits for the network. A pod that is registered already is updated. */
  registerPod(pod: Pod): void;
  /** Never waits for the network. Releases what the pod was registered with, whatever the argument names now. */
  unregisterPod(pod: Pod): void;
  /**
   * Objects that differ from what get() returned before, or that can be read now after get() failed. Of several changes of one
   * object that were not taken yet, only the last is kept. Follows from the call on until the signal aborts.
   */
  changes(signal: AbortSignal): AsyncIterable<ObjectChange>;
  /** The background work. Resolves some time after the signal aborts, when nothing of it is left. */
  run(signal: AbortSignal): Promise<void>;
}

export interface ManagedObject {
  readonly metadata: ObjectMeta;
  readonly immutable?: boolean;
}

export interface ManagedKind<T extends ManagedObject> {
  /** As the kubelet writes it in messages: `failed to sync configmap cache`. */
  readonly singular: string;
  /** With the shape of what is kept of an object. */
  readonly resource: ResourceReference<T>;
  readonly kind: ReferencedKind;
}

/**
 * Only what pods read is kept. Managed fields and annotations are often larger than the content, and one of them repeats it:
 * the last applied configuration.
 */
const keptFields = {
  apiVersion: string,
  kind: string,
  metadata: required(object({ name: required(string), namespace: string, uid: string, resourceVersion: string })),
  immutable: boolean,
};

export const managedConfigMaps: ManagedKind<ConfigMap> = {
  singular: 'configmap',
  resource: withShape(configMaps, object({ ...keptFields, data: map(string), binaryData: map(bytes) })),
  kind: 'ConfigMap',
};

export const managedSecrets: ManagedKind<Secret> = {
  singular: 'secret',
  resource: withShape(secrets, object({ ...keptFields, data: map(bytes), type: string })),
  kind: 'Secret',
};

export type ObjectEvent<T> =
  /** All there is of the object, which is one or none, as of a version. */
  | { readonly kind: 'replaced'; readonly objects: readonly T[]; readonly resourceVersion: string }
  | { readonly kind: 'changed'; readonly object: T }
  /** As it was last; its resourceVersion is that of the deletion. */
  | { readonly kind: 'deleted'; readonly object: T };

export interface WatchOptions {
  /** A version that the caller has already seen: an answer from before it would take us back in time. */
  readonly notBefore: string | undefined;
  /** Called when the server is away or refuses. The source goes on trying. */
  readonly interrupted: (error: unknown) => void;
}

/** All that the managers need of an API client. A source retries, relists and backs off by itself, and keeps nothing. */
export interface ObjectSource<T extends ManagedObject> {
  /**
   * Undefined when there is no such object. `mayBeCached` lets the server answer from its own memory (resourceVersion 0),
   * which is cheaper and perhaps a little old.
   */
  get(id: ObjectId, options: { readonly mayBeCached: boolean }, signal: AbortSignal): Promise<T | undefined>;
  /** The uid the name stands for, without the content; undefined when there is no such object. May be a little old. */
  uidOf(id: ObjectId, signal: AbortSignal): Promise<string | undefined>;
  /** Begins with `replaced`, and ends only with the signal. */
  watch(id: ObjectId, options: WatchOptions, signal: AbortSignal): AsyncIterable<ObjectEvent<T>>;
}

export type ObjectNotice =
  | TaskFailed
  | {
      readonly kind: 'ObjectWatchStopped';
      readonly resource: string;
      readonly id: ObjectId;
      readonly because: 'idle' | 'immutable';
    }
  /** An object that cannot change is another one now, or none: it was deleted, and perhaps created again. */
  | { readonly kind: 'ImmutableObjectReplaced'; readonly resource: string; readonly id: ObjectId }
  | { readonly kind: 'ObjectCheckFailed'; readonly resource: string; readonly id: ObjectId; readonly error: unknown }
  /** The old token stays in use. */
  | { readonly kind: 'TokenRefreshFailed'; readonly key: string; readonly error: unknown }
  /** The server did not say for how long the token was made, so it is used until it expires. */
  | { readonly kind: 'TokenWithoutLifetime'; readonly key: string };

export type NotifyObjects = (notice: ObjectNotice) => void;

/** No registered pod names the object: the server was not asked. */
export function notRegistered({ namespace, name }: ObjectId): OperatingError {
  return new OperatingError('ObjectNotRegistered', `object ${goQuote(namespace)}/${goQuote(name)} not registered`);
}

export interface Reference extends ObjectId {
  readonly podUid: string;
  readonly use: PodReference['use'];
}

/**
 * Objects that are kept because pods refer to them. A pod is updated by adding before releasing, so an object that it names
 * before and after, or shares with another pod, is never dropped in between.
 */
export abstract class ReferencedObjects {
  readonly #kind: ReferencedKind;
  readonly #pods = new Map<string, ReadonlyMap<string, Reference>>();

  constructor(kind: ReferencedKind) {
    this.#kind = kind;
  }

  /** Waits for nothing. */
  abstract addReference(reference: Reference): void;
  /** Waits for nothing. Of a reference that is not held: no effect. */
  abstract releaseReference(reference: Reference): void;

  registerPod(pod: Pod): void {
    const key = podKey(pod);
    const before = this.#pods.get(key);
    const now = this.#referencesOf(pod);
    this.#pods.set(key, now);
    for (const [name, reference] of now) if (!before?.has(name)) this.addReference(reference);
    for (const [name, reference] of before ?? []) if (!now.has(name)) this.releaseReference(reference);
  }

  unregisterPod(pod: Pod): void {
    const key = podKey(pod);
    const references = this.#pods.get(key);
    this.#pods.delete(key);
    for (const reference of references?.values() ?? []) this.releaseReference(reference);
  }

  #referencesOf(pod: Pod): ReadonlyMap<string, Reference> {
    const { namespace = '', uid = '' } = pod.metadata;
    const named = referencesOf(pod).filter(({ kind, name }) => kind === this.#kind && name !== '');
    const shown = new Set(named.filter(({ use }) => use === 'shown').map(({ name }) => name));
    return new Map(
      named.map(({ name }) => {
        const use = shown.has(name) ? 'shown' : 'read';
        // The use is part of the key: if it changes, the reference is taken again.
        return [`${use}/${name}`, { namespace, name, podUid: uid, use }];
      }),
    );
  }
}

/** With the uid: a pod that is ending and its successor of the same name are registered side by side. */
function podKey({ metadata: { namespace = '', name, uid = '' } }: Pod): string {
  return JSON.stringify([namespace, name, uid]);
}
