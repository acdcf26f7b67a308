/**
 * Commands beside a container's own.
 *
 * A running container may be hostile, and may lie in wait for processes that enter it: whatever runs in its pid namespace
 * with its user and still has the host's root would hand it the host. Therefore the chain stays outside of the pid
 * namespace until the very last fork, and its root is the clean room (a container of ours without volumes, whose root is
 * the read-only view that every container has anyway) and never the host's. All programs that run with privileges are
 * loaded from there, not from the container's root, which the container may have filled itself.
 *
 *   sh (host) ─▶ nsenter: namespaces, root = clean room, directory = container's root
 *             ─▶ setpriv: privileges given up ─▶ unshare: fork into the pid namespace, root = directory, user ─▶ sh ─▶ command
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { ReadStream } from 'node:tty';
import { CommandStartError, type ExecRequest, type ExecResult, type ProcessStreams } from '../runtime.ts';
import type { ExecWords } from './identity.ts';
import { killEvery } from './kill.ts';
import { execScript, stageScript } from './launch-scripts.ts';
import { list } from './launch-text.ts';
import { processesOfSession } from './process-table.ts';
import { openPseudoTerminal, setTerminalSize } from './pseudo-terminal.ts';

export interface ExecPlace {
  /** Words for nsenter, ours alone: numbers and paths below /proc. */
  readonly enter: string;
  readonly words: ExecWords;
  readonly groups: readonly string[];
  /** The container's own directory and variables, as its launcher keeps them. */
  readonly command: string;
}

export async function execCommand(place: ExecPlace, request: ExecRequest, signal: AbortSignal): Promise<ExecResult> {
  signal.throwIfAborted();
  if (request.command.length === 0) throw new CommandStartError('Cannot run a command: none is given');
  const command = openSync(place.command, 'r');
  const terminal = request.tty ? openPseudoTerminal() : undefined;
  const [program, ...words] = [
    ...(terminal ? ['setsid', '--ctty'] : []),
    'sh',
    '-c',
    'eval "$M_EXEC"',
    'mountlet-exec',
  ];
  let child: ChildProcess;
  try {
    const own = terminal?.slave;
    child = spawn(program ?? 'sh', words, {
      stdio: [own ?? 'pipe', own ?? 'pipe', own ?? 'pipe', command, 'pipe', 'pipe'],
      detached: terminal === undefined, // either way a session of its own, which is ended as a whole
      env: {
        ...launcherEnvironment,
        M_EXEC: execScript,
        M_ENTER: place.enter,
        M_KEEP: place.words.keep,
        M_PRIVILEGES: place.words.privileges,
        M_USER: place.words.user,
        M_DROP: place.words.drop,
        M_GROUPS: place.groups.join(' '),
        M_STAGE: stageScript,
      },
    });
  } finally {
    closeSync(command);
    if (terminal) closeSync(terminal.slave);
  }
  const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  const end = (): void => endSession(child);
  signal.addEventListener('abort', end, { once: true });
  const leave = (): void => {
    if (child.exitCode === null && child.signalCode === null) end();
  };
  try {
    const started = firstLine((child.stdio as readonly unknown[])[5] as Readable);
    swallow(child.stdio[4] as Writable).end(list(request.command));
    const flows = terminal
      ? terminalFlows(terminal.master, request, signal, leave)
      : outputFlows(child, request, leave);
    if (!terminal) void feed(request.stdin, swallow(child.stdin as Writable));
    const outcome = await started;
    if (outcome !== 'started') {
      await closed;
      throw new CommandStartError(outcome.replace(/^failed /, '') || 'Cannot run the command: the container has ended');
    }
    const [code, killed] = await closed;
    await Promise.all(flows);
    signal.throwIfAborted();
    return { exitCode: code ?? 128 + (killed === null ? 0 : constants.signals[killed]) };
  } finally {
    signal.removeEventListener('abort', end);
    leave();
  }
}

/** What our own programs run with: nothing of this program's environment, and nothing of a container's. */
export const launcherEnvironment: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C',
  SHELL: '/bin/sh',
};

/** Everything the command started and did not move to a session of its own; such a daemon no longer has our ear either. */
function endSession({ pid, stdout, stderr }: ChildProcess): void {
  if (pid !== undefined) killEvery(() => processesOfSession(pid));
  stdout?.destroy();
  stderr?.destroy();
}

function outputFlows(child: ChildProcess, { stdout, stderr }: ProcessStreams, leave: () => void): Promise<void>[] {
  return [copy(child.stdout as Readable, stdout, leave), copy(child.stderr as Readable, stderr, leave)];
}

function terminalFlows(
  master: number,
  { stdin, stdout, resizes }: ProcessStreams,
  signal: AbortSignal,
  leave: () => void,
): Promise<void>[] {
  const terminal = new ReadStream(master);
  terminal.on('error', () => {}); // EIO: the last one who had it as a terminal is gone
  void feed(stdin, terminal, '\x04'); // end of input on a terminal is a key
  void followResizes(master, resizes, signal);
  return [copy(terminal, stdout, leave).finally(() => terminal.destroy())];
}

export async function followResizes(
  terminal: number,
  resizes: ProcessStreams['resizes'],
  signal: AbortSignal,
): Promise<void> {
  try {
    for await (const size of resizes ?? []) {
      if (signal.aborted) return;
      setTerminalSize(terminal, size);
    }
  } catch {
    // the client left: what runs keeps the size it has
  }
}

/** Until the source ends. A reader that is gone ends the command, as a closed terminal would. */
async function copy(source: Readable, target: Writable | undefined, leave: () => void): Promise<void> {
  target?.once('error', leave);
  target?.once('close', leave);
  try {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      if (target === undefined || target.destroyed || target.writableEnded) continue;
      if (!target.write(chunk)) await Promise.race([once(target, 'drain'), once(target, 'close')]);
    }
  } catch {
    // the source broke off: it has ended
  } finally {
    target?.off('error', leave);
    target?.off('close', leave);
  }
}

/** Hands on what the client types; its end is the end of the command's input, not of the command. */
export async function feed(source: Readable | undefined, target: Writable, atEnd?: string): Promise<void> {
  if (source === undefined) {
    if (atEnd === undefined) target.end();
    return;
  }
  try {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      if (target.destroyed) return;
      if (!target.write(chunk)) await Promise.race([once(target, 'drain'), once(target, 'close')]);
    }
  } catch {
    // the client left, or the command closed its input
  }
  if (target.destroyed) return;
  if (atEnd === undefined) target.end();
  else target.write(atEnd);
}

/** A pipe whose reader is gone is no failure of ours. */
function swallow(stream: Writable): Writable {
  return stream.on('error', () => {});
}

async function firstLine(source: Readable): Promise<string> {
  let text = '';
  try {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      text += chunk.toString();
      if (text.includes('\n')) break;
    }
  } catch {
    // as if it had said nothing
  }
  return text.split('\n')[0] ?? '';
}
