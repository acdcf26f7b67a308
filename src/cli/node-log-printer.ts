/** Lines about a running node: short ones for people, or one JSON object each. To standard error: standard output is data. */
import type { LogLine } from '../agent/node/node-log.ts';
import { logLine } from '../agent/node/node-log.ts';
import type { NotifyNode } from '../agent/node/node-notices.ts';
import { colorsFor } from './talk.ts';
import { showText } from './show-text.ts';

export type LogFormat = 'text' | 'json';

export function logPrinter(format: LogFormat): (line: LogLine) => void {
  const colors = colorsFor(process.stderr);
  const marks = { info: '', warning: `${colors.yellow('warning:')} `, error: `${colors.red('error:')} ` };
  return ({ level, message }) => {
    const time = new Date();
    const text =
      format === 'json'
        ? JSON.stringify({ time: time.toISOString(), level, message })
        : `${colors.dim(clockText(time))} ${marks[level]}${showText(message)}`;
    process.stderr.write(`${text}\n`);
  };
}

/** What a node tells, as far as it is worth a line. */
export function noticePrinter(print: (line: LogLine) => void): NotifyNode {
  return (notice) => {
    const line = logLine(notice);
    if (line !== undefined) print(line);
  };
}

function clockText(time: Date): string {
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}
