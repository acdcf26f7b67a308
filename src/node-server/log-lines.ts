/** Log files as the runtime writes them, one record to a line: cutting bytes into lines, parsing them, finding the last ones. */
import type { FileHandle } from 'node:fs/promises';
import { instantOf } from '../kube/values/times.ts';

/** Cuts bytes into lines as they come. A line longer than any runtime writes is dropped as a whole and costs no more memory. */
const newline = 0x0a;
const lineBytesMax = 1024 * 1024;

export class LineSplitter {
  #pieces: Buffer[] = [];
  #bytes = 0;

  *split(chunk: Buffer): Generator<Buffer> {
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      const line = this.#finish(chunk.subarray(start, end));
      start = end + 1;
      if (line !== undefined) yield line;
    }
    this.#hold(chunk.subarray(start));
  }

  /** What came after the last newline, if anything did. */
  rest(): Buffer | undefined {
    return this.#bytes === 0 ? undefined : this.#finish(Buffer.alloc(0));
  }

  #hold(piece: Buffer): void {
    if (piece.length === 0) return;
    this.#bytes += piece.length;
    if (this.#bytes > lineBytesMax) this.#pieces = [];
    // Copied: the chunk's memory is used again for the next read.
    else this.#pieces.push(Buffer.from(piece));
  }

  #finish(end: Buffer): Buffer | undefined {
    const isTooLong = this.#bytes + end.length > lineBytesMax;
    const line = this.#pieces.length === 0 ? end : Buffer.concat([...this.#pieces, end]);
    this.#pieces = [];
    this.#bytes = 0;
    return isTooLong ? undefined : line;
  }
}

/** One record of a container's log, as container runtimes write it: `2026-08-20T18:59:46.304985622Z stdout F text`. */
export interface LogRecord {
  /** As it stands in the file. */
  readonly time: string;
  readonly stream: 'stdout' | 'stderr';
  /** The next record of this stream goes on with the same line. */
  readonly isPartial: boolean;
  /** Without the end of the line. */
  readonly text: Buffer;
}

const space = 0x20;

/** Undefined for a line that is not a record. `line` comes without its newline. */
export function parseLogLine(line: Buffer): LogRecord | undefined {
  const first = line.indexOf(space);
  const second = line.indexOf(space, first + 1);
  const third = line.indexOf(space, second + 1);
  if (first < 0 || second <= first || third <= second) return undefined;
  const stream = line.toString('latin1', first + 1, second);
  if (stream !== 'stdout' && stream !== 'stderr') return undefined;
  const time = line.toString('latin1', 0, first);
  if (!timePattern.test(time)) return undefined;
  const [tag] = line.toString('latin1', second + 1, third).split(':');
  return { time, stream, isPartial: tag === 'P', text: line.subarray(third + 1) };
}

const timePattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

/** With nine digits, always: lines of one log are as wide as each other. */
export function fixedTime(time: string): string {
  const match = /^(.{19})(?:\.(\d+))?(.*)$/.exec(time);
  if (match === null) return time;
  const [, date = '', fraction = '', zone = ''] = match;
  return `${date}.${fraction.slice(0, 9).padEnd(9, '0')}${zone}`;
}

export function isBefore(record: LogRecord, since: bigint): boolean {
  const instant = instantOf(record.time);
  return instant !== undefined && instant < since;
}

/** Where the last lines of a log begin, found from its end: a log of many gigabytes costs no more than its last lines. */
const blockBytes = 64 * 1024;
// Time, stream and tag of a record; its text does not matter here.
const headBytes = 128;

/**
 * The offset at which the last `lines` lines begin. Runtimes cut long lines into several records, all but the last marked as
 * partial; such records are one line here, so that no line is shown from its middle.
 */
export async function tailStart(file: FileHandle, sizeBytes: number, lines: number): Promise<number> {
  if (lines === 0) return sizeBytes;
  let left = lines;
  let isLast = true;
  for await (const { start, head } of recordsFromEnd(file, sizeBytes)) {
    const isPartial = parseLogLine(head)?.isPartial === true;
    // A record that completes a line, and whatever stands at the very end, is a line of its own.
    if (!isPartial || isLast) {
      if (left === 0) return await nextStart(file, start, sizeBytes);
      left -= 1;
    }
    isLast = false;
  }
  return 0;
}

/** Where records begin and with what, the last record first. */
async function* recordsFromEnd(file: FileHandle, sizeBytes: number): AsyncGenerator<{ start: number; head: Buffer }> {
  const block = Buffer.allocUnsafe(blockBytes);
  // The newline at the very end begins no record.
  let end = sizeBytes - 1;
  while (end > 0) {
    const from = Math.max(0, end - blockBytes);
    const { bytesRead } = await file.read(block, 0, end - from, from);
    const read = block.subarray(0, bytesRead);
    for (let at = read.lastIndexOf(newline); at >= 0; at = at === 0 ? -1 : read.lastIndexOf(newline, at - 1)) {
      const start = from + at + 1;
      const head = read.subarray(at + 1, at + 1 + headBytes);
      yield { start, head: head.length === headBytes ? head : await headAt(file, start) };
    }
    end = from;
  }
  if (sizeBytes > 0) yield { start: 0, head: await headAt(file, 0) };
}

async function headAt(file: FileHandle, offset: number): Promise<Buffer> {
  const head = Buffer.alloc(headBytes);
  const { bytesRead } = await file.read(head, 0, headBytes, offset);
  const end = head.subarray(0, bytesRead).indexOf(newline);
  return head.subarray(0, end < 0 ? bytesRead : end);
}

async function nextStart(file: FileHandle, start: number, sizeBytes: number): Promise<number> {
  const block = Buffer.allocUnsafe(blockBytes);
  for (let offset = start; offset < sizeBytes;) {
    const { bytesRead } = await file.read(block, 0, blockBytes, offset);
    if (bytesRead === 0) break;
    const at = block.subarray(0, bytesRead).indexOf(newline);
    if (at >= 0) return offset + at + 1;
    offset += bytesRead;
  }
  return sizeBytes;
}
