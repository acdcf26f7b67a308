/**
 * All that the managers ask of an API client. A source asks and watches; it retries, relists and backs off by itself, and
 * what is worth keeping is not its business.
 */
import type { ManagedObject } from './managed-kind.ts';
import type { ObjectId } from './object-id.ts';

/** One object, or without a name all objects of the namespace. */
export interface WatchScope {
  readonly namespace: string;
  readonly name?: string;
}

export type ObjectEvent<T> =
  /** All there is in the scope, as of a version. */
  | { readonly kind: 'replaced'; readonly objects: readonly T[]; readonly resourceVersion: string }
  | { readonly kind: 'changed'; readonly object: T }
  /** As it was last; its resourceVersion is that of the deletion. */
  | { readonly kind: 'deleted'; readonly object: T };

export interface WatchOptions {
  /** A version that the caller has already seen: an answer from before it would take us back in time. */
  readonly notBefore: string | undefined;
  /** Hears that the server is away, or refuses (WatchRefusedError). The source goes on trying. */
  readonly interrupted: (error: unknown) => void;
  /** Hears every sign of life: what was told so far is as of now. */
  readonly contact: () => void;
}

export interface ObjectSource<T extends ManagedObject> {
  /**
   * Rejects with ObjectNotFoundError when there is no such object. `mayBeCached` lets the server answer from its own memory
   * (resourceVersion 0), which is cheaper and perhaps a little old.
   */
  get(id: ObjectId, options: { readonly mayBeCached: boolean }, signal: AbortSignal): Promise<T>;
  /**
   * The uid the name stands for, without the content; undefined when there is no such object. The answer may be a little
   * old.
   */
  uidOf(id: ObjectId, signal: AbortSignal): Promise<string | undefined>;
  /** Begins with `replaced`, and ends only with the signal. */
  watch(scope: WatchScope, options: WatchOptions, signal: AbortSignal): AsyncIterable<ObjectEvent<T>>;
}
