/**
 * The simplest thing that can pass for a container runtime: containers are plain processes of this machine, with no walls
 * around them. For tests of whatever talks to a runtime.
 */
import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, closeSync, mkdirSync, write } from 'node:fs';
import { connect } from 'node:net';
import { constants } from 'node:os';
import { dirname } from 'node:path';
import { type Duplex, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ReadStream } from 'node:tty';
import { loadKoffi } from '../../linux/system-calls.ts';
import { untilAborted } from '../../base/abort.ts';
import {
  commandStartError,
  ContainerNotRunningError,
  type ExecRequest,
  type ExecResult,
  NoSuchContainerError,
  type ProcessStreams,
  type Runtime,
} from '../../runtimes/runtime.ts';

interface HostContainer {
  readonly child: ChildProcessWithoutNullStreams;
  readonly ended: Promise<unknown>;
  readonly listeners: Set<{ readonly stdout: Writable | undefined; readonly stderr: Writable | undefined }>;
}

export class HostProcesses implements Pick<Runtime, 'exec' | 'attach' | 'connect'> {
  readonly #containers = new Map<string, HostContainer>();

  start(id: string, command: readonly string[], logPath: string): void {
    mkdirSync(dirname(logPath), { recursive: true });
    appendFileSync(logPath, '');
    const [file = '', ...args] = command;
    const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    child.stdin.on('error', () => {});
    const listeners: HostContainer['listeners'] = new Set();
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].on('data', (bytes: Buffer) => {
        appendFileSync(logPath, logRecords(name, bytes));
        for (const listener of listeners) listener[name]?.write(bytes);
      });
    }
    this.#containers.set(id, { child, ended: once(child, 'close'), listeners });
  }

  isRunning(id: string): boolean {
    const child = this.#containers.get(id)?.child;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  async stop(id: string): Promise<void> {
    const container = this.#container(id);
    if (this.isRunning(id)) container.child.kill('SIGKILL');
    await container.ended;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#containers.keys()].map((id) => this.stop(id)));
  }

  async exec(id: string, request: ExecRequest, signal: AbortSignal): Promise<ExecResult> {
    this.#container(id);
    if (!this.isRunning(id)) throw new ContainerNotRunningError(id);
    return request.tty ? this.#execInTerminal(request, signal) : this.#execWithPipes(request, signal);
  }

  async attach(id: string, { stdin, stdout, stderr }: ProcessStreams, signal: AbortSignal): Promise<void> {
    const { child, ended, listeners } = this.#container(id);
    if (!this.isRunning(id)) throw new ContainerNotRunningError(id);
    const listener = { stdout, stderr };
    listeners.add(listener);
    stdin?.on('data', (bytes: Buffer) => child.stdin.write(bytes));
    stdin?.on('end', () => child.stdin.end());
    await Promise.race([ended, untilAborted(signal)]);
    listeners.delete(listener);
  }

  async connect(_podUid: string, port: number, signal: AbortSignal): Promise<Duplex> {
    const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true });
    await once(socket, 'connect', { signal });
    return socket;
  }

  async #execWithPipes({ command, stdin, stdout, stderr }: ExecRequest, signal: AbortSignal): Promise<ExecResult> {
    const [file = '', ...args] = command;
    const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'pipe'], signal, killSignal: 'SIGKILL' });
    const exit = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
    if (stdin === undefined) child.stdin.end();
    else pipeline(stdin, child.stdin).catch(() => {});
    const copies = [copy(child.stdout, stdout), copy(child.stderr, stderr)];
    try {
      const [code, killedBy] = await exit;
      await Promise.all(copies);
      return { exitCode: code ?? 128 + (killedBy === null ? 0 : constants.signals[killedBy]) };
    } catch (error) {
      throw commandStartError(`Cannot start ${JSON.stringify(file)}`, { cause: error });
    }
  }

  async #execInTerminal({ command, stdin, stdout, resizes }: ExecRequest, signal: AbortSignal): Promise<ExecResult> {
    const { child, output, input, resize } = spawnInTerminal(command, 80, 24);
    const exit = once(child, 'close') as Promise<[number | null]>;
    const kill = (): void => void child.kill('SIGKILL');
    signal.addEventListener('abort', kill, { once: true });
    const sizes = (async () => {
      for await (const { columns, rows } of resizes ?? []) resize(columns, rows);
    })();
    sizes.catch(() => {});
    stdin?.pipe(input);
    // Reading a terminal whose last process has gone is an error, and the usual end.
    const copied = copy(output, stdout);
    const [code] = await exit;
    await copied;
    output.destroy();
    return { exitCode: code ?? 137 };
  }

  #container(id: string): HostContainer {
    const container = this.#containers.get(id);
    if (container === undefined) throw new NoSuchContainerError(id);
    return container;
  }
}

async function copy(from: NodeJS.ReadableStream, to: Writable | undefined): Promise<void> {
  try {
    if (to === undefined) for await (const _ of from) continue;
    else await pipeline(from, to, { end: false });
  } catch {
    // The reader is gone; the process goes on.
  }
}

/** As runtimes write them; the last piece of a line that is not over yet is marked as partial. */
function logRecords(stream: 'stdout' | 'stderr', bytes: Buffer): string {
  const time = `${new Date().toISOString().slice(0, -1)}000000Z`;
  const lines = bytes.toString('utf8').split('\n');
  const rest = lines.pop() ?? '';
  const records = lines.map((line) => `${time} ${stream} F ${line}\n`);
  return records.join('') + (rest === '' ? '' : `${time} ${stream} P ${rest}\n`);
}

/** A terminal for a process of a test, with a size that can be changed. */
export interface TerminalProcess {
  readonly child: ChildProcess;
  readonly output: ReadStream;
  readonly input: Writable;
  readonly resize: (columns: number, rows: number) => void;
}

const setWindowSize = 0x5414; // TIOCSWINSZ

/** The process leads a session of its own whose terminal this is. */
export function spawnInTerminal(command: readonly string[], columns: number, rows: number): TerminalProcess {
  const library = loadKoffi().load('libc.so.6');
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
