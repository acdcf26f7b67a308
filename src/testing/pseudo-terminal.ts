/** A terminal for a process of a test, with a size that can be changed. */
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { closeSync, write } from 'node:fs';
import { createRequire } from 'node:module';
import { ReadStream } from 'node:tty';
import { Writable } from 'node:stream';
import type * as Koffi from 'koffi'; // the type alone: the module is loaded on demand

export interface TerminalProcess {
  readonly child: ChildProcess;
  readonly output: ReadStream;
  readonly input: Writable;
  readonly resize: (columns: number, rows: number) => void;
}

const setWindowSize = 0x5414; // TIOCSWINSZ

/** The process leads a session of its own whose terminal this is. */
export function spawnInTerminal(command: readonly string[], columns: number, rows: number): TerminalProcess {
  const koffi = createRequire(import.meta.url)('koffi') as typeof Koffi;
  const library = koffi.load('libc.so.6');
  const openpty = library.func(
    'int openpty(_Out_ int *master, _Out_ int *slave, void *name, void *termios, void *size)',
  );
  const ioctl = library.func('int ioctl(int descriptor, unsigned long request, void *argument)');
  const [master, slave] = [[0], [0]] as const;
  if ((openpty(master, slave, null, null, null) as number) !== 0) throw new Error('openpty failed');
  const descriptor = master[0] ?? -1;
  const resize = (width: number, height: number): void => {
    const size = Buffer.alloc(8);
    size.writeUInt16LE(height, 0);
    size.writeUInt16LE(width, 2);
    ioctl(descriptor, setWindowSize, size);
  };
  resize(columns, rows);
  const terminal = slave[0] ?? -1;
  const child = spawn('setsid', ['--ctty', '--wait', ...command], { stdio: [terminal, terminal, terminal] });
  closeSync(terminal);
  const output = new ReadStream(descriptor);
  const input = new Writable({
    write: (bytes: Buffer, _encoding, done) => write(descriptor, bytes, (error) => done(error)),
  });
  input.on('error', () => {});
  return { child, output, input, resize };
}
