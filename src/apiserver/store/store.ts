/**
 * The versioned store behind the API server: ordered keys, one revision counter for all of them, a bounded log of changes
 * that watches are fed from. This file is the contract; `versioned-store.ts` keeps it and `file-journal.ts` puts it on disk.
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
  /** What cannot be read is left out; otherwise a list that it belongs in is refused, so that nobody takes it for deleted. */
  readonly leavesOutDamaged?: boolean;
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
  /** `ending`: the object is being deleted, so this is written also when the disk is full. */
  | { readonly kind: 'put'; readonly value: string; readonly result: R; readonly ending?: boolean }
  | { readonly kind: 'delete'; readonly value: string; readonly result: R }
  /** Nothing is written and no revision is used up. */
  | { readonly kind: 'keep'; readonly result: R };

/** Something on disk that cannot be read as it was written. */
export interface DamagedValue {
  readonly key: string;
  readonly reason: string;
}

/**
 * Reads are of committed state alone and never wait. A read that would need a damaged value throws a StoreError:
 * half a list would look like a deletion to whoever compares it with the last one.
 */
export interface Store {
  /** Of the last committed write. */
  readonly revision: number;
  /** Changes up to and including this one are gone; a watch or snapshot from before it is too old. */
  readonly compactedRevision: number;
  /** Found when the store was opened, for the log and the operator. */
  readonly damaged: readonly DamagedValue[];
  get(key: string): StoredObject | undefined;
  /** The writes of such keys that are decided and not on disk yet: those that the next decision is made on top of. */
  underway(prefix: string): readonly Pick<Change, 'key' | 'type' | 'value'>[];
  /** Throws a CompactedError when `atRevision` is too old and a FutureRevisionError when it is not reached yet. */
  list(request: ListRequest): ListResult;
  /**
   * Reads, decides and writes one key as one step. `decide` is called before `update` returns, in the order of the calls, and
   * may be given the effect of writes that are not on disk yet. The promise resolves when the write, and all that `decide`
   * was given, is on disk; if that fails it rejects and nobody ever sees any of it. What `decide` throws is a refusal:
   * nothing is written, and the promise rejects with it once all that `decide` was given is on disk.
   */
  update<R>(key: string, decide: (current: StoredObject | undefined, revision: number) => Decision<R>): Promise<R>;
  /**
   * Committed changes with a greater revision, oldest first, of keys that begin with `prefix`. They stay valid however long
   * they are held. Throws a CompactedError when some of them are gone.
   */
  changesAfter(revision: number, prefix: string): readonly Change[];
  /** Called after each commit, in order of revisions, each change once. Returns how to stop. */
  subscribe(listener: (changes: readonly Change[]) => void): () => void;
  /** A consistent copy, while writes go on. Secrets in it are encrypted as in the store; the key is not in it. */
  backup(file: string): Promise<void>;
  /** Finishes what was begun; later updates are refused. */
  close(): Promise<void>;
}
