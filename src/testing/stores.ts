/** Stores on real directories for tests, with limits that a test can reach. */
import { join } from 'node:path';
import type { LmdbStoreOptions } from '../apiserver/store/lmdb-store.ts';
import { LmdbStore, storeDefaults } from '../apiserver/store/lmdb-store.ts';
import type { Journal } from '../apiserver/store/journal.ts';
import { VersionedStore } from '../apiserver/store/versioned-store.ts';
import type { Store, StoredObject } from '../apiserver/store/store.ts';
import { lockDirectory } from '../disk/paths/directory-lock.ts';

export function openStore(directory: string, options: Partial<LmdbStoreOptions> = {}): Promise<LmdbStore> {
  return LmdbStore.open({
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
    backup: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
  const stale = { keys: [], revisions: [] };
  const empty = { revision, compactedRevision: 0, objects: [], changes: [], damaged: [], stale };
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
