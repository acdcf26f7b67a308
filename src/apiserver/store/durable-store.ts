/**
 * Opens a store on disk and restores one from a backup: puts the lock, the journal and the store together.
 *
 *   const store = await DurableStore.open({ directory, keys, isSecret, lock, now: () => Date.now(), limits: storeDefaults });
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { errorCode, messageOf } from '../../base/errors.ts';
import { changeLogDefaults } from './change-log.ts';
import { type EncryptionKey, ValueSeal } from './encryption.ts';
import { FileJournal, copyStore } from './file-journal.ts';
import type { JournalContent } from './journal.ts';
import { isLmdb, readLmdb } from './lmdb-file.ts';
import { Snapshot, type StoreState, snapshotName, writeSnapshot } from './snapshot.ts';
import { StoreError, backupFailed, restoreFailed } from './store-errors.ts';
import { syncPath } from './sync-path.ts';
import { type StoreLimits, type StoreOptions, VersionedStore } from './versioned-store.ts';

export interface DurableStoreOptions extends StoreOptions {
  readonly directory: string;
  /** A file outside the directory that knows how far the store has come. */
  readonly marker: string;
  /** The first encrypts, all decrypt; none: everything is in clear. */
  readonly keys: readonly EncryptionKey[];
  readonly isSecret: (key: string) => boolean;
  /** Keeps other processes out until it is released or this process ends, however it ends; throws when another one has it. */
  readonly lock: (directory: string) => { release(): void };
}

export const storeDefaults: StoreLimits = {
  ...changeLogDefaults,
  // Everything is in memory; Node's heap is 2 GiB or more where there is that much.
  objectBytesMax: 512 * 1024 * 1024,
  // Far above the 200 writes in flight that a server admits; a bound for callers that do not wait.
  waitingMax: 10_000,
};

/** A restored store goes on from here: above any revision that a client of the lost one can have seen. */
const restoreRevisionStep = 1_000_000_000;

export class DurableStore extends VersionedStore {
  readonly #release: () => void;

  private constructor(
    journal: FileJournal,
    content: JournalContent,
    options: DurableStoreOptions,
    release: () => void,
  ) {
    super(journal, content, options);
    this.#release = release;
  }

  static async open(options: DurableStoreOptions): Promise<DurableStore> {
    const { directory, marker, keys, isSecret, lock } = options;
    mkdirSync(directory, { mode: 0o700, recursive: true });
    const held = lock(directory);
    try {
      const { journal, content } = await FileJournal.open(directory, marker, new ValueSeal(keys, isSecret));
      return new DurableStore(journal, content, options, () => held.release());
    } catch (thrown) {
      held.release();
      throw thrown;
    }
  }

  override async close(): Promise<void> {
    try {
      await super.close();
    } finally {
      this.#release();
    }
  }
}

/** A consistent copy, made without the lock: another process may write meanwhile. */
export async function backUpStore(directory: string, file: string): Promise<void> {
  const names = existsSync(directory) ? readdirSync(directory) : [];
  if (names.includes('data.mdb'))
    throw backupFailed(directory, 'an older version wrote it; start the server once, which converts it');
  if (!names.some((name) => name === snapshotName || name.startsWith('log.')))
    throw backupFailed(directory, 'there is no store in it');
  await copyStore(directory, file);
}

/**
 * Makes a store of a backup in a directory that is empty or absent. Its objects keep their revisions, but the counter is set
 * far ahead and the log is empty: clients of the lost store have seen revisions that this one has not, and must list again.
 */
export async function restoreBackup(file: string, directory: string): Promise<void> {
  if (existsSync(directory) && readdirSync(directory).length > 0) {
    throw restoreFailed(directory, 'it is not empty; choose another directory, or move what is in it away');
  }
  const isOld = isLmdb(readBackup(file));
  mkdirSync(dirname(directory), { recursive: true });
  const draft = mkdtempSync(join(dirname(directory), `.${basename(directory)}-`));
  let snapshot: Snapshot | undefined;
  try {
    snapshot = isOld ? undefined : await Snapshot.open(file);
    const content = snapshot === undefined ? readLmdb(file) : { base: snapshot, records: [], state: snapshot.state };
    const path = join(draft, snapshotName);
    await writeSnapshot(path, `${path}.new`, { ...content, state: advanced(content.state) });
    // Takes the place of an empty directory in one step.
    renameSync(draft, directory);
    syncPath(dirname(directory));
  } catch (thrown) {
    throw restoreFailed(directory, messageOf(thrown), { cause: thrown });
  } finally {
    await snapshot?.close();
    rmSync(draft, { recursive: true, force: true });
  }
}

function readBackup(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (thrown) {
    const why = errorCode(thrown) === 'ENOENT' ? 'there is no such file' : messageOf(thrown);
    throw new StoreError('RestoreFailed', `Cannot read the backup "${file}": ${why}`, { cause: thrown });
  }
}

function advanced({ revision, sequence }: StoreState): StoreState {
  const next = revision + restoreRevisionStep;
  return { revision: next, compactedRevision: next, sequence };
}
