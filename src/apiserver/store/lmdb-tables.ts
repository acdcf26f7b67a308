/**
 * The tables on disk: objects by key, changes by revision, one row of state, in LMDB. Opens, fills and copies them. When a
 * commit goes there is the journal's business; what the rows mean is in `row-codec.ts`.
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { open, type Database, type RootDatabase } from 'lmdb';
import { MountletError, messageOf } from '../../base/errors.ts';
import { LogReading } from './commit-log.ts';
import { wrongDataFile } from './data-file.ts';
import { readState } from './journal-loading.ts';
import type { LogRecord, LogRow } from './log-record.ts';
import { CommitError, StoreFormatError } from './store-errors.ts';
import { syncPath } from './sync-path.ts';

export type Table = Database<Buffer, Buffer>;

export interface Engine {
  readonly root: RootDatabase<Buffer, Buffer>;
  readonly tables: JournalTables;
}

export interface JournalTables {
  readonly objects: Table;
  readonly changes: Table;
  readonly state: Table;
}

export const dataFileName = 'data.mdb';

/** In one synced transaction, of each key the newest row. */
export async function writeRecords({ root, tables }: Engine, records: readonly LogRecord[]): Promise<void> {
  const newest = new Map<string, LogRow>();
  for (const { rows } of records) {
    for (const row of rows) newest.set(`${row.table} ${row.key.toString('latin1')}`, row);
  }
  if (newest.size === 0) return;
  try {
    // The promises of single operations settle with that of the batch.
    await root.batch(() => {
      for (const { table, key, row } of newest.values()) {
        void (row === undefined ? tables[table].remove(key) : tables[table].put(key, row));
      }
    });
  } catch (thrown) {
    throw await commitError(thrown);
  }
}

export function openTables(directory: string): Engine {
  const binary = { encoding: 'binary', keyEncoding: 'binary' } as const;
  mkdirSync(directory, { mode: 0o700, recursive: true });
  const file = join(directory, dataFileName);
  // Another process may write while this one makes a backup: damage is what is found twice.
  const wrong = wrongDataFile(file) && wrongDataFile(file);
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
export function explained<T>(directory: string, act: () => T): T {
  try {
    return act();
  } catch (thrown) {
    throw explanation(directory, thrown);
  }
}

export function explanation(directory: string, thrown: unknown): MountletError {
  return thrown instanceof MountletError
    ? thrown
    : new StoreFormatError(directory, messageOf(thrown), { cause: thrown });
}

/**
 * A consistent copy, also of a store that another process has open. Under another name until it is whole and on disk, so that
 * a file of that name is always a backup.
 */
export async function copyStore(directory: string, { root }: Engine, file: string): Promise<void> {
  const draft = `${file}.${randomBytes(6).toString('hex')}.draft`;
  mkdirSync(draft, { mode: 0o700, recursive: true });
  try {
    const log = new LogReading(directory);
    await root.backup(draft, true);
    const copy = openTables(draft);
    try {
      const { sequence } = readState(draft, copy.tables);
      await writeRecords(copy, log.untilGapAfter(sequence));
    } finally {
      await copy.root.close();
    }
    const data = join(draft, dataFileName);
    syncPath(data);
    renameSync(data, file);
    syncPath(dirname(file));
  } finally {
    rmSync(draft, { recursive: true, force: true });
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
