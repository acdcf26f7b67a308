/** The terminal of a command: colours, messages to standard error, tables, exit codes, and what ends the program. */
import { addAbortSignal } from 'node:stream';
import { createColors } from 'picocolors';
import { MountletError } from '../base/errors.ts';
import { exitNow } from '../linux/processes.ts';

/** The exit codes of all commands. */
export const exitCode = { done: 0, failed: 1, wrongUsage: 2, interrupted: 130 };

export function colorsFor(stream: { readonly isTTY?: boolean }): ReturnType<typeof createColors> {
  return createColors(wantsColor(process.env, stream.isTTY ?? false));
}

export function report(kind: 'note' | 'error', text: string): void {
  const colors = colorsFor(process.stderr);
  const word = kind === 'error' ? colors.red('error:') : colors.yellow('note:');
  for (const line of text.split('\n')) process.stderr.write(`${word} ${showText(line)}\n`);
}

/** Of what a command says while it runs: lines for people, or one JSON object each. */
export type LogFormat = 'text' | 'json';

/** Runs a command. A MountletError is printed; any other error is a bug and ends the program with its stack. */
export async function reportingErrors(act: () => Promise<number | void>, format: LogFormat = 'text'): Promise<number> {
  if (format === 'json') {
    process.removeAllListeners('uncaughtException').on('uncaughtException', (error) => endBecauseOf(error, format));
  }
  try {
    return (await act()) ?? exitCode.done;
  } catch (error) {
    if (!(error instanceof MountletError)) endBecauseOf(error, format);
    if (format === 'json') reportAsObject(error.reason, error.message);
    else report('error', error.message);
    return exitCode.failed;
  }
}

function reportAsObject(kind: string, message: string): void {
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), level: 'error', kind, message })}\n`);
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Colour is for terminals, unless the user says otherwise; NO_COLOR goes before FORCE_COLOR, and an empty one says nothing. */
export function wantsColor({ NO_COLOR, FORCE_COLOR, TERM }: Environment, isTerminal: boolean): boolean {
  if (isSet(NO_COLOR)) return false;
  if (isSet(FORCE_COLOR)) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return isTerminal && TERM !== 'dumb';
}

function isSet(value: string | undefined): value is string {
  return value !== undefined && value !== '';
}

/** One line is one line, in the order it is read: characters that steer a terminal are shown and not sent to it. */
export function showText(text: string): string {
  // oxlint-disable-next-line no-control-regex -- they are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (character) => {
    const short: Record<string, string> = { '\n': '\\n', '\t': '\\t', '\r': '\\r' };
    const code = character.charCodeAt(0);
    const digits = code.toString(16).padStart(2, '0');
    return short[character] ?? (code > 0xff ? `\\u${digits}` : `\\x${digits}`);
  });
}

/** Rows of text in columns, three spaces apart, as kubectl prints them. */
export function showTable(rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map(showText));
  const widths: number[] = [];
  for (const row of cells) {
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, cell.length);
  }
  return cells
    .map((row) =>
      row.map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0))).join('   '),
    )
    .map((line) => `${line.trimEnd()}\n`)
    .join('');
}

/** Standard input as bytes, until it ends or the signal aborts. Whether they are text is decided by who reads them. */
export function openStandardInput(signal: AbortSignal): AsyncIterable<Uint8Array> {
  return addAbortSignal(signal, process.stdin) as AsyncIterable<Uint8Array>;
}

/** For every command, before anything else. A server also calls `ignoreOutputErrors`. */
export function handleFailures(): void {
  // Of a rejected promise without an owner too: Node raises both here.
  process.on('uncaughtException', (error) => endBecauseOf(error));
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // The reader may have read enough (`| head`): not a failure.
    if (error.code === 'EPIPE') exitNow(exitCode.done);
    endBecauseOf(error);
  });
  // There is nowhere left to report this.
  process.stderr.on('error', () => {});
}

/** A bug. State in memory cannot be trusted any more; containers are processes of their own, and the next start adopts them. */
export function endBecauseOf(error: unknown, format: LogFormat = 'text'): never {
  const trace = error instanceof Error ? (error.stack ?? error.message) : String(error);
  if (format === 'json') reportAsObject('UnexpectedFailure', trace);
  else process.stderr.write(`error: unexpected failure\n${trace}\n`);
  exitNow(exitCode.failed);
}

/** Others depend on a server: it goes on when the terminal is gone or the disk behind its output is full. */
function ignoreOutputErrors(): void {
  process.stdout.removeAllListeners('error').on('error', () => {});
}

/** For servers. Resolves at the first SIGINT or SIGTERM. A second one ends the process at once. */
export function untilSignal(): Promise<NodeJS.Signals> {
  ignoreOutputErrors();
  return new Promise((resolve) => {
    const stop = (signal: NodeJS.Signals): void => {
      process.off('SIGINT', stop).off('SIGTERM', stop);
      resolve(signal);
    };
    process.on('SIGINT', stop).on('SIGTERM', stop);
  });
}
