/** One record of a container's log, as container runtimes write it: `2026-08-20T18:59:46.304985622Z stdout F text`. */
import { instantOf } from '../../kube/values/times.ts';

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

/** Undefined for what is no record. `line` comes without its newline. */
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
