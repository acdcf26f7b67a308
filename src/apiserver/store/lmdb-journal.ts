/**
 * The journal on disk: three tables (objects by key, changes by revision, one row of state) in LMDB, and before them a log.
 * A commit is synced to the log, which takes one sync where LMDB takes two and writes whole pages. When the log has grown, its
 * rows are moved to the tables in one synced transaction while commits go on in the log's other file.
 *
 *   commit ─▶ log ─▶ answer          open:    tables, then what the log has that they have not ─▶ tables
 *              └─now and then─▶ tables          known by the number of the last commit, which is in the row of state
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { open, type Database, type RootDatabase } from 'lmdb';
import { MountletError, messageOf } from '../../base/errors.ts';
import { wrongDataFile } from './data-file.ts';
import { CommitLog, LogReading } from './commit-log.ts';
import { loadJournal, readState } from './journal-loading.ts';
import type { Journal, JournalCommit, JournalContent } from './journal.ts';
import type { LogRecord, LogRow } from './log-record.ts';
import {
  changeRowKey,
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

/** A start reads at most twice this; to move it holds up the event loop for a few milliseconds. */
const logBytesMax = 2 * 1024 * 1024;

/** Compacted changes are removed with later commits, more of them than come, so that no single commit takes long. */
const removalsExtra = 256;

export class LmdbJournal implements Journal {
  readonly #directory: string;
  readonly #engine: Engine;
  readonly #log: CommitLog;
  readonly #seal: ValueSeal;
  /** Committed, in the log, and not in the tables yet: the newest row for each key. */
  #pending = new Map<string, LogRow>();
  #moving: Promise<void> = Promise.resolve();
  #revision: number;
  #sequence: number;
  /** The oldest change that is still there; it may have been compacted already. */
  #oldestChange: number;

  private constructor(directory: string, engine: Engine, log: CommitLog, seal: ValueSeal) {
    this.#directory = directory;
    this.#engine = engine;
    this.#log = log;
    this.#seal = seal;
    ({ revision: this.#revision, sequence: this.#sequence } = readState(directory, engine.tables));
    this.#oldestChange = oldestOf(engine.tables.changes);
  }

  /** The caller has locked the directory: LMDB would let a second process write, which this store would never notice. */
  static async open(directory: string, seal: ValueSeal): Promise<LmdbJournal> {
    const engine = openTables(directory);
    let log: CommitLog | undefined;
    try {
      log = CommitLog.open(directory);
      // The names of the files; their content is synced by whoever writes it.
      syncPath(directory);
      const { sequence } = readState(directory, engine.tables);
      await writeRows(engine, rowsOf(new LogReading(directory).allAfter(sequence)).values());
      log.empty();
      return new LmdbJournal(directory, engine, log, seal);
    } catch (thrown) {
      log?.close();
      await engine.root.close();
      throw explanation(directory, thrown);
    }
  }

  load(): JournalContent {
    return explained(this.#directory, () => loadJournal(this.#directory, this.#engine.tables, this.#seal));
  }

  async commit({ revision, compactedRevision, objects, changes }: JournalCommit): Promise<void> {
    if (this.#log.length > logBytesMax) await this.#makeRoom();
    const sequence = this.#sequence + 1;
    const rows: LogRow[] = [];
    for (const [key, object] of objects) {
      const row = object === undefined ? undefined : encodeObject(object, this.#seal);
      rows.push({ table: 'objects', key: objectRowKey(key), row });
    }
    for (const change of changes) {
      rows.push({ table: 'changes', key: changeRowKey(change.revision), row: encodeChange(change, this.#seal) });
    }
    const oldest = Math.min(this.#oldestChange, changes[0]?.revision ?? Infinity);
    const oldestAfter = Math.max(oldest, Math.min(compactedRevision + 1, oldest + removalsExtra + 2 * changes.length));
    for (let gone = oldest; gone < oldestAfter; gone += 1) {
      rows.push({ table: 'changes', key: changeRowKey(gone), row: undefined });
    }
    const state = encodeState({ format: storeFormat, revision, compactedRevision, sequence });
    rows.push({ table: 'state', key: stateRowKey, row: state });
    await this.#log.append({ sequence, rows });
    for (const row of rows) this.#pending.set(placeOf(row), row);
    this.#revision = revision;
    this.#sequence = sequence;
    this.#oldestChange = oldestAfter;
  }

  revisionOnDisk(): number {
    if (this.#log.isUncertain) throw new StoreFormatError(this.#directory, 'its log could not be written');
    return this.#revision;
  }

  backup(file: string): Promise<void> {
    return copyStore(this.#directory, this.#engine, file);
  }

  async close(): Promise<void> {
    try {
      await this.#moveAll();
    } catch {
      // Nothing is lost: it is in the log, and moved when the store is opened again.
    } finally {
      this.#log.close();
      await this.#engine.root.close();
    }
  }

  /** Commits go on in the other file while those of this one are moved. */
  async #makeRoom(): Promise<void> {
    await this.#moving;
    // A move has failed and both files are needed: this one must succeed before anything more is committed.
    if (!this.#log.isOtherEmpty) return this.#moveAll();
    const rows = this.#pending;
    this.#pending = new Map();
    this.#log.switchOver();
    this.#moving = this.#move(rows);
  }

  /** When it fails, its rows wait with those that came since, and nothing is lost: they are in the log. */
  async #move(rows: ReadonlyMap<string, LogRow>): Promise<void> {
    try {
      await writeRows(this.#engine, rows.values());
      this.#log.emptyOther();
    } catch {
      this.#pending = new Map([...rows, ...this.#pending]);
    }
  }

  async #moveAll(): Promise<void> {
    await this.#moving;
    await writeRows(this.#engine, this.#pending.values());
    this.#pending = new Map();
    this.#log.empty();
  }
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
      await writeRows(copy, rowsOf(log.untilGapAfter(sequence)).values());
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

/** The newest row for each key. */
function rowsOf(records: readonly LogRecord[]): ReadonlyMap<string, LogRow> {
  return new Map(records.flatMap(({ rows }) => rows).map((row) => [placeOf(row), row]));
}

function placeOf({ table, key }: LogRow): string {
  return `${table} ${key.toString('latin1')}`;
}

/** In one synced transaction. */
async function writeRows({ root, tables }: Engine, rows: Iterable<LogRow>): Promise<void> {
  const all = [...rows];
  if (all.length === 0) return;
  try {
    // The promises of single operations settle with that of the batch.
    await root.batch(() => {
      for (const { table, key, row } of all) {
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
    throw explanation(directory, thrown);
  }
}

function explanation(directory: string, thrown: unknown): MountletError {
  return thrown instanceof MountletError
    ? thrown
    : new StoreFormatError(directory, messageOf(thrown), { cause: thrown });
}

/** Infinity when there is none; the first commit sets it. */
function oldestOf(changes: Table): number {
  for (const key of changes.getKeys({ limit: 1 })) return revisionOfRowKey(key);
  return Infinity;
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
