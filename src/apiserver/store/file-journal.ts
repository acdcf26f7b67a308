/**
 * The journal on disk: a log of commits, and a snapshot of all that was committed up to some commit. A commit is synced to the
 * log and acknowledged there. When the log has grown, its closed files and the snapshot become the next snapshot, some rows
 * at a time, while commits go on in the active file.
 *
 *   commit ─▶ log ─▶ answer           open:    snapshot, then the commits of the log that it does not have,
 *              └─now and then─▶ snapshot        known by the number of its last commit
 */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { MountletError, messageOf } from '../../base/errors.ts';
import type { LoggedChange } from './change-log.ts';
import { CommitLog, LogReading, logFileBytesMax, reservedBytes } from './commit-log.ts';
import type { Journal, JournalCommit, JournalContent } from './journal.ts';
import { migrateLmdb } from './lmdb-file.ts';
import { encodeRecord, type LogRecord } from './log-record.ts';
import { encodeChange, openRow, resealed, type Row } from './row.ts';
import { Snapshot, initialState, snapshotName, stateAfter, writeSnapshot, type StoreState } from './snapshot.ts';
import { CommitError, DiskFullError, StoreFormatError } from './store-errors.ts';
import { StoreMarker } from './store-marker.ts';
import type { StoredObject } from './store.ts';
import type { ValueSeal } from './value-seal.ts';

/** The log is moved when it is as large as the snapshot, so that a write is copied a few times at most, or as large as this. */
const logBytesMax = 64 * 1024 * 1024;
/** When moving does not keep up, or fails again and again, commits wait for it: this many times the size at which it begins. */
const logExcessMax = 4;
/** A store of at most this size is moved to a snapshot when it is closed, which takes some tenths of a second. */
const closingBytesMax = 64 * 1024 * 1024;
/** With less than this a disk is full. */
const freeBytesMin = 1024 * 1024;

export class FileJournal implements Journal {
  readonly #directory: string;
  readonly #log: CommitLog;
  readonly #seal: ValueSeal;
  readonly #marker: StoreMarker;
  #revision: number;
  #sequence: number;
  #snapshotBytes: number;
  /** One after the other: appending, and what needs the log to stand still. */
  #turn: Promise<unknown> = Promise.resolve();
  #compacting: Promise<void> | undefined;
  #compactionFailure: unknown;
  #isFull = false;
  #isLooking = false;
  /** The last commit when room was looked for. */
  #lookedAt = -1;

