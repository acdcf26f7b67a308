/** Where the last lines of a log begin, found from its end: a log of many gigabytes costs no more than its last lines. */
import type { FileHandle } from 'node:fs/promises';
import { parseLogLine } from './log-line.ts';

const blockBytes = 64 * 1024;
// Time, stream and tag of a record; its text does not matter here.
const headBytes = 128;
const newline = 0x0a;

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
