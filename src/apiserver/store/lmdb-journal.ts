/**
 * The journal on disk: three tables (objects by key, changes by revision, one row of state) in LMDB, and before them a log.
 * A commit is synced to the log, which takes one sync where LMDB takes two and writes whole pages. When the log has grown, its
 * rows are moved to the tables in one synced transaction while commits go on in the log's other file.
 *
 *   commit ─▶ log ─▶ answer          open:    tables, then what the log has that they have not ─▶ tables
 *              └─now and then─▶ tables          known by the number of the last commit, which is in the row of state
 */
import { open, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { CommitLog, LogReading } from './commit-log.ts';
import { dataEnd } from './data-file.ts';
import { loadJournal, readState } from './journal-loading.ts';
import type { Journal, JournalCommit, JournalContent } from './journal.ts';
import { copyStore, dataFileName, explained, explanation, openTables, writeRecords } from './lmdb-tables.ts';
import type { Engine, Table } from './lmdb-tables.ts';
import { decodeRecords, encodeRecord } from './log-record.ts';
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
import { DiskFullError, StoreFormatError } from './store-errors.ts';
import { StoreMarker } from './store-marker.ts';
import { syncPath } from './sync-path.ts';
import type { ValueSeal } from './value-seal.ts';

/** A start reads at most twice this; to move it holds up the event loop for a few milliseconds. */
const logBytesMax = 2 * 1024 * 1024;
/** Room for the commit that makes it larger than that, unless it is a very large one. */
const logBytesExtra = 256 * 1024;

/**
 * Zeros behind the pages in use, so that a full disk leaves room to move both files of the log to the tables. They are part of
 * the data file: room that was given back would be taken by whatever fills the disk.
 */
const reserveBytes = 8 * 1024 * 1024;
/** With less than this a disk is full. The engine reports a write that went in half as an I/O error. */
const freeBytesMin = 1024 * 1024;

const noneWritten = { bytesWritten: 0 };

/** Compacted changes are removed with later commits, more of them than come, so that no single commit takes long. */
const removalsExtra = 256;

export class LmdbJournal implements Journal {
  readonly #directory: string;
  readonly #engine: Engine;
  readonly #log: CommitLog;
  readonly #seal: ValueSeal;
  /** Committed, in the log, and not in the tables yet. As bytes: thousands of rows would be a burden to the garbage collector. */
  #pending: Buffer[] = [];
  #moving: Promise<void> = Promise.resolve();
  #revision: number;
  #sequence: number;
  /** The oldest change that is still there; it may have been compacted already. */
  #oldestChange: number;
  readonly #marker: StoreMarker;
  #isFull = false;
  #isLooking = false;

  private constructor(directory: string, engine: Engine, log: CommitLog, seal: ValueSeal, marker: StoreMarker) {
    this.#directory = directory;
    this.#engine = engine;
    this.#log = log;
    this.#seal = seal;
    this.#marker = marker;
    ({ revision: this.#revision, sequence: this.#sequence } = readState(directory, engine.tables));
    this.#oldestChange = oldestOf(engine.tables.changes);
  }

  /** The caller has locked the directory: LMDB would let a second process write, which this store would never notice. */
  static async open(directory: string, markerPath: string, seal: ValueSeal): Promise<LmdbJournal> {
    const engine = openTables(directory);
    let log: CommitLog | undefined;
    try {
      log = CommitLog.open(directory, logBytesMax + logBytesExtra);
      // The names of the files; their content is synced by whoever writes it.
      syncPath(directory);
      const { sequence } = readState(directory, engine.tables);
      await writeRecords(engine, new LogReading(directory).allAfter(sequence));
      log.empty();
      log.reserve();
      const { revision } = readState(directory, engine.tables);
      const journal = new LmdbJournal(directory, engine, log, seal, StoreMarker.open(markerPath, directory, revision));
      await journal.#reserve();
      return journal;
    } catch (thrown) {
      log?.close();
      await engine.root.close();
      throw explanation(directory, thrown);
    }
  }

  load(): JournalContent {
    return explained(this.#directory, () => loadJournal(this.#directory, this.#engine.tables, this.#seal));
  }

  isFull(): boolean {
    if (this.#isFull && !this.#isLooking) {
      this.#isLooking = true;
      this.#moving = this.#moving.then(() => this.#reserve()).finally(() => (this.#isLooking = false));
    }
    return this.#isFull;
  }

  async commit(commit: JournalCommit): Promise<void> {
    try {
      await this.#append(commit);
    } catch (thrown) {
      if (!(await this.#lacksRoom())) throw thrown;
      this.#isFull = true;
      throw new DiskFullError({ cause: thrown });
    }
    this.#marker.record(commit.revision);
  }

  async #append({ revision, compactedRevision, objects, changes }: JournalCommit): Promise<void> {
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
    const record = encodeRecord({ sequence, rows });
    await this.#log.append(record);
    this.#pending.push(record);
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
      await this.#marker.close();
    }
  }

  /** Commits go on in the other file while those of this one are moved. */
  async #makeRoom(): Promise<void> {
    await this.#moving;
    // A move has failed and both files are needed: this one must succeed before anything more is committed.
    if (!this.#log.isOtherEmpty) return this.#moveAll();
    const records = this.#pending;
    this.#pending = [];
    this.#log.switchOver();
    this.#moving = this.#move(records);
  }

  /** When it fails, they wait with those that came since, and nothing is lost: they are in the log. */
  async #move(records: readonly Buffer[]): Promise<void> {
    try {
      await writeRecords(this.#engine, decoded(records));
      this.#log.emptyOther();
      await this.#reserve();
    } catch {
      this.#pending = [...records, ...this.#pending];
    }
  }

  async #moveAll(): Promise<void> {
    await this.#moving;
    await writeRecords(this.#engine, decoded(this.#pending));
    this.#pending = [];
    this.#log.empty();
    await this.#reserve();
  }

  /** Never while the engine writes: it may use what is behind the end of the file. */
  async #reserve(): Promise<void> {
    const file = await open(join(this.#directory, dataFileName), 'r+');
    try {
      const { size } = await file.stat();
      const missing = Math.max(0, dataEnd(file.fd) + reserveBytes - size);
      const { bytesWritten } = await file.write(Buffer.alloc(missing), 0, missing, size).catch(() => noneWritten);
      if (bytesWritten < missing) await file.truncate(size);
      this.#isFull = bytesWritten < missing || (await this.#lacksRoom());
    } finally {
      await file.close();
    }
  }

  async #lacksRoom(): Promise<boolean> {
    const { bavail, bsize } = await statfs(this.#directory);
    return bavail * bsize < freeBytesMin;
  }
}

/** Infinity when there is none; the first commit sets it. */
function oldestOf(changes: Table): number {
  for (const key of changes.getKeys({ limit: 1 })) return revisionOfRowKey(key);
  return Infinity;
}

function decoded(records: readonly Buffer[]): readonly LogRecord[] {
  return records.flatMap((bytes) => decodeRecords(bytes).records);
}