  private constructor(
    directory: string,
    log: CommitLog,
    seal: ValueSeal,
    marker: StoreMarker,
    state: StoreState,
    snapshotBytes: number,
  ) {
    this.#directory = directory;
    this.#log = log;
    this.#seal = seal;
    this.#marker = marker;
    ({ revision: this.#revision, sequence: this.#sequence } = state);
    this.#snapshotBytes = snapshotBytes;
  }

  /** The caller has locked the directory: a second process that writes would never be noticed. */
  static async open(
    directory: string,
    markerPath: string,
    seal: ValueSeal,
  ): Promise<{ readonly journal: FileJournal; readonly content: JournalContent }> {
    let [snapshot, log]: [Snapshot?, CommitLog?] = [];
    try {
      rmSync(draftOf(directory), { force: true });
      await migrateLmdb(directory, draftOf(directory));
      const reading = await LogReading.of(directory);
      snapshot = await Snapshot.open(join(directory, snapshotName));
      const base = snapshot?.state ?? initialState;
      const records = reading.allAfter(base.sequence);
      const state = stateAfter(base, records);
      const content = await load(snapshot, records, state, seal);
      log = await CommitLog.open(directory, reading, base.sequence);
      const marker = StoreMarker.open(markerPath, directory, state.revision);
      const journal = new FileJournal(directory, log, seal, marker, state, snapshot?.sizeBytes ?? 0);
      await journal.#checkRoom();
      return { journal, content };
    } catch (thrown) {
      log?.close();
      if (thrown instanceof MountletError) throw thrown;
      throw new StoreFormatError(directory, messageOf(thrown), { cause: thrown });
    } finally {
      await snapshot?.close();
    }
  }

  isFull(): boolean {
    if (this.#isFull && !this.#isLooking) {
      this.#isLooking = true;
      void this.#look().finally(() => (this.#isLooking = false));
    }
    return this.#isFull;
  }

  commit(commit: JournalCommit): Promise<void> {
    return this.#inTurn(async () => {
      try {
        await this.#append(commit);
      } catch (thrown) {
        if (!(await this.#lacksRoom())) throw thrown;
        this.#isFull = true;
        throw new DiskFullError({ cause: thrown });
      }
      this.#marker.record(commit.revision);
    });
  }

  revisionOnDisk(): number {
    if (this.#log.isUncertain) throw new StoreFormatError(this.#directory, 'its log could not be written');
    return this.#revision;
  }

  async reseal(): Promise<number> {
    const keys = new Set<string>();
    await this.#inTurn(() =>
      this.#compactAll((row) => {
        const again = resealed(row, this.#seal);
        if (again !== undefined) keys.add(row.key);
        return again ?? row;
      }),
    );
    return keys.size;
  }

  backup(file: string): Promise<void> {
    return copyStore(this.#directory, file);
  }

  async close(): Promise<void> {
    await this.#turn;
    try {
      await this.#compacting;
      const { bytes } = this.#log;
      if (bytes > 0 && bytes + this.#snapshotBytes <= closingBytesMax) await this.#compactAll();
    } catch {
      // Nothing is lost: it is in the log.
    } finally {
      await this.#log.prepareSpare().catch(() => {});
      this.#log.close();
      await this.#marker.close();
    }
  }

  async #append({ revision, compactedRevision, changes }: JournalCommit): Promise<void> {
    if (this.#log.isFileFull) await this.#nextFile();
    const sequence = this.#sequence + 1;
    const rows = changes.map((change) => encodeChange(change, this.#seal, !this.#isFull));
    await this.#log.append(encodeRecord({ sequence, compactedRevision, rows }));
    this.#revision = revision;
    this.#sequence = sequence;
  }

  async #nextFile(): Promise<void> {
    await this.#log.rotate();
    void this.#checkRoom().catch(() => (this.#isFull = true));
    const enough = Math.max(logFileBytesMax, Math.min(this.#snapshotBytes, logBytesMax));
    if (this.#log.closedBytes < enough) return;
    this.#compacting ??= this.#compact().finally(() => (this.#compacting = undefined));
    if (this.#isFull || this.#log.closedBytes < logExcessMax * enough) return;
    await this.#compacting;
    if (this.#log.closedBytes >= logExcessMax * enough) {
      throw new CommitError(`the log cannot be compacted: ${messageOf(this.#compactionFailure)}`);
    }
  }

  /** The closed files of the log become part of the snapshot. When that fails nothing is lost, and the next rotation tries again. */
  async #compact(): Promise<void> {
    try {
      await this.#writeSnapshot(await this.#log.readClosed());
    } catch (thrown) {
      this.#compactionFailure = thrown;
    }
  }

  /** Nothing may be committed meanwhile. */
  async #compactAll(transform?: (row: Row) => Row): Promise<void> {
    await this.#compacting;
    await this.#writeSnapshot(await this.#log.readAll(), transform);
  }

  async #writeSnapshot(
    { records, release }: { readonly records: readonly LogRecord[]; readonly release: () => void },
    transform?: (row: Row) => Row,
  ): Promise<void> {
    const path = join(this.#directory, snapshotName);
    const base = await Snapshot.open(path);
    try {
      const later = records.filter(({ sequence }) => sequence > (base?.state.sequence ?? 0));
      // Room for the next file of the log is left.
      const checkRoom = async (): Promise<void> => {
        if (await this.#lacksRoom(reservedBytes + freeBytesMin)) throw new DiskFullError();
      };
      this.#snapshotBytes = await writeSnapshot(path, draftOf(this.#directory), {
        base,
        records: later,
        checkRoom,
        ...(transform && { transform }),
      });
    } finally {
      await base?.close();
    }
    release();
  }

  /** Objects were deleted since the last look: what is left may fit in a new snapshot, which frees the old one and the log. */
  async #look(): Promise<void> {
    try {
      if (this.#lookedAt !== this.#sequence) {
        this.#lookedAt = this.#sequence;
        await this.#inTurn(() => this.#compactAll()).catch(() => {});
      }
      await this.#checkRoom();
    } catch {
      // The disk cannot even be inspected: it stays full until the next look.
    }
  }

  /** The disk is full when there is no room for the next file of the log, or hardly any beside it. */
  async #checkRoom(): Promise<void> {
    this.#isFull = !(await this.#log.prepareSpare()) || (await this.#lacksRoom());
  }

  async #lacksRoom(bytesMin = freeBytesMin): Promise<boolean> {
    const { bavail, bsize } = await statfs(this.#directory);
    return bavail * bsize < bytesMin;
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(act);
    this.#turn = result.catch(() => {});
    return result;
  }
}

/**
 * A consistent copy, also of a store that another process has open. It has its name when it is whole and on disk, so that a file
 * of that name is always a backup.
 */
export async function copyStore(directory: string, file: string): Promise<void> {
  const reading = await LogReading.of(directory);
  const base = await Snapshot.open(join(directory, snapshotName));
  try {
    const records = reading.untilGapAfter(base?.state.sequence ?? 0);
    await writeSnapshot(file, `${file}.${randomBytes(6).toString('hex')}.draft`, { base, records });
  } finally {
    await base?.close();
  }
}

function draftOf(directory: string): string {
  return join(directory, `${snapshotName}.new`);
}

/**
 * From rows to the content of a store. What cannot be read is named and left out: an object as damaged, the changes up to and
 * including a damaged one as if they had been compacted, so that clients list again instead of missing something.
 */
async function load(
  snapshot: Snapshot | undefined,
  records: readonly LogRecord[],
  { revision, compactedRevision }: StoreState,
  seal: ValueSeal,
): Promise<JournalContent> {
  const objects = new Map<string, StoredObject>();
  const damaged = new Map<string, string>();
  let changes: LoggedChange[] = [];
  let lost: { readonly revision: number; readonly reason: string } | undefined;

  const apply = (row: Row, opened: ReturnType<typeof openRow>): void => {
    const { type, key } = row;
    const previous = objects.get(key);
    const damage = 'damage' in opened ? opened.damage : damaged.get(key);
    const value = 'damage' in opened ? undefined : opened.value;
    if (type !== 'mark' && row.revision > compactedRevision) {
      if (damage === undefined && value !== undefined) {
        changes.push({
          type,
          key,
          revision: row.revision,
          time: row.time,
          value,
          previous: previous?.value,
          previousRevision: previous?.revision ?? 0,
        });
      } else {
        changes = [];
        lost = damage === undefined ? undefined : { revision: row.revision, reason: damage };
      }
    }
    objects.delete(key);
    damaged.delete(key);
    if (type === 'delete') return;
    if ('damage' in opened) damaged.set(key, opened.damage);
    else if (value !== undefined) objects.set(key, { key, value, revision: row.revision });
  };

  const early: (() => void)[] = [];
  for await (const { part, rows } of snapshot?.rows() ?? []) {
    for (const row of rows) {
      const opened = openRow(row, seal);
      // The changes come first, and need the objects that they changed.
      if (part === 'objects') apply(row, opened);
      else {
        const { type, key, revision: at, time } = row;
        early.push(() => apply({ type, key, revision: at, time, bytes: nothing }, opened));
      }
    }
  }
  for (const applyChange of early) applyChange();
  for (const { rows } of records) for (const row of rows) apply(row, openRow(row, seal));
  const named = [...damaged].map(([key, reason]) => ({ key, reason }));
  if (lost !== undefined) {
    named.push({ key: `change ${lost.revision}`, reason: `${lost.reason}; changes up to it are not kept` });
  }
  return {
    revision,
    compactedRevision: revision - changes.length,
    objects: [...objects.values()],
    changes,
    damaged: named,
  };
}

const nothing = Buffer.alloc(0);
