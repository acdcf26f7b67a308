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

/** `ended`: nothing will follow, so that the rest is a line too. */
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
      entries.push({ line: input.subarray(used), tag: 'F' });
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
