/**
 * Two files to which commits are appended and synced, one after the other: a commit costs one sync of one file. What is in
 * them is moved to the tables now and then; the journal says when. It knows nothing of rows.
 *
 *   writing ──switchOver──▶ its commits are being moved to the tables ──emptyOther──▶ empty, the next to be written
 *
 * The files have their full length from the start and are written over: a file that grows makes every sync wait for the file
 * system's own journal as well, together with whatever other programs have there.
 */
import {
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  write,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { errorCode, messageOf } from '../../base/errors.ts';
import { decodeRecords, recordHeaderLength, type LogRecord } from './log-record.ts';
import { CommitError, StoreFormatError } from './store-errors.ts';

export const logFileNames = ['log.0', 'log.1'] as const;

interface LogFile {
  readonly descriptor: number;
  /** Where its last record ends. */
  length: number;
}

const writeAt = promisify(write);

export class CommitLog {
  #writing: LogFile;
  #other: LogFile;
  readonly #reservedBytes: number;
  #isUncertain = false;

  private constructor(files: readonly [LogFile, LogFile], reservedBytes: number) {
    [this.#writing, this.#other] = files;
    this.#reservedBytes = reservedBytes;
  }

  /** `reservedBytes` is how long each file is made beforehand; it may become longer. */
  static open(directory: string, reservedBytes: number): CommitLog {
    const [first, second] = logFileNames;
    const one = openLogFile(join(directory, first));
    try {
      return new CommitLog([one, openLogFile(join(directory, second))], reservedBytes);
    } catch (thrown) {
      closeSync(one.descriptor);
      throw thrown;
    }
  }

  /** Of the file that is being written. */
  get length(): number {
    return this.#writing.length;
  }

  get isOtherEmpty(): boolean {
    return this.#other.length === 0;
  }

  /** A write has failed, and then so did taking it back: nobody knows what a restart would find. */
  get isUncertain(): boolean {
    return this.#isUncertain;
  }

  /** One record. Resolves when it is on disk. When it rejects, it is not in the log, unless that is uncertain now. */
  async append(bytes: Buffer): Promise<void> {
    const file = this.#writing;
    if (this.#isUncertain) throw new CommitError('an earlier write to the log could not be taken back');
    try {
      for (let done = 0; done < bytes.length;) {
        const { bytesWritten } = await writeAt(file.descriptor, bytes, done, bytes.length - done, file.length + done);
        done += bytesWritten;
      }
    } catch (thrown) {
      this.#takeBack(file);
      throw new CommitError(messageOf(thrown), { cause: thrown });
    }
    file.length += bytes.length;
  }

  switchOver(): void {
    [this.#writing, this.#other] = [this.#other, this.#writing];
  }

  emptyOther(): void {
    this.#empty(this.#other);
  }

  empty(): void {
    this.#empty(this.#writing);
    this.#empty(this.#other);
  }

  /** Gives the files their length. Where there is no room for that, they grow as they are written. */
  reserve(): void {
    for (const { descriptor } of [this.#writing, this.#other]) {
      const { size } = fstatSync(descriptor);
      if (size < this.#reservedBytes && !writeZeros(descriptor, size, this.#reservedBytes))
        ftruncateSync(descriptor, size);
    }
  }

  close(): void {
    closeSync(this.#writing.descriptor);
    closeSync(this.#other.descriptor);
  }

  /** What it holds stays until it is written over: its records are known by their numbers to be in the tables. */
  #empty(file: LogFile): void {
    if (file.length > this.#reservedBytes) ftruncateSync(file.descriptor, this.#reservedBytes);
    file.length = 0;
  }

  #takeBack({ descriptor, length }: LogFile): void {
    try {
      // The reserved room is kept: on a full disk there is no other. A record without a header is none.
      const isKept = length < this.#reservedBytes && writeZeros(descriptor, length, length + recordHeaderLength);
      ftruncateSync(descriptor, isKept ? this.#reservedBytes : length);
      fdatasyncSync(descriptor);
    } catch {
      this.#isUncertain = true;
    }
  }
}

/**
 * What was committed after `sequence`, oldest first. May be read while another process writes: it is then all that was
 * committed before the call, and what the tables have not got yet of what came during it.
 */
export class LogReading {
  readonly #directory: string;
  readonly #records: readonly LogRecord[];
  readonly #sequenceBehind: number;

  /** To be read before the tables are: what is moved there in between is in both. */
  constructor(directory: string) {
    this.#directory = directory;
    const files = logFileNames.map((name) => decodeRecords(readIfThere(join(directory, name))));
    this.#records = files.flatMap(({ records }) => records).toSorted((a, b) => a.sequence - b.sequence);
    this.#sequenceBehind = Math.max(...files.map(({ sequenceBehind }) => sequenceBehind));
  }

  /** Where no other process writes, there is no gap; where there is one, commits are lost, and that is said. */
  allAfter(sequence: number): readonly LogRecord[] {
    const records = this.untilGapAfter(sequence);
    const isComplete = records.length === this.#records.filter((record) => record.sequence > sequence).length;
    if (!isComplete || this.#sequenceBehind > sequence + records.length) {
      throw new StoreFormatError(
        this.#directory,
        `its log is damaged behind commit ${sequence + records.length} (remove "${logFileNames.join('" and "')}" to go on without the newest writes)`,
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

/** So that what is written there later finds room. False when there is none now. */
function writeZeros(descriptor: number, from: number, to: number): boolean {
  const zeros = Buffer.alloc(Math.min(to - from, 1024 * 1024));
  try {
    for (let at = from; at < to;) at += writeSync(descriptor, zeros, 0, Math.min(zeros.length, to - at), at);
    return true;
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOSPC' || errorCode(thrown) === 'EDQUOT') return false;
    throw thrown;
  }
}

function openLogFile(path: string): LogFile {
  // With O_DSYNC a write returns when the data is on disk: one call, one turn of a thread.
  const { O_RDWR, O_CREAT, O_DSYNC, O_NOFOLLOW } = constants;
  const descriptor = openSync(path, O_RDWR | O_CREAT | O_DSYNC | O_NOFOLLOW, 0o600);
  return { descriptor, length: fstatSync(descriptor).size };
}

function readIfThere(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return Buffer.alloc(0);
    throw thrown;
  }
}
