/**
 * The simplest thing that can pass for a container runtime: containers are plain processes of this machine, with no walls
 * around them. For tests of whatever talks to a runtime.
 */
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdirSync } from 'node:fs';
import { connect } from 'node:net';
import { constants } from 'node:os';
import { dirname } from 'node:path';
import type { Duplex, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { untilAborted } from '../base/until-aborted.ts';
import { CommandStartError, ContainerNotRunningError, NoSuchContainerError } from '../runtimes/runtime.ts';
import type { ExecRequest, ExecResult, ProcessStreams, Runtime } from '../runtimes/runtime.ts';
import { spawnInTerminal } from './pseudo-terminal.ts';

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
      throw new CommandStartError(`Cannot start ${JSON.stringify(file)}`, { cause: error });
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
    // Whoever listened has left; the process goes on.
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
