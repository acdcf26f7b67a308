/**
 * The journal in LMDB: three tables (objects by key, changes by revision, one row of state) in one file. A commit is one
 * transaction that a thread of the engine writes and syncs while this one goes on.
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { open, type Database, type RootDatabase } from 'lmdb';
import { MountletError, messageOf } from '../../base/errors.ts';
import { wrongDataFile } from './data-file.ts';
import { loadJournal } from './journal-loading.ts';
import type { Journal, JournalCommit, JournalContent } from './journal.ts';
import {
  changeRowKey,
  decodeState,
  encodeChange,
  encodeObject,
  encodeState,
  objectRowKey,
  revisionOfRowKey,
  stateRowKey,
  storeFormat,
} from './row-codec.ts';
import { CommitError, StoreFormatError } from './store-errors.ts';
import type { ValueSeal } from './value-seal.ts';

export type Table = Database<Buffer, Buffer>;

export interface JournalTables {
  readonly objects: Table;
  readonly changes: Table;
  readonly state: Table;
}

export const dataFileName = 'data.mdb';

/** Compacted changes are removed with later commits, more of them than come, so that no single commit takes long. */
const removalsExtra = 256;

export class LmdbJournal implements Journal {
  readonly #directory: string;
  readonly #root: RootDatabase<Buffer, Buffer>;
  readonly #tables: JournalTables;
  readonly #seal: ValueSeal;
  /** The oldest change that is still in its table; it may have been compacted already. */
  #oldestChange: number;

  private constructor(directory: string, root: RootDatabase<Buffer, Buffer>, tables: JournalTables, seal: ValueSeal) {
    this.#directory = directory;
    this.#root = root;
    this.#tables = tables;
    this.#seal = seal;
    this.#oldestChange = oldestOf(tables.changes);
  }

  /** The caller has locked the directory: LMDB would let a second process write, which this store would never notice. */
  static open(directory: string, seal: ValueSeal): LmdbJournal {
    const { root, tables } = openTables(directory);
    return explained(directory, () => new LmdbJournal(directory, root, tables, seal));
  }

  load(): JournalContent {
    return explained(this.#directory, () => loadJournal(this.#directory, this.#tables, this.#seal));
  }

  async commit({ revision, compactedRevision, objects, changes }: JournalCommit): Promise<void> {
    // Encoded before anything is handed over, so that a failure to encode leaves no half of a transaction behind.
    const puts: [Table, Buffer, Buffer][] = [];
    for (const object of objects.values()) {
      if (object === undefined) continue;
      puts.push([this.#tables.objects, objectRowKey(object.key), encodeObject(object, this.#seal)]);
    }
    for (const change of changes) {
      puts.push([this.#tables.changes, changeRowKey(change.revision), encodeChange(change, this.#seal)]);
    }
    puts.push([this.#tables.state, stateRowKey, encodeState({ format: storeFormat, revision, compactedRevision })]);
    const oldest = Math.min(this.#oldestChange, changes[0]?.revision ?? Infinity);
    const oldestAfter = Math.max(oldest, Math.min(compactedRevision + 1, oldest + removalsExtra + 2 * changes.length));
    try {
      // The promises of single operations settle with that of the batch.
      await this.#root.batch(() => {
        for (const [table, key, row] of puts) void table.put(key, row);
        for (const [key, object] of objects) {
          if (object === undefined) void this.#tables.objects.remove(objectRowKey(key));
        }
        for (let gone = oldest; gone < oldestAfter; gone += 1) {
          void this.#tables.changes.remove(changeRowKey(gone));
        }
      });
    } catch (thrown) {
      throw await commitError(thrown);
    }
    this.#oldestChange = oldestAfter;
  }

  revisionOnDisk(): number {
    this.#root.resetReadTxn();
    const row = this.#tables.state.get(stateRowKey);
    const state = row === undefined ? { revision: 0 } : decodeState(row);
    if ('damage' in state) throw new StoreFormatError(this.#directory, `its state is damaged: ${state.damage}`);
    return state.revision;
  }

  /** Under another name until it is whole and on disk, so that a file of that name is always a backup. */
  async backup(file: string): Promise<void> {
    const draft = `${file}.${randomBytes(6).toString('hex')}.draft`;
    mkdirSync(draft, { mode: 0o700, recursive: true });
    try {
      await this.#root.backup(draft, true);
      const data = join(draft, dataFileName);
      chmodSync(data, 0o600);
      syncPath(data);
      renameSync(data, file);
      syncPath(dirname(file));
    } finally {
      rmSync(draft, { recursive: true, force: true });
    }
  }

  async close(): Promise<void> {
    await this.#root.close();
  }
}

export function openTables(directory: string): { root: RootDatabase<Buffer, Buffer>; tables: JournalTables } {
  const binary = { encoding: 'binary', keyEncoding: 'binary' } as const;
  mkdirSync(directory, { mode: 0o700, recursive: true });
  const wrong = wrongDataFile(join(directory, dataFileName));
  if (wrong !== undefined) throw new StoreFormatError(directory, wrong);
  return explained(directory, () => {
    const root = open<Buffer, Buffer>(directory, {
      ...binary,
      noSubdir: false, // also when the directory's name has a dot
      maxDbs: 4,
      // With it a commit would be acknowledged before it is synced.
      overlappingSync: false,
      // The store gathers what belongs in one commit itself.
      eventTurnBatching: false,
    });
    for (const name of [dataFileName, 'lock.mdb']) chmodSync(join(directory, name), 0o600);
    const tables = {
      objects: root.openDB<Buffer, Buffer>('objects', binary),
      changes: root.openDB<Buffer, Buffer>('changes', binary),
      state: root.openDB<Buffer, Buffer>('state', binary),
    };
    return { root, tables };
  });
}

/** What the engine throws while a store is opened says nothing of which store. */
function explained<T>(directory: string, act: () => T): T {
  try {
    return act();
  } catch (thrown) {
    if (thrown instanceof MountletError) throw thrown;
    throw new StoreFormatError(directory, messageOf(thrown), { cause: thrown });
  }
}

/** Infinity when there is none; the first commit sets it. */
function oldestOf(changes: Table): number {
  for (const key of changes.getKeys({ limit: 1 })) return revisionOfRowKey(key);
  return Infinity;
}

export function syncPath(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** The engine rejects with one error that says to look at another, which is a promise. */
async function commitError(thrown: unknown): Promise<CommitError> {
  const inner: unknown = thrown instanceof Error ? Reflect.get(thrown, 'commitError') : undefined;
  if (!(inner instanceof Promise)) return new CommitError(messageOf(thrown), { cause: thrown });
  try {
    await inner;
    return new CommitError(messageOf(thrown), { cause: thrown });
  } catch (cause) {
    return new CommitError(messageOf(cause), { cause });
  }
}
