/**
 * Starts programs of system calls and follows them until their command runs, and then until it ends. The streams of a command are
 * pipes, or a terminal that the program hands over. For the spawner alone: it takes the end of every child of its process.
 */
import { constants, openSync, readSync } from 'node:fs';
import { Socket } from 'node:net';
import { constants as system } from 'node:os';
import type { Duplex } from 'node:stream';
import { ReadStream } from 'node:tty';
import type { Clock } from '../../../base/clock.ts';
import { messageOf } from '../../../base/errors.ts';
import type { Processes } from '../../../linux/processes.ts';
import { failureBytes, resultBytes } from '../../../linux/system-program.ts';
import type { StreamName } from './container-log.ts';
import type { StartAnswer } from './spawner-protocol.ts';

/** A launch takes milliseconds; one that hangs on a dead file system is given up. */
const launchMsMax = 30_000;
/** Of the output of one stream, before its writer has to wait. */
const waitingBytesMax = 128 * 1024;
const terminalBytesMax = 4 * 1024;
const { SIGKILL } = system.signals;

/** The ends of the streams of one program that are ours. */
export interface Streams {
  readonly stdin?: Duplex;
  readonly outputs: readonly { readonly stream: StreamName; readonly source: Duplex }[];
  readonly terminal?: number;
}

interface Launch {
  readonly image: Buffer;
  readonly tty: boolean;
  readonly hasStdin: boolean;
  /** Further descriptors for the program; they stay open here. */
  readonly joined: readonly number[];
}

interface Launched {
  readonly answer: StartAnswer;
  readonly streams: Streams;
  readonly ended: Promise<number>;
}

export class Launcher {
  readonly #processes: Processes;
  readonly #clock: Clock;
  readonly #exits = new Map<number, number>();
  readonly #awaited = new Map<number, (exitCode: number) => void>();
  /** While a launch is under way, ends of unknown processes are kept: one may be killed before its birth was reported. */
  #launching = 0;

  constructor(processes: Processes, clock: Clock) {
    this.#processes = processes;
    this.#clock = clock;
  }

  /** Whether it was launched here and has not ended yet. */
  isAwaited(pid: number): boolean {
    return this.#awaited.has(pid);
  }

