/** Lines about a running node: short ones for people, or one JSON object each. What happens goes to standard error. */
import { type LogLevel, type LogLine, type NotifyNode, logLine } from '../agent/node/notices.ts';
import { type LogFormat, colorsFor, report, showText } from './terminal.ts';

export const logLevels = ['debug', 'info', 'warning', 'error'] as const satisfies readonly LogLevel[];

/** Lines below the level are left out. */
export function logPrinter(format: LogFormat, least: LogLevel): (line: LogLine) => void {
  const colors = colorsFor(process.stderr);
  const marks = {
    debug: `${colors.dim('debug:')} `,
    info: '',
    warning: `${colors.yellow('warning:')} `,
    error: `${colors.red('error:')} `,
  };
  return (line) => {
    const { level, message } = line;
    if (logLevels.indexOf(level) < logLevels.indexOf(least)) return;
    const time = new Date();
    const text =
      format === 'json'
        ? JSON.stringify({ time: time.toISOString(), ...line })
        : `${colors.dim(clockText(time))} ${marks[level]}${showText(message)}`;
    process.stderr.write(`${text}\n`);
  };
}

/** Prints to standard output what has become of the command itself: a sentence, or with `json` an object. */
export function statePrinter(format: LogFormat): (kind: string, message: string) => void {
  return (kind, message) => {
    const line = { time: new Date().toISOString(), level: 'info', kind, message };
    process.stdout.write(`${format === 'json' ? JSON.stringify(line) : message}\n`);
  };
}

/** Prints notes to the user so that with `json` every line is an object. */
export function notePrinter(format: LogFormat, print: (line: LogLine) => void): (text: string) => void {
  return (text) => (format === 'json' ? print({ level: 'info', kind: 'Note', message: text }) : report('note', text));
}

/** Prints the notices that have a log line. */
export function noticePrinter(print: (line: LogLine) => void): NotifyNode {
  return (notice) => {
    const line = logLine(notice);
    if (line !== undefined) print(line);
  };
}

function clockText(time: Date): string {
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}
