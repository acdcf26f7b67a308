/** The node's side of its spawner: starts one where there is none, follows what happens to its children, and asks it to act. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, mkdirSync, openSync } from 'node:fs';
import { type Socket, connect } from 'node:net';
import { join } from 'node:path';
import { execPath } from 'node:process';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { onAbort } from '../../../base/abort.ts';
import { errorCode } from '../../../base/errors.ts';
import type { CompiledProgram } from '../../../linux/system-program.ts';
import { type ProcessStreams, RuntimeError } from '../../runtime.ts';
import {
  type CallAnswer,
  type ChildFacts,
  type ChildStart,
  type ExecEnd,
  type Frame,
  type SpawnerCall,
  type SpawnerRequest,
  type SpawnerState,
  type StartAnswer,
  messageIn,
  readFrames,
  sendFrame,
  sendMessage,
  socketName,
  spawnerProtocol,
} from './spawner-protocol.ts';

interface SpawnerFollower {
  /** Something started or ended. */
  changed(facts: ChildFacts): void;
  /** The spawner is gone, and with it whatever it knew of its children. */
  lost(): void;
}

/** A machine that is busy takes seconds, and pods would rather wait than fail. */
const startMsMax = 60_000;
const endMsMax = 10_000;
/** Launches and log writes each hold a thread while they wait for a disk. */
const spawnerThreads = '32';

/** The process that runs containers has ended, and they with it. */
export class SpawnerGoneError extends RuntimeError {
  constructor(options?: ErrorOptions) {
    super('Cannot reach the process that runs containers: it ended', options);
  }
}

export class SpawnerClient {
  readonly #directory: string;
  readonly #follower: SpawnerFollower;
  readonly #children = new Map<string, ChildFacts>();
  readonly #unanswered = new Map<
    number,
    { readonly resolve: (answer: unknown) => void; readonly reject: (reason: Error) => void }
  >();
  #calls = 0;
  #following: Socket | undefined;
  #opening: Promise<void> | undefined;
  #closed = false;

  constructor(directory: string, follower: SpawnerFollower) {
    this.#directory = directory;
    this.#follower = follower;
  }

  /** What is known of a child now. */
  get(id: string): ChildFacts | undefined {
    return this.#children.get(id);
  }

  all(): ChildFacts[] {
    return [...this.#children.values()];
  }

  /** Finds the spawner that an earlier program left, or starts one. */
  async open(): Promise<void> {
    if (this.#following !== undefined) return;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    await this.#opening;
  }

  /** The spawner stays as long as it has something to do. */
  close(): void {
    this.#closed = true;
    this.#following?.destroy();
  }

  async start(id: string, { image }: CompiledProgram, start: ChildStart): Promise<StartAnswer> {
    await this.open(); // before the child is noted: opening begins with what the spawner knows
    this.#children.set(id, { id, startedAtMs: 0 });
    const answer = (await this.#call({ call: 'start', id, start }, image)) as StartAnswer;
    const known = this.#children.get(id);
    if (answer.outcome === 'started' && known !== undefined) {
      this.#children.set(id, { ...known, pid: answer.pid, startedAtMs: answer.startedAtMs });
    }
    return answer;
  }

  async signal(id: string, signal: number): Promise<void> {
    await this.#call({ call: 'signal', id, signal });
  }

  async context(id: string): Promise<unknown> {
    return await this.#call({ call: 'context', id });
  }

  async forget(id: string): Promise<void> {
    this.#children.delete(id);
    await this.#call({ call: 'forget', id });
  }

  /** Resolves with how it could not be started, or with its exit code. */
  async exec(
    id: string,
    { image }: CompiledProgram,
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<Extract<StartAnswer, { outcome: 'failed' }> | ExecEnd> {
    const socket = await this.#send({ ask: 'exec', id, tty: streams.tty }, image);
    let answer: StartAnswer | undefined;
    let end: ExecEnd | undefined;
    await this.#stream(socket, streams, signal, (frame) => {
      const message = messageIn(frame);
      if (answer === undefined) answer = message as StartAnswer;
      else end = message as ExecEnd;
      return answer.outcome === 'failed' || end !== undefined;
    });
    signal.throwIfAborted();
    if (answer?.outcome === 'failed') return answer;
    return end ?? { exitCode: 137 }; // the spawner, or the client, is gone: so is the command
  }

  /** Joins the streams of a child until it ends, the client leaves or the signal aborts. */
  async attach(id: string, streams: ProcessStreams, signal: AbortSignal): Promise<void> {
    await this.#stream(
      await this.#send({ ask: 'attach', id }),
      streams,
      signal,
      (frame) => 'ended' in (messageIn(frame) as object),
      // Who only looks has no input that could end.
      streams.stdin !== undefined,
    );
  }

  async #call(call: SpawnerCall, image?: Buffer): Promise<unknown> {
    const socket = await this.#reached();
    this.#calls += 1;
    const number = this.#calls;
    return await new Promise((resolve, reject) => {
      this.#unanswered.set(number, { resolve, reject });
      sendMessage(socket, { ...call, number });
      if (image !== undefined) sendFrame(socket, 'image', image);
    });
  }