  /** Takes the ends of children; to be called after each SIGCHLD. */
  reap(): void {
    for (const { pid, exitCode } of this.#processes.reap()) {
      const awaited = this.#awaited.get(pid);
      this.#awaited.delete(pid);
      if (awaited !== undefined) awaited(exitCode);
      else if (this.#launching > 0) this.#exits.set(pid, exitCode);
    }
  }

  /** Runs a program until it is executed: then it has nothing more to report, and its streams are the container's. */
  async launch({ image, tty, hasStdin, joined }: Launch, born: (pid: number) => void): Promise<Launched> {
    const processes = this.#processes;
    const startedAtMs = this.#clock.now();
    const deadlineMs = startedAtMs + launchMsMax;
    const [ours, theirs] = processes.socketPair();
    const nothing = openSync('/dev/null', constants.O_RDWR);
    const given = [nothing, nothing, nothing, theirs];
    let streams: Streams = { outputs: [] };
    if (!tty) {
      const outputs = (['stdout', 'stderr'] as const).map((stream, index) => {
        const [read, write] = processes.pipe();
        given[index + 1] = write;
        return { stream, source: new Socket({ fd: read, readable: true, writable: false }) };
      });
      streams = { outputs };
      if (hasStdin) {
        const [read, write] = processes.pipe();
        given[0] = read;
        streams = { outputs, stdin: silent(new Socket({ fd: write, readable: false, writable: true })) };
      }
    }
    this.#launching += 1;
    try {
      processes.setReceiveTimeout(ours, launchMsMax);
      let pid: number;
      try {
        pid = processes.start(image, [...given, ...joined]);
      } finally {
        for (const descriptor of new Set([...given, nothing])) processes.close(descriptor);
      }
      let ended = this.#end(pid);
      let report = '';
      let isBorn = false;
      for (;;) {
        const message = await processes.receive(ours);
        if (message === undefined && this.#clock.now() < deadlineMs) continue; // a signal ended the wait
        if (message === undefined) {
          processes.kill(pid, SIGKILL);
          throw new Error(`nothing happened for ${launchMsMax / 1000} s: a file system may not answer`);
        }
        const { bytes, descriptor } = message;
        if (bytes.length === 0) break;
        if (descriptor !== undefined) {
          if (tty && streams.terminal === undefined) streams = terminalStreams(descriptor);
          else processes.close(descriptor);
        } else if (bytes.length >= failureBytes) {
          report = bytes.toString('hex');
        } else if (bytes.length === resultBytes && !isBorn) {
          // From now on its child is the one that counts.
          isBorn = true;
          pid = Number(bytes.readBigUInt64LE(0));
          ended = this.#end(pid);
          born(pid);
          processes.send(ours, 'g');
        }
      }
      if (!isBorn && report === '') born(pid); // a holder without processes of its own
      if (report === '') return { answer: { outcome: 'started', pid, startedAtMs }, streams, ended };
      processes.kill(pid, SIGKILL);
      return { answer: { outcome: 'failed', report, exitCode: await ended }, streams, ended };
    } catch (thrown) {
      return {
        answer: { outcome: 'failed', report: '', problem: messageOf(thrown), exitCode: 128 },
        streams,
        ended: Promise.resolve(128),
      };
    } finally {
      processes.close(ours);
      this.#launching -= 1;
      if (this.#launching === 0) this.#exits.clear();
    }
  }

  async #end(pid: number): Promise<number> {
    const early = this.#exits.get(pid);
    this.#exits.delete(pid);
    return early ?? (await new Promise((resolve) => this.#awaited.set(pid, resolve)));
  }
}

function terminalStreams(master: number): Streams {
  const stream = new ReadStream(master);
  stream.on('error', () => {}); // EIO: the last process that had it as a terminal is gone
  // The event loop takes a hang-up for the end after one read that was not full, and the kernel gives 4 KiB at most in one.
  stream.once('end', () => {
    for (const chunk of restOf(master)) stream.emit('data', chunk);
  });
  return { outputs: [{ stream: 'stdout', source: stream }], stdin: stream, terminal: master };
}

function* restOf(master: number): Generator<Buffer> {
  try {
    for (;;) {
      const chunk = Buffer.alloc(terminalBytesMax);
      const size = readSync(master, chunk);
      if (size === 0) return;
      yield chunk.subarray(0, size);
    }
  } catch {
    // EIO, as above; EAGAIN where a process has opened the terminal again
  }
}

/**
 * Takes what comes, in its order. When too much is waiting the rest stays in the pipe, and its writer waits. Not by `for await`,
 * which drops what it has not handed out yet when a terminal ends with an error, as they all do.
 */
export async function pump(source: Duplex, take: (chunk: Buffer, isLast: boolean) => Promise<void>): Promise<void> {
  let waitingBytes = 0;
  let last: Promise<void> = Promise.resolve();
  source.on('data', (chunk: Buffer) => {
    waitingBytes += chunk.length;
    if (waitingBytes > waitingBytesMax) source.pause();
    last = last
      .then(() => take(chunk, false))
      .catch(() => {})
      .finally(() => {
        waitingBytes -= chunk.length;
        if (waitingBytes <= waitingBytesMax) source.resume();
      });
  });
  if (!source.closed) await new Promise((resolve) => source.once('close', resolve));
  await last;
  await take(Buffer.alloc(0), true).catch(() => {});
}

export async function drained(stream: Duplex): Promise<void> {
  if (stream.destroyed) return;
  await new Promise<void>((resolve) => {
    stream.once('drain', resolve);
    stream.once('close', resolve);
  });
}

export function destroy({ stdin, outputs }: Streams): void {
  stdin?.destroy();
  for (const { source } of outputs) source.destroy();
}

/** Ignores the error of a pipe whose reader has ended. */
function silent(socket: Socket): Socket {
  return socket.on('error', () => {});
}
