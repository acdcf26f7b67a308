/**
 * The versioned store behind the API server: ordered keys, one revision counter for all of them, a bounded log of changes
 * that watches are fed from. This file is the contract; `lmdb-store.ts` keeps it on disk.
 *
 *   key          /registry/<group or "core">/<plural>/<namespace>/<name>, or without namespace for cluster objects
 *   revision     one counter; each committed write takes the next. It survives restarts and never goes back.
 *   value        the object as JSON text, with `metadata.resourceVersion` already set to its revision: what is stored is what
 *                is sent, so that a read or a watch event is not parsed and printed again.
 */
export interface StoredObject {
  readonly key: string;
  readonly value: string;
  /** The revision of the write that made it what it is. */
  readonly revision: number;
}

export interface Change {
  readonly type: 'put' | 'delete';
  readonly key: string;
  readonly revision: number;
  /** After the change; of a deletion, the last content with the deletion's revision. */
  readonly value: string;
  /** Before the change; undefined for an object that did not exist. */
  readonly previous: string | undefined;
}

export interface ListRequest {
  /** Ends with `/`. */
  readonly prefix: string;
  /** Exclusive; undefined means from the start. */
  readonly after?: string;
  readonly limit?: number;
  /** A snapshot of the past, as long as the log reaches back to it; undefined means now. */
  readonly atRevision?: number;
}

export interface ListResult {
  readonly items: readonly StoredObject[];
  /** The revision the items are a snapshot of. */
  readonly revision: number;
  /** How many follow behind the last item. */
  readonly remaining: number;
}

/** What to do with one object, decided while nobody else can write. `revision` is the one the write will have. */
export type Decision<R> =
  | { readonly kind: 'put'; readonly value: string; readonly result: R }
  | { readonly kind: 'delete'; readonly value: string; readonly result: R }
  /** Nothing is written and no revision is used up; also the way to refuse (a conflict is a result, not an exception). */
  | { readonly kind: 'keep'; readonly result: R };

export interface Store {
  /** Of the last committed write. */
  readonly revision: number;
  /** Changes up to and including this one are gone; a watch or snapshot from before it is too old. */
  readonly compactedRevision: number;
  get(key: string): StoredObject | undefined;
  /** Throws a CompactedError when `atRevision` is too old. */
  list(request: ListRequest): ListResult;
  /**
   * Reads, decides and writes one key as one step. Resolves when the write is on disk. `decide` is synchronous and may be
   * called with the effect of writes that are not on disk yet, but it never sees anything that will not be.
   */
  update<R>(key: string, decide: (current: StoredObject | undefined, revision: number) => Decision<R>): Promise<R>;
  /** Committed changes with a greater revision, oldest first. Throws a CompactedError when some of them are gone. */
  changesAfter(revision: number, prefix: string): Iterable<Change>;
  /** Called after each commit, in order of revisions, each change once. Returns how to stop. */
  subscribe(listener: (changes: readonly Change[]) => void): () => void;
  /** A consistent copy, while writes go on. */
  backup(file: string): Promise<void>;
  close(): Promise<void>;
}
