/** Stores on real directories for tests, with limits that a test can reach. */
import { join } from 'node:path';
import type { Journal } from '../../apiserver/store/journal.ts';
import { DurableStore, type DurableStoreOptions, storeDefaults } from '../../apiserver/store/durable-store.ts';
import { CompactedError } from '../../apiserver/store/store-errors.ts';
import type { Change, Decision, ListRequest, ListResult, Store, StoredObject } from '../../apiserver/store/store.ts';
import { VersionedStore } from '../../apiserver/store/versioned-store.ts';
import { lockDirectory } from '../../disk/paths/directory-lock.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';

export function openStore(directory: string, options: Partial<DurableStoreOptions> = {}): Promise<DurableStore> {
  return DurableStore.open({
    directory,
    marker: join(directory, 'marker'),
    keys: [],
    isSecret: (key) => key.startsWith('/registry/core/secrets/'),
    lock: lockDirectory,
    now: () => Date.now(),
    ...options,
    limits: { ...storeDefaults, ...options.limits },
  });
}

/** A store without a disk, for tests of what stands on top of one. */
export function memoryStore(): VersionedStore {
  let revision = 0;
  const journal: Journal = {
    commit: (commit) => {
      ({ revision } = commit);
      return Promise.resolve();
    },
    revisionOnDisk: () => revision,
    reseal: () => Promise.resolve(0),
    backup: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
  const empty = { revision, compactedRevision: 0, objects: [], changes: [], damaged: [] };
  return new VersionedStore(journal, empty, { now: () => 0, limits: storeDefaults });
}

/** Writes an object as the server would: with its revision in it. */
export function put(store: Store, key: string, text: string): Promise<StoredObject> {
  return store.update(key, (_, revision) => {
    const value = valueOf(text, revision);
    return { kind: 'put', value, result: { key, value, revision } };
  });
}

/** Resolves to the revision of the deletion, or undefined when there was nothing. */
export function remove(store: Store, key: string): Promise<number | undefined> {
  return store.update<number | undefined>(key, (current, revision) =>
    current === undefined
      ? { kind: 'keep', result: undefined }
      : { kind: 'delete', value: valueOf('deleted', revision), result: revision },
  );
}

export function valueOf(text: string, revision: number): string {
  return JSON.stringify({ metadata: { resourceVersion: String(revision) }, data: { text } });
}

/** A Store that keeps everything in memory and forgets it at the end: the contract without a disk, for tests of the server. */
export class MemoryStore implements Store {
  readonly #objects = new Map<string, StoredObject>();
  readonly #listeners = new Set<(changes: readonly Change[]) => void>();
  #log: Change[] = [];
  #revision = 1;
  #compacted = 0;
  #tail: Promise<void> = Promise.resolve();
  readonly #underway = new Set<Change>();

  get revision(): number {
    return this.#revision;
  }

  get damaged(): readonly never[] {
    return [];
  }

  get compactedRevision(): number {
    return this.#compacted;
  }

  get(key: string): StoredObject | undefined {
    return this.#objects.get(key);
  }

  /** Those that no listener has heard of. */
  underway(prefix: string): readonly Change[] {
    return [...this.#underway].filter(({ key }) => key.startsWith(prefix));
  }

  list({ prefix, after, limit = Infinity, atRevision }: ListRequest): ListResult {
    const revision = atRevision ?? this.#revision;
    const objects = this.#snapshot(revision);
    const keys = [...objects.keys()]
      .filter((key) => key.startsWith(prefix) && (after === undefined || compareByteOrder(key, after) > 0))
      .sort(compareByteOrder);
    const items = keys.slice(0, limit).flatMap((key) => objects.get(key) ?? []);
    return { items, revision, remaining: keys.length - items.length };
  }

  async update<R>(
    key: string,
    decide: (current: StoredObject | undefined, revision: number) => Decision<R>,
  ): Promise<R> {
    const previous = this.#objects.get(key);
    const revision = this.#revision + 1;
    const decision = decide(previous, revision);
    if (decision.kind !== 'keep') {
      this.#revision = revision;
      if (decision.kind === 'put') this.#objects.set(key, { key, value: decision.value, revision });
      else this.#objects.delete(key);
      this.#commit({ type: decision.kind, key, revision, value: decision.value, previous: previous?.value });
    }
    await this.#tail;
    return decision.result;
  }

  changesAfter(revision: number, prefix: string): readonly Change[] {
    if (revision < this.#compacted) throw new CompactedError(revision, this.#compacted);
    return this.#log.filter((change) => change.revision > revision && change.key.startsWith(prefix));
  }

  subscribe(listener: (changes: readonly Change[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Forgets the log up to and including this revision, as time does with the real one. */
  compact(revision: number): void {
    this.#compacted = revision;
    this.#log = this.#log.filter((change) => change.revision > revision);
  }

  backup(): Promise<void> {
    return Promise.reject(new Error('a store in memory has no backup'));
  }

  close(): Promise<void> {
    return this.#tail;
  }

  #commit(change: Change): void {
    this.#log.push(change);
    this.#underway.add(change);
    this.#tail = this.#announce(this.#tail, change);
  }

  async #announce(before: Promise<void>, change: Change): Promise<void> {
    await before;
    this.#underway.delete(change);
    for (const listener of this.#listeners) listener([change]);
  }

  #snapshot(revision: number): ReadonlyMap<string, StoredObject> {
    if (revision === this.#revision) return this.#objects;
    if (revision < this.#compacted) throw new CompactedError(revision, this.#compacted);
    const objects = new Map(this.#objects);
    for (const change of this.#log.toReversed()) {
      if (change.revision <= revision) break;
      if (change.previous === undefined) objects.delete(change.key);
      else objects.set(change.key, { key: change.key, value: change.previous, revision });
    }
    return objects;
  }
}
