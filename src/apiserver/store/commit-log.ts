/**
 * Files to which commits are appended and synced: a commit costs one sync of one file. What is in them is moved to a snapshot
 * now and then; the journal says when. It knows nothing of what rows mean.
 *
 *   spare ──rotate──▶ active ──rotate──▶ closed ──release, when its commits are in a snapshot──▶ spare, or removed
 *
 * The files have their full length from the start and are written over: a file that grows makes every sync wait for the file
 * system's own journal as well, together with what other programs have there. The spare is also the reserve of a full disk: when
 * there is no room for another one, only deletions are committed, and they find room in the active file and the spare.
 */
import {
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  rmSync,
  write,
  writeSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { errorCode, messageOf } from '../../base/errors.ts';
import { type LogRecord, decodeRecords, recordHeaderLength, recordLength } from './row.ts';
import { commitFailed, unreadableStore } from './store-errors.ts';
import { syncPath } from './sync-path.ts';

/** Then the next file is written. To read a closed one takes a few milliseconds. */
export const logFileBytesMax = 2 * 1024 * 1024;
/** With room for the commit that makes a file larger than that, unless it is a very large one. */
export const reservedBytes = logFileBytesMax + 256 * 1024;

interface LogFile {
  readonly name: string;
  readonly descriptor: number;
  /** Where its last record ends. */
  length: number;
}

const writeAt = promisify(write);

export class CommitLog {
  readonly #directory: string;
  #active: LogFile;
  #closed: LogFile[] = [];
  #spare: LogFile | undefined;
  #preparing: Promise<boolean> | undefined;
  #isUncertain = false;

  private constructor(directory: string, active: LogFile) {
    this.#directory = directory;
    this.#active = active;
  }

  /** Goes on behind the newest record. A file that has only commits which are in the snapshot is written over. */
  static async open(directory: string, reading: LogReading, sequence: number): Promise<CommitLog> {
    const used = reading.files.filter(({ first }) => first > sequence).toSorted((a, b) => a.first - b.first);
    const free = reading.files.filter(({ first }) => first <= sequence);
    const newest = used.pop() ?? free.pop() ?? { name: 'log.0', first: 0, length: 0 };
    const fileOf = ({ name, length }: { name: string; length: number }): LogFile =>
      openLogFile(directory, name, length);
    const log = new CommitLog(directory, fileOf(newest.first > sequence ? newest : { ...newest, length: 0 }));
    try {
      log.#closed = used.map(fileOf);
      for (const { name } of free) log.#reuse(fileOf({ name, length: 0 }));
      await reserve(log.#active.descriptor);
      await log.prepareSpare();
      // The names of the files; their content is synced as it is written.
      syncPath(directory);
      return log;
    } catch (thrown) {
      log.close();
      throw thrown;
    }
  }

  /** The active file has enough. */
  get isFileFull(): boolean {
    return this.#active.length > logFileBytesMax;
  }

  get closedBytes(): number {
    return this.#closed.reduce((sum, { length }) => sum + length, 0);
  }

  /** Of all commits in it. */
  get bytes(): number {
    return this.closedBytes + this.#active.length;
  }

  /** A write has failed, and then so did taking it back: what a restart would find is unknown. */
  get isUncertain(): boolean {
    return this.#isUncertain;
  }

  /** One record. Resolves when it is on disk. When it rejects, it is not in the log, unless that is uncertain now. */
  async append(bytes: Buffer): Promise<void> {
    const file = this.#active;
    if (this.#isUncertain) throw commitFailed('an earlier write to the log could not be taken back');
    try {
      for (let done = 0; done < bytes.length;) {
        const { bytesWritten } = await writeAt(file.descriptor, bytes, done, bytes.length - done, file.length + done);
        done += bytesWritten;
      }
    } catch (thrown) {
      this.#takeBack(file);
      throw commitFailed(messageOf(thrown), { cause: thrown });
    }
    file.length += bytes.length;
  }

  /** Goes on in the spare. Without one, the active file grows as long as there is room. Not while a record is appended. */
  async rotate(): Promise<void> {
    await this.#preparing;
    if (this.#spare === undefined) return;
    this.#closed.push(this.#active);
    this.#active = this.#spare;
    this.#spare = undefined;
  }

  /** Resolves to false when there is no room for one. */
  async prepareSpare(): Promise<boolean> {
    if (this.#spare !== undefined) return true;
    return (this.#preparing ??= this.#prepare().finally(() => (this.#preparing = undefined)));
  }

  /** The commits of the closed files; `release` gives these files free when they are in a snapshot. */
  async readClosed(): Promise<{ readonly records: readonly LogRecord[]; readonly release: () => void }> {
    const files = [...this.#closed];
    const records: LogRecord[] = [];
    for (const file of files) records.push(...(await this.#recordsOf(file)));
    return {
      records,
      release: () => {
        this.#closed = this.#closed.filter((file) => !files.includes(file));
        for (const file of files) this.#reuse(file);
      },
    };
  }

  /** As `readClosed`, with the active file: nothing may be appended until then. */
  async readAll(): Promise<{ readonly records: readonly LogRecord[]; readonly release: () => void }> {
    const closed = await this.readClosed();
    const active = await this.#recordsOf(this.#active);
    return {
      records: [...closed.records, ...active],
      release: () => {
        closed.release();
        this.#empty(this.#active);
      },
    };
  }

  close(): void {
    for (const file of [this.#active, ...this.#closed, this.#spare]) if (file !== undefined) closeSync(file.descriptor);
  }

  /** A turn of the event loop for each file. */
  async #recordsOf({ name, length }: LogFile): Promise<readonly LogRecord[]> {
    const bytes = await readFile(join(this.#directory, name));
    return decodeRecords(bytes.subarray(0, length)).records;
  }

  /** What the file holds stays until it is written over: its records have the numbers of commits that are in the snapshot. */
  #empty(file: LogFile): void {
    if (file.length > reservedBytes) ftruncateSync(file.descriptor, reservedBytes);
    file.length = 0;
  }

  #reuse(file: LogFile): void {
    if (this.#spare === undefined && this.#preparing === undefined) {
      this.#empty(file);
      this.#spare = file;
      return;
    }
    closeSync(file.descriptor);
    rmSync(join(this.#directory, file.name), { force: true });
  }

  async #prepare(): Promise<boolean> {
    const names = new Set([this.#active, ...this.#closed].map(({ name }) => name));
    let number = 0;
    while (names.has(`log.${number}`)) number += 1;
    const file = openLogFile(this.#directory, `log.${number}`, 0);
    if (await reserve(file.descriptor)) {
      syncPath(this.#directory);
      this.#spare = file;
      return true;
    }
    closeSync(file.descriptor);
    rmSync(join(this.#directory, file.name), { force: true });
    return false;
  }

  #takeBack({ descriptor, length }: LogFile): void {
    try {
      // The reserved room is kept: on a full disk there is no other. A record without a header is none.
      let isKept = length < reservedBytes;
      try {
        if (isKept) writeSync(descriptor, Buffer.alloc(recordHeaderLength), 0, recordHeaderLength, length);
      } catch (thrown) {
        if (!lacksRoom(thrown)) throw thrown;
        isKept = false;
      }
      ftruncateSync(descriptor, isKept ? reservedBytes : length);
      fdatasyncSync(descriptor);
    } catch {
      this.#isUncertain = true;
    }
  }
}

interface ReadFile {
  readonly name: string;
  /** The number of its first record; 0 for none. */
  readonly first: number;
  /** Of the records from the first on that were written one after the other. */
  readonly length: number;
}

/**
 * What was committed after some commit, oldest first. May be read while another process writes: it is then all that was
 * committed before the call, and what the snapshot does not have yet of what came during it.
 */
export class LogReading {
  readonly #directory: string;
  readonly #records: readonly LogRecord[];
  readonly #sequenceBehind: number;
  readonly files: readonly ReadFile[];

  private constructor(directory: string, records: LogRecord[], sequenceBehind: number, files: readonly ReadFile[]) {
    this.#directory = directory;
    this.#records = records.toSorted((a, b) => a.sequence - b.sequence);
    this.#sequenceBehind = sequenceBehind;
    this.files = files;
  }

  /** To be read before the snapshot is: what is moved there in between is in both. */
  static async of(directory: string): Promise<LogReading> {
    const all: LogRecord[] = [];
    const files: ReadFile[] = [];
    let behind = 0;
    for (const name of readdirSync(directory).filter((other) => /^log\.\d+$/.test(other))) {
      const { records, sequenceBehind } = decodeRecords(await readIfThere(join(directory, name)));
      behind = Math.max(behind, sequenceBehind);
      all.push(...records);
      const older = records.findIndex(({ sequence }, index) => sequence < (records[index - 1]?.sequence ?? 0));
      const own = older === -1 ? records : records.slice(0, older);
      const length = own.reduce((sum, { rows }) => sum + recordLength(rows), 0);
      files.push({ name, first: own[0]?.sequence ?? 0, length });
    }
    return new LogReading(directory, all, behind, files);
  }

  /** Where no other process writes, there is no gap; where there is one, commits are lost, and that is an error. */
  allAfter(sequence: number): readonly LogRecord[] {
    const records = this.untilGapAfter(sequence);
    const isComplete = records.length === this.#records.filter((record) => record.sequence > sequence).length;
    if (!isComplete || this.#sequenceBehind > sequence + records.length) {
      const names = this.files.map(({ name }) => name);
      throw unreadableStore(
        this.#directory,
        `its log is damaged behind commit ${sequence + records.length} (remove "${names.join('" and "')}" to go on without the newest writes)`,
      );
    }
    return records;
  }

  untilGapAfter(sequence: number): readonly LogRecord[] {
    const later = this.#records.filter((record) => record.sequence > sequence);
    const gap = later.findIndex((record, index) => record.sequence !== sequence + 1 + index);
    return gap === -1 ? later : later.slice(0, gap);
  }
}

/** Gives a file its length. False when there is no room for that. */
async function reserve(descriptor: number): Promise<boolean> {
  const zeros = Buffer.alloc(256 * 1024);
  const start = fstatSync(descriptor).size;
  try {
    for (let at = start; at < reservedBytes;) {
      at += (await writeAt(descriptor, zeros, 0, Math.min(zeros.length, reservedBytes - at), at)).bytesWritten;
    }
    return true;
  } catch (thrown) {
    if (!lacksRoom(thrown)) throw thrown;
    ftruncateSync(descriptor, start);
    return false;
  }
}

function lacksRoom(thrown: unknown): boolean {
  return errorCode(thrown) === 'ENOSPC' || errorCode(thrown) === 'EDQUOT';
}

function openLogFile(directory: string, name: string, length: number): LogFile {
  // With O_DSYNC a write returns when the data is on disk: one call, one turn of a thread.
  const { O_RDWR, O_CREAT, O_DSYNC, O_NOFOLLOW } = constants;
  const descriptor = openSync(join(directory, name), O_RDWR | O_CREAT | O_DSYNC | O_NOFOLLOW, 0o600);
  return { name, descriptor, length };
}

async function readIfThere(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return Buffer.alloc(0);
    throw thrown;
  }
}
