/**
 * What a container prints, on its way to its log file: lines in CRI's format, the file renamed when it has grown too long and the
 * oldest of its predecessors deleted. One write at a time; a container that prints faster than the disk takes it has to wait.
 * Output that cannot be written, because the disk is full, is dropped and counted: a container never hangs on its log.
 */
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Clock } from '../../../base/clock.ts';

export interface LogLimits {
  readonly sizeBytesMax: number;
  /** The one that is written to included. */
  readonly filesMax: number;
}

const entriesAtOnceMax = 1_000;

export class ContainerLog {
  readonly #path: string;
  readonly #limits: LogLimits;
  readonly #clock: Clock;
  readonly #unfinished = new Map<StreamName, Buffer>();
  #file: FileHandle | undefined;
  #sizeBytes = 0;
  #lostBytes = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(path: string, limits: LogLimits, clock: Clock) {
    this.#path = path;
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Makes the file, so that readers find one. */
  async open(): Promise<void> {
    await this.#inTurn(async () => void (await this.#opened()));
  }

  /** Resolves when the lines that are complete are in the file. `ended`: so is the rest. */
  async write(stream: StreamName, chunk: Buffer, ended = false): Promise<void> {
    const before = this.#unfinished.get(stream);
    const input = before === undefined || before.length === 0 ? chunk : Buffer.concat([before, chunk]);
    const split = splitLines(input, ended);
    this.#unfinished.set(stream, Buffer.from(input.subarray(split.used)));
    if (split.entries.length === 0) return;
    const nowMs = this.#clock.now();
    // Short lines are many times longer in the log: in parts, so that the file is renamed in time.
    for (let from = 0; from < split.entries.length; from += entriesAtOnceMax) {
      const part = { ...split, entries: split.entries.slice(from, from + entriesAtOnceMax) };
      const entries = logEntries(stream, part, nowMs);
      await this.#inTurn(() => this.#append(entries, nowMs));
    }
  }

  async close(): Promise<void> {
    await this.#inTurn(() => this.#closed());
  }

  async #append(entries: Buffer, nowMs: number): Promise<void> {
    try {
      const file = await this.#opened();
      if (this.#lostBytes > 0) {
        const text = `mountlet: ${this.#lostBytes} bytes of output were lost: the log could not be written`;
        const note = logEntries('stderr', { entries: [{ line: Buffer.from(text), tag: 'F' }], used: 0 }, nowMs);
        await this.#writeAll(file, note);
        this.#lostBytes = 0;
      }
      await this.#writeAll(file, entries);
      if (this.#sizeBytes >= this.#limits.sizeBytesMax) await this.#rotate(nowMs);
    } catch {
      this.#lostBytes += entries.length;
      await this.#closed().catch(() => {});
    }
  }

  async #writeAll(file: FileHandle, bytes: Buffer): Promise<void> {
    for (let done = 0; done < bytes.length;) {
      const { bytesWritten } = await file.write(bytes, done);
      done += bytesWritten;
      this.#sizeBytes += bytesWritten;
    }
  }

  async #opened(): Promise<FileHandle> {
    if (this.#file !== undefined) return this.#file;
    await mkdir(dirname(this.#path), { recursive: true, mode: 0o755 });
    const file = await open(this.#path, 'a', 0o640);
    this.#sizeBytes = (await file.stat()).size;
    this.#file = file;
    return file;
  }

  async #closed(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }

  /** `0.log` becomes `0.log.20261116-054000123`: sorted by name is sorted by age. */
  async #rotate(nowMs: number): Promise<void> {
    await this.#closed();
    const [day = '', time = ''] = new Date(nowMs)
      .toISOString()
      .replace(/[-:.Z]/g, '')
      .split('T');
    const directory = dirname(this.#path);
    const prefix = `${basename(this.#path)}.`;
    const rotated = async (): Promise<string[]> =>
      (await readdir(directory))
        .filter((name) => name.startsWith(prefix) && /^\d{8}-/.test(name.slice(prefix.length)))
        .sort();
    const older = await rotated();
    const wanted = `${prefix}${day}-${time}`;
    const last = older.at(-1);
    // Two within a millisecond: the later one still sorts after the earlier one.
    await rename(this.#path, join(directory, last === undefined || last < wanted ? wanted : `${last}-1`));
    const excess = (await rotated()).slice(0, -(this.#limits.filesMax - 1) || undefined);
    for (const name of excess) await rm(join(directory, name), { force: true });
    await this.#opened();
  }

  async #inTurn(act: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(act);
    this.#last = turn.catch(() => {});
    await turn;
  }
}

/**
 * Container output in the format of CRI logs, `2026-11-16T05:40:00.123000000Z stdout F line`: `F` ends a line, `P` is a part
 * of a longer one. Bytes are kept as they are. Pure.
 */
export type StreamName = 'stdout' | 'stderr';

/** As the engines: a longer line is written in parts. */
export const partBytesMax = 16 * 1024;

const newline = 0x0a;

interface SplitLines {
  /** Entries without their line ends, ready to be written. */
  readonly entries: readonly { readonly line: Buffer; readonly tag: 'F' | 'P' }[];
  /** How many bytes of the input they account for; what is left is the beginning of a line. */
  readonly used: number;
}

/** `ended`: nothing will follow, so that the rest is written too, as a line that does not end. */
export function splitLines(input: Buffer, ended: boolean): SplitLines {
  const entries: { line: Buffer; tag: 'F' | 'P' }[] = [];
  let used = 0;
  while (used < input.length) {
    const end = input.indexOf(newline, used);
    const lineEnd = end === -1 ? input.length : end;
    if (lineEnd - used > partBytesMax) {
      entries.push({ line: input.subarray(used, used + partBytesMax), tag: 'P' });
      used += partBytesMax;
    } else if (end !== -1) {
      entries.push({ line: input.subarray(used, end), tag: 'F' });
      used = end + 1;
    } else {
      if (!ended) break;
      // Readers add a newline where a line ends; this one does not.
      entries.push({ line: input.subarray(used), tag: 'P' });
      used = input.length;
    }
  }
  return { entries, used };
}

export function logEntries(stream: StreamName, { entries }: SplitLines, nowMs: number): Buffer {
  const time = new Date(nowMs).toISOString().replace('Z', '000000Z');
  return Buffer.concat(
    entries.flatMap(({ line, tag }) => [Buffer.from(`${time} ${stream} ${tag} `), line, Buffer.from('\n')]),
  );
}