  #answered({ number, answer, problem }: CallAnswer): void {
    const call = this.#unanswered.get(number);
    this.#unanswered.delete(number);
    if (problem === undefined) call?.resolve(answer);
    else call?.reject(new RuntimeError(problem));
  }

  async #reached(): Promise<Socket> {
    if (this.#closed) throw new RuntimeError('Cannot run containers: the runtime is closed');
    await this.open();
    if (this.#following === undefined) throw new SpawnerGoneError();
    return this.#following;
  }

  async #send(request: SpawnerRequest, image?: Buffer): Promise<Socket> {
    await this.#reached();
    const socket = await connectSpawner(this.#directory).catch((thrown: unknown) => {
      throw isAbsent(thrown) ? new SpawnerGoneError({ cause: thrown }) : thrown;
    });
    sendMessage(socket, request);
    if (image !== undefined) sendFrame(socket, 'image', image);
    return socket;
  }

  /**
   * Frames to streams and streams to frames, until `isOver` says so of a message. The input begins with the first one. It is this
   * side that closes: a message on its way to a side that has closed would cost the frames that are still to be read here.
   */
  async #stream(
    socket: Socket,
    streams: ProcessStreams,
    signal: AbortSignal,
    isOver: (frame: Frame) => boolean,
    endsInput = streams.stdin !== undefined || !streams.tty,
  ): Promise<void> {
    const { stdin, stdout, stderr, resizes } = streams;
    const leave = (): void => void (socket.destroyed || sendMessage(socket, { left: true }));
    const stopListening = onAbort(signal, () => socket.destroy());
    const outputs = [stdout, stderr].filter((stream) => stream !== undefined);
    for (const stream of outputs) stream.once('close', leave).once('error', leave);
    let fed = false;
    try {
      for await (const frame of readFrames(socket)) {
        if (frame.kind === 'stdout' || frame.kind === 'stderr') {
          await write(frame.kind === 'stdout' ? stdout : stderr, frame.bytes);
        } else if (isOver(frame)) {
          break;
        } else if (!fed) {
          fed = true;
          void feed(stdin, socket, endsInput);
          void followResizes(resizes, socket);
        }
      }
    } catch {
      // broken off: the client left
    } finally {
      stopListening();
      for (const stream of outputs) stream.off('close', leave).off('error', leave);
      socket.destroy();
    }
  }

  async #open(): Promise<void> {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    const socket = await this.#connected();
    sendMessage(socket, { ask: 'follow' } satisfies SpawnerRequest);
    const frames = readFrames(socket);
    const { value: first } = (await frames.next()) as { value?: Frame };
    if (first === undefined) throw new SpawnerGoneError();
    const { protocol, children } = messageIn(first) as SpawnerState;
    if (protocol !== spawnerProtocol) {
      // Of another version: its containers are ended, and restarted by a spawner of this one.
      socket.destroy();
      await endSpawner(this.#directory);
      return await this.#open();
    }
    this.#children.clear();
    for (const facts of children) this.#children.set(facts.id, facts);
    this.#following = socket;
    void this.#follow(frames, socket);
  }

  /** One that was started, and to which nobody came in time, has ended by itself: it is started once more. */
  async #connected(startsMax = 2): Promise<Socket> {
    try {
      return await connectSpawner(this.#directory);
    } catch (thrown) {
      if (!isAbsent(thrown) || startsMax === 0) throw thrown;
      await this.#startSpawner();
      return await this.#connected(startsMax - 1);
    }
  }

  async #follow(frames: AsyncGenerator<Frame>, socket: Socket): Promise<void> {
    try {
      for await (const frame of frames) {
        const facts = messageIn(frame) as ChildFacts | CallAnswer;
        if ('number' in facts) {
          this.#answered(facts);
          continue;
        }
        if (!this.#children.has(facts.id)) continue; // forgotten meanwhile
        this.#children.set(facts.id, facts);
        this.#follower.changed(facts);
      }
    } catch {
      // broken off: as if it had ended
    }
    socket.destroy();
    this.#following = undefined;
    this.#children.clear();
    for (const { reject } of this.#unanswered.values()) reject(new SpawnerGoneError());
    this.#unanswered.clear();
    if (!this.#closed) this.#follower.lost();
  }

  async #startSpawner(): Promise<void> {
    const log = openSync(join(this.#directory, 'spawner.log'), 'w', 0o600);
    const program = fileURLToPath(new URL('./spawner.js', import.meta.url));
    // Small: it keeps no objects, so that a heap of few megabytes is enough.
    const flags = ['--max-semi-space-size=1', '--max-old-space-size=128', '--no-warnings'];
    const child: ChildProcessByStdio<null, Readable, null> = spawn(execPath, [...flags, program, this.#directory], {
      detached: true,
      cwd: '/',
      stdio: ['ignore', 'pipe', log],
      env: { UV_THREADPOOL_SIZE: spawnerThreads },
    }) as ChildProcessByStdio<null, Readable, null>;
    closeSync(log);
    child.unref();
    const limit = AbortSignal.timeout(startMsMax);
    try {
      await Promise.race([
        once(child.stdout, 'data', { signal: limit }),
        once(child, 'exit', { signal: limit }).then(() => {
          throw new Error(`it ended; see ${join(this.#directory, 'spawner.log')}`);
        }),
      ]);
    } catch (thrown) {
      child.kill('SIGKILL');
      throw new RuntimeError('Cannot start the process that runs containers', { cause: thrown });
    } finally {
      child.stdout.destroy();
    }
  }
}

/** Ends everything that a spawner runs, and then itself. Where there is none, there is nothing to end. Rejects when it takes too long. */
export async function endSpawner(directory: string): Promise<void> {
  let socket: Socket;
  try {
    socket = await connectSpawner(directory);
  } catch {
    return;
  }
  sendMessage(socket, { ask: 'end' } satisfies SpawnerRequest);
  socket.resume();
  try {
    await once(socket, 'close', { signal: AbortSignal.timeout(endMsMax) });
  } catch (thrown) {
    socket.destroy();
    throw new RuntimeError('The process that runs containers does not end', { cause: thrown });
  }
}

/** Nothing listens there, or what did has just ended. */
function isAbsent(thrown: unknown): boolean {
  return ['ENOENT', 'ECONNREFUSED', 'ECONNRESET'].includes(errorCode(thrown) ?? '');
}

async function connectSpawner(path: string): Promise<Socket> {
  // A path below an open directory: a socket's own may not be longer than 107 bytes.
  const directory = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    return await new Promise((resolve, reject) => {
      const socket = connect(`/proc/self/fd/${directory}/${socketName}`);
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        socket.on('error', () => {}); // seen by the reader as an end
        resolve(socket);
      });
    });
  } finally {
    closeSync(directory);
  }
}

async function write(stream: Writable | undefined, bytes: Buffer): Promise<void> {
  if (stream === undefined || stream.destroyed || stream.writableEnded) return;
  if (!stream.write(bytes)) await Promise.race([once(stream, 'drain'), once(stream, 'close')]);
}

/** Hands on what the client types; its end is the end of the command's input, not of the command. */
async function feed(stdin: Readable | undefined, socket: Socket, endsInput: boolean): Promise<void> {
  try {
    for await (const chunk of (stdin ?? []) as AsyncIterable<Buffer>) {
      if (socket.destroyed) return;
      if (!sendFrame(socket, 'stdin', chunk)) await Promise.race([once(socket, 'drain'), once(socket, 'close')]);
    }
  } catch {
    // the client left
  }
  if (!socket.destroyed && endsInput) sendMessage(socket, { stdinEnded: true });
}

async function followResizes(resizes: ProcessStreams['resizes'], socket: Socket): Promise<void> {
  try {
    for await (const { columns, rows } of resizes ?? []) {
      if (socket.destroyed) return;
      sendMessage(socket, { resize: { columns, rows } });
    }
  } catch {
    // the client left: what runs keeps the size it has
  }
}
