/**
 * The journal on disk: a log of commits, and a snapshot of all that was committed up to some commit. A commit is synced to the
 * log and acknowledged there. When the log has grown, its closed files and the snapshot become the next snapshot, some rows
 * at a time, while commits go on in the active file.
 *
 *   commit ─▶ log ─▶ answer           open:    snapshot, then the commits of the log that it does not have,
 *              └─now and then─▶ snapshot        known by the number of its last commit
 */
import { randomBytes } from 'node:crypto';
import { closeSync, constants, openSync, readFileSync, rmSync, write } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { MountletError, messageOf } from '../../base/errors.ts';
import { CommitLog, LogReading, logFileBytesMax, reservedBytes } from './commit-log.ts';
import type { ValueSeal } from './encryption.ts';
import { type Journal, type JournalCommit, type JournalContent, load } from './journal.ts';
import { migrateLmdb } from './lmdb-file.ts';
import { type LogRecord, type Row, encodeChange, encodeRecord, resealed } from './row.ts';
import { Snapshot, type StoreState, initialState, snapshotName, stateAfter, writeSnapshot } from './snapshot.ts';
import { DiskFullError, commitFailed, storeLost, unreadableStore } from './store-errors.ts';

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
      throw unreadableStore(directory, messageOf(thrown), { cause: thrown });
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
    if (this.#log.isUncertain) throw unreadableStore(this.#directory, 'its log could not be written');
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
      throw commitFailed(`the log cannot be compacted: ${messageOf(this.#compactionFailure)}`);
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
 * The last revision that was committed, in a file outside the store: a store that was emptied, or has lost its newest writes,
 * must not pass for a whole one. It is written after the commit and not synced, so it may be behind the store, but never ahead.
 */
const writeAt = promisify(write);

class StoreMarker {
  readonly #descriptor: number;
  #revision = 0;
  #writing: Promise<void> | undefined;

  private constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  /** Throws when the store has been further than `revision`. */
  static open(path: string, directory: string, revision: number): StoreMarker {
    const { O_RDWR, O_CREAT, O_NOFOLLOW } = constants;
    const descriptor = openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
    try {
      const text = readFileSync(descriptor, 'utf8');
      // One that cannot be read says at least that there was a store.
      const reached = text === '' ? 0 : Math.max(1, Number(text) || 0);
      if (reached > revision) throw storeLost(directory, path, revision, reached);
    } catch (thrown) {
      closeSync(descriptor);
      throw thrown;
    }
    const marker = new StoreMarker(descriptor);
    if (revision > 0) marker.record(revision);
    return marker;
  }

  record(revision: number): void {
    this.#revision = revision;
    this.#writing ??= this.#write();
  }

  async close(): Promise<void> {
    await this.#writing;
    closeSync(this.#descriptor);
  }

  /** A failure is no loss: the marker is then behind. */
  async #write(): Promise<void> {
    for (let written = 0; written !== this.#revision;) {
      written = this.#revision;
      // All of one length, so that each replaces the one before it.
      const text = Buffer.from(String(written).padStart(16, '0'));
      await writeAt(this.#descriptor, text, 0, text.length, 0).catch(() => {});
    }
    this.#writing = undefined;
  }
}
