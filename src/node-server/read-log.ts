/** Reads a container's log: from where the reader asks, as far as it asks, and on as long as the container writes. */
import { WakeSignal } from '../base/wake-signal.ts';
import { type FSWatcher, watch } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { errorCode } from '../base/errors.ts';
import type { PodLogOptions } from '../kube/kinds/pod/pod-requests.ts';
import { instantOf } from '../kube/values/times.ts';
import { LineSplitter, type LogRecord, fixedTime, isBefore, parseLogLine, tailStart } from './log-lines.ts';

export interface LogSource {
  readonly path: string;
  /** Whether more may come. */
  isRunning(): boolean | Promise<boolean>;
}

const chunkBytes = 64 * 1024;

/** Rejects with the system's error when there is no such file. What it gives is closed by reading it. */
export function openLog(path: string): Promise<FileHandle> {
  return open(path, 'r');
}

/** Gives output as it is to be sent. Ends by itself unless it follows a container that goes on. */
export async function* readLog(
  clock: Clock,
  opened: FileHandle,
  source: LogSource,
  options: PodLogOptions,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const output = new LogOutput(options, clock.now());
  const changes = options.follow ? new LogChanges(source.path, clock) : undefined;
  let file = opened;
  try {
    const { size } = await file.stat();
    // Without following, what is written from now on is nobody's: with it the last line would be two.
    const end = changes === undefined ? size : Infinity;
    let position = options.tailLines === undefined ? 0 : await tailStart(file, size, options.tailLines);
    let lines = new LineSplitter();
    let isOver = changes === undefined;
    while (!output.isFull) {
      for await (const chunk of chunksFrom(file, position, end)) {
        position += chunk.length;
        const bytes = output.of(lines.split(chunk));
        if (bytes.length > 0) yield bytes;
        if (output.isFull) return;
        signal.throwIfAborted();
      }
      const next = changes === undefined ? undefined : await successor(file, source.path, position);
      if (next !== undefined) {
        // Whatever was written between the last read and the renaming is still to be read from the old file.
        for await (const chunk of chunksFrom(file, position)) yield output.of(lines.split(chunk));
        yield output.of(restOf(lines));
        await file.close();
        file = next;
        position = 0;
        lines = new LineSplitter();
        continue;
      }
      if (isOver || changes === undefined) break;
      await changes.next(signal);
      // Asked before the last read, so that nothing written before its end is missed.
      isOver = !(await source.isRunning());
    }
    yield output.of(restOf(lines));
  } finally {
    changes?.close();
    await file.close();
  }
}

async function* chunksFrom(file: FileHandle, start: number, end = Infinity): AsyncGenerator<Buffer> {
  const chunk = Buffer.allocUnsafe(chunkBytes);
  for (let position = start; position < end;) {
    const { bytesRead } = await file.read(chunk, 0, Math.min(chunkBytes, end - position), position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}

/** The file that took this one's place: another of the same name, or the same one emptied. */
async function successor(file: FileHandle, path: string, position: number): Promise<FileHandle | undefined> {
  try {
    const [now, then] = await Promise.all([stat(path), file.stat()]);
    const isSame = now.ino === then.ino && now.dev === then.dev;
    return isSame && now.size >= position ? undefined : await open(path, 'r');
  } catch (error) {
    // Between the renaming and the new file there is none.
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function* restOf(lines: LineSplitter): Generator<Buffer> {
  const rest = lines.rest();
  if (rest !== undefined) yield rest;
}

/** Records as the reader wants them. */
class LogOutput {
  readonly #options: PodLogOptions;
  readonly #since: bigint | undefined;
  #leftBytes: number;
  /** Streams whose line goes on with their next record. */
  readonly #unfinished = new Set<string>();

  constructor(options: PodLogOptions, now: number) {
    this.#options = options;
    this.#since = sinceOf(options, now);
    this.#leftBytes = options.limitBytes ?? Infinity;
  }

  get isFull(): boolean {
    return this.#leftBytes <= 0;
  }

  of(lines: Iterable<Buffer>): Buffer {
    const parts: Buffer[] = [];
    for (const line of lines) {
      const record = parseLogLine(line);
      if (record !== undefined && this.#isWanted(record)) this.#add(record, parts);
    }
    return Buffer.concat(parts);
  }

  #isWanted(record: LogRecord): boolean {
    const { stream } = this.#options;
    if (stream !== 'All' && stream.toLowerCase() !== record.stream) return false;
    return this.#since === undefined || !isBefore(record, this.#since);
  }

  #add({ time, stream, isPartial, text }: LogRecord, parts: Buffer[]): void {
    const isNew = !this.#unfinished.has(stream);
    if (isPartial) this.#unfinished.add(stream);
    else this.#unfinished.delete(stream);
    const prefix = this.#options.timestamps && isNew ? [Buffer.from(`${fixedTime(time)} `)] : [];
    for (const part of [...prefix, text, ...(isPartial ? [] : [lineEnd])]) {
      const piece = part.subarray(0, Math.max(0, Math.min(part.length, this.#leftBytes)));
      this.#leftBytes -= piece.length;
      if (piece.length > 0) parts.push(piece);
    }
  }
}

const lineEnd = Buffer.from('\n');

function sinceOf({ sinceSeconds, sinceTime }: PodLogOptions, now: number): bigint | undefined {
  if (sinceTime !== undefined) return instantOf(sinceTime);
  return sinceSeconds === undefined ? undefined : BigInt(now - sinceSeconds * 1000) * 1_000_000n;
}

/** Wakes the reader of a followed log when its file may have changed. */
// Also without a sign: some file systems give none, and a container may end without a last word.
const checkEveryMs = 1000;

class LogChanges {
  readonly #clock: Clock;
  readonly #watcher: FSWatcher | undefined;
  readonly #changed = new WakeSignal();

  /** The directory is watched, not the file: that is how a new file of the same name is seen. */
  constructor(path: string, clock: Clock) {
    this.#clock = clock;
    this.#watcher = watchOrUndefined(dirname(path), () => this.#changed.wake());
    this.#changed.wake(); // the first call reads what is there
  }

  /** Resolves at once when something changed since the last call. */
  async next(signal: AbortSignal): Promise<void> {
    await this.#changed.sleep(checkEveryMs, this.#clock, signal);
    signal.throwIfAborted();
  }

  close(): void {
    this.#watcher?.close();
  }
}

/** A machine may have no watches left; then the clock alone wakes. */
function watchOrUndefined(directory: string, changed: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(directory, changed);
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    return undefined;
  }
}
