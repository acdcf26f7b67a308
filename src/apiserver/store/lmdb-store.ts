/**
 * Opens a store on disk and restores one from a backup: puts the lock, the journal and the store together.
 *
 *   const store = await LmdbStore.open({ directory, keys, isSecret, lock, now: () => Date.now(), limits: storeDefaults });
 */
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { messageOf } from '../../base/errors.ts';
import { changeLogDefaults } from './change-log.ts';
import type { EncryptionKey } from './encryption-key.ts';
import type { JournalContent } from './journal.ts';
import { LmdbJournal } from './lmdb-journal.ts';
import { copyStore, dataFileName, openTables } from './lmdb-tables.ts';
import { decodeState, encodeState, stateRowKey, storeFormat } from './row-codec.ts';
import { BackupError, RestoreError } from './store-errors.ts';
import { ValueSeal } from './value-seal.ts';
import { VersionedStore, type StoreLimits, type StoreOptions } from './versioned-store.ts';
import { syncPath } from './sync-path.ts';

export interface LmdbStoreOptions extends StoreOptions {
  readonly directory: string;
  /** A file outside the directory that knows how far the store has come. */
  readonly marker: string;
  /** The first encrypts, all decrypt; none: everything is in clear. */
  readonly keys: readonly EncryptionKey[];
  readonly isSecret: (key: string) => boolean;
  /**
   * Keeps other processes out until it is released or this process ends, however it ends; throws when another one has it.
   * The engine alone would let two processes write.
   */
  readonly lock: (directory: string) => { release(): void };
}

export const storeDefaults: StoreLimits = {
  ...changeLogDefaults,
  // Everything is in memory; Node's heap is 2 GiB or more where there is that much.
  objectBytesMax: 512 * 1024 * 1024,
  // Far above the 200 writes in flight that a server admits; a bound for whoever asks without waiting.
  waitingMax: 10_000,
};

/** A restored store goes on from here: above any revision that a client of the lost one can have seen. */
const restoreRevisionStep = 1_000_000_000;

export class LmdbStore extends VersionedStore {
  readonly #release: () => void;

  private constructor(journal: LmdbJournal, content: JournalContent, options: LmdbStoreOptions, release: () => void) {
    super(journal, content, options);
    this.#release = release;
  }

  static async open(options: LmdbStoreOptions): Promise<LmdbStore> {
    const { directory, marker, keys, isSecret, lock } = options;
    mkdirSync(directory, { mode: 0o700, recursive: true });
    const held = lock(directory);
    let journal: LmdbJournal | undefined;
    try {
      journal = await LmdbJournal.open(directory, marker, new ValueSeal(keys, isSecret));
      return new LmdbStore(journal, journal.load(), options, () => held.release());
    } catch (thrown) {
      await journal?.close();
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

/** A consistent copy, made without the lock: the engine lets another process read while one writes. */
export async function backUpStore(directory: string, file: string): Promise<void> {
  if (!existsSync(join(directory, dataFileName))) throw new BackupError(directory, 'there is no store in it');
  const engine = openTables(directory);
  try {
    await copyStore(directory, engine, file);
  } finally {
    await engine.root.close();
  }
}

/**
 * Makes a store of a backup in a directory that is empty or not there. Its objects keep their revisions, but the counter is
 * set far ahead and the log is empty: clients of the lost store have seen revisions that this one has not, and must list again.
 */
export async function restoreBackup(file: string, directory: string): Promise<void> {
  if (existsSync(directory) && readdirSync(directory).length > 0) {
    throw new RestoreError(directory, 'it is not empty; choose another directory, or move what is in it away');
  }
  mkdirSync(dirname(directory), { recursive: true });
  const draft = mkdtempSync(join(dirname(directory), `.${basename(directory)}-`));
  try {
    copyFileSync(file, join(draft, dataFileName));
    await advanceRevision(draft);
    syncPath(join(draft, dataFileName));
    rmSync(join(draft, 'lock.mdb'), { force: true });
    // Takes the place of an empty directory in one step.
    renameSync(draft, directory);
    syncPath(dirname(directory));
  } catch (thrown) {
    throw new RestoreError(directory, messageOf(thrown), { cause: thrown });
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

async function advanceRevision(directory: string): Promise<void> {
  const { root, tables } = openTables(directory);
  try {
    const row = tables.state.get(stateRowKey);
    const state = row === undefined ? { damage: 'it has no state' } : decodeState(row);
    if ('damage' in state) throw new Error(`the file is not a whole backup: ${state.damage}`);
    const { sequence } = state;
    const revision = state.revision + restoreRevisionStep;
    await root.batch(() => {
      void tables.changes.clearAsync();
      void tables.state.put(
        stateRowKey,
        encodeState({ format: storeFormat, revision, compactedRevision: revision, sequence }),
      );
    });
  } finally {
    await root.close();
  }
}
