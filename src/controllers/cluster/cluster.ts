/**
 * What controllers need of a cluster: get, list, watch and write. The API server has it on its store; over HTTP it is a client.
 *
 * Controllers look at what is, not at what happened, and put right what is not as it should be. A change only says which keys to
 * look at again, so a repeated or missed one does no harm, and after a restart they look at everything.
 */
import type { Clock } from '../../base/clock.ts';
import { MountletError } from '../../base/errors.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';

export interface Kind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  /** Objects are removed after this long without an update (events). */
  readonly timeToLiveMs?: number;
}

export interface ClusterObject {
  /** Names the object in this cluster; what it looks like is the cluster's business. */
  readonly key: string;
  /** Parsed when it is read: a key is often all that is needed. */
  readonly object: KubeObject;
}

export interface ObjectChange extends ClusterObject {
  /** Of a deletion, `object` is the last content. */
  readonly type: 'put' | 'delete';
  /** It was there when the watch began. */
  readonly isInitial: boolean;
  /** False when the text of the object does not have this word in quotes. Cheaper than to parse it. */
  mentions(word: string): boolean;
}

export interface DeletionOptions {
  readonly gracePeriodSeconds?: number;
  /** `Background` if absent. */
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
}

/** Writes reject with an error that has the HTTP status as its `code` when they are refused. */
export interface Cluster {
  /** Those whose objects are kept, as of now. Rejects when they cannot be known in full. */
  kinds(): Promise<readonly Kind[]>;
  /** The kind under which such objects are kept; undefined for one that is unknown here. */
  kindOf(apiVersion: string, kind: string): Kind | undefined;
  keyOf(kind: Kind, namespace: string, name: string): string;
  placeOf(key: string): { readonly kind: Kind | undefined; readonly namespace: string; readonly name: string };
  get(key: string): Promise<KubeObject | undefined>;
  /** Of one namespace, or of all. Rejects when some of them cannot be read. */
  list(kind: Kind, namespace?: string): Promise<readonly ClusterObject[]>;
  /** Resolves when everything of these kinds, or of all, is known: a watch that begins then reports it before it returns. */
  ready(kinds: readonly Kind[] | undefined): Promise<void>;
  /** Reports what is there, then each change; of one kind, or of all. Returns how to stop. */
  watch(kind: Kind | undefined, report: (change: ObjectChange) => void): () => void;
  /** Resolves with what was created: the server completes names and decides uids. */
  create(kind: Kind, namespace: string, object: KubeObject): Promise<KubeObject>;
  /** Repeats `change` on newer content where somebody else was faster. Writes nothing when it returns what it was given. */
  update(key: string, change: (object: KubeObject) => KubeObject, subresource?: string): Promise<void>;
  /** Dependents are left to the garbage collector, unless the options say otherwise. */
  delete(
    key: string,
    preconditions?: { readonly uid?: string; readonly resourceVersion?: string },
    options?: DeletionOptions,
  ): Promise<void>;
  /** Gives a pod its node. */
  bind(key: string, podUid: string, nodeName: string): Promise<void>;
}

export interface ControllerFailed {
  readonly kind: 'ControllerFailed';
  readonly controller: string;
  readonly object: string;
  readonly error: unknown;
}

export interface ControllerDeps {
  /** The cluster as this controller sees it: its writes bear its name. */
  readonly clusterFor: (controller: string, signal: AbortSignal) => Cluster;
  readonly clock: Clock;
  readonly random: { suffix(length: number): string };
  readonly notify: (notice: ControllerFailed) => void;
}

/** A kind that no cluster is without. */
export function coreKind(cluster: Cluster, name: string): Kind {
  return kindNamed(cluster, 'v1', name);
}

/** A loop that cannot do its work on this cluster, however often it tries. The others go on. */
export class CannotRunError extends MountletError {
  readonly reason = 'CannotRun';
}

/** A kind that a cluster may be without is an error here: who asks for it cannot do without. */
export function kindNamed(cluster: Cluster, apiVersion: string, name: string): Kind {
  const found = cluster.kindOf(apiVersion, name);
  if (found === undefined)
    throw new CannotRunError(`it needs ${apiVersion} ${name}, which this API server does not have`);
  return found;
}

/** Somebody else was faster, which is as good: `codes` are the refusals that say so. */
export async function unlessRefused(write: Promise<unknown>, ...codes: readonly number[]): Promise<void> {
  try {
    await write;
  } catch (error) {
    const code = refusalCode(error);
    if (!codes.some((accepted) => accepted === code)) throw error;
  }
}

/** Makes an object that should be there, or repairs it. `repair` answers what it was given where nothing is wrong. */
export async function ensureObject(
  cluster: Cluster,
  kind: Kind,
  namespace: string,
  object: KubeObject,
  repair?: (current: KubeObject) => KubeObject,
): Promise<void> {
  const key = cluster.keyOf(kind, namespace, object.metadata.name);
  const current = await cluster.get(key);
  if (current === undefined) {
    // Another client makes it, or the namespace has just begun to end.
    await unlessRefused(cluster.create(kind, namespace, object), 409, 403, 404);
  } else if (repair !== undefined && repair(current) !== current) {
    await unlessRefused(cluster.update(key, repair), 404);
  }
}

/** Changes this very object: one that is gone, or another one of the same name, is left alone. */
export function updateSame<T extends KubeObject>(
  cluster: Cluster,
  key: string,
  { metadata }: KubeObject,
  change: (current: T) => T,
  subresource?: string,
): Promise<void> {
  const guarded = (object: KubeObject): KubeObject =>
    object.metadata.uid === metadata.uid ? change(object as T) : object;
  return unlessRefused(cluster.update(key, guarded, subresource), 404);
}

/** Deletes this very object, unless it is gone. */
export function deleteSame(cluster: Cluster, key: string, { metadata: { uid } }: KubeObject): Promise<void> {
  return unlessRefused(cluster.delete(key, uid === undefined ? {} : { uid }), 404, 409);
}

/** Why a write was refused, in the reasons of its causes. */
export function refusalCauses(error: unknown): readonly string[] {
  if (!(error instanceof Error) || !('causes' in error) || !Array.isArray(error.causes)) return [];
  return error.causes.flatMap((cause: { readonly reason?: string }) => cause.reason ?? []);
}

/** The HTTP status of a write that was refused. */
export function refusalCode(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
