/**
 * The spawner: a small process beside the node that is the parent of all containers, carries their output to their logs and
 * records how they ended. It outlives the node, so that containers do too and a restart of the node loses no line and no exit
 * code. It decides nothing: what to run comes as a compiled program (container-program.ts).
 *
 *   node ──unix socket──▶ spawner ──▶ program of system calls ══▶ the container's command
 *                            │ ◀─────────── output, exit code ───────────┘
 *                            └──▶ log files, exits/<id>.json
 *
 * It ends when it has no children and no connection any more. If it is killed, the node notices, ends what it ran and says so in
 * the containers' state: no exit code is lost in silence.
 */
import { closeSync, constants, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { type Server, type Socket, createServer } from 'node:net';
import { constants as system } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Clock, systemClock } from '../../../base/clock.ts';
import { messageOf } from '../../../base/errors.ts';
import {
  type HeldNamespace,
  holdMountNamespace,
  processesOfContainer,
  processesOfSession,
} from '../../../linux/process-table.ts';
import { type Processes, exitNow, loadProcesses } from '../../../linux/processes.ts';
import { ContainerLog, type StreamName } from './container-log.ts';
import { Launcher, type Streams, destroy, drained, pump } from './launcher.ts';
import {
  type CallAnswer,
  type ChildEndRecord,
  type ChildFacts,
  type ChildStart,
  type Frame,
  type SpawnerCall,
  type SpawnerRequest,
  type SpawnerState,
  type StartAnswer,
  type StreamMessage,
  exitsName,
  messageIn,
  readFrames,
  sendFrame,
  sendMessage,
  socketName,
  spawnerProtocol,
} from './spawner-protocol.ts';

/** How long output may still come from processes that outlived the first one of their container. */
const lastOutputMsMax = 5_000;
const strayKillMs = 20;
const leftMs = 1_000;
/** The client closes first, when it has read everything. */
const farewellMsMax = 10_000;
const idleMsMax = 2_000;
const { SIGKILL } = system.signals;
const goneProblem = 'what it belongs to has ended';
/** What the engines report for a command that could not be executed. */
const startErrorCode = 128;

type OutputListener = (stream: StreamName, chunk: Buffer) => void;

interface Child {
  readonly id: string;
  readonly start: ChildStart;
  readonly listeners: Set<OutputListener>;
  readonly startedAtMs: number;
  streams: Streams;
  pid: number | undefined;
  /** Means its first process, even if the number is used again. */
  handle: number | undefined;
  /** Held while strays may have to be found by it. */
  namespace: HeldNamespace | undefined;
  /** What it is to be killed with as soon as it can be. */
  killed: boolean;
  end: ChildEndRecord | undefined;
  readonly whenEnded: Promise<void>;
  readonly markEnded: () => void;
}

class Spawner {
  readonly #directory: string;
  readonly #processes: Processes;
  readonly #clock: Clock;
  readonly #children = new Map<string, Child>();
  readonly #followers = new Set<Socket>();
  readonly #launcher: Launcher;
  #server: Server | undefined;
  #connections = 0;
  readonly #idle: () => void;
  #idleTimer: NodeJS.Timeout | undefined;

  /** `idle` is called when there is nothing left to do. */
  constructor(directory: string, processes: Processes, clock: Clock, idle: () => void) {
    this.#directory = directory;
    this.#processes = processes;
    this.#launcher = new Launcher(processes, clock);
    this.#clock = clock;
    this.#idle = idle;
  }

  /** To be called after each SIGCHLD. */
  reap(): void {
    this.#launcher.reap();
  }

  async listen(): Promise<void> {
    mkdirSync(join(this.#directory, exitsName), { recursive: true, mode: 0o700 });
    const path = join(this.#directory, socketName);
    rmSync(path, { force: true });
    const server = createServer((socket) => {
      this.#connections += 1;
      socket.on('error', () => {}); // the node left
      void this.#serve(socket)
        .catch(() => {})
        .finally(() => {
          socket.destroySoon(); // not before what was written is sent
          this.#connections -= 1;
          this.#mayEnd();
        });
    });
    this.#server = server;
    // A path below an open directory: a socket's own may not be longer than 107 bytes.
    const directory = openSync(this.#directory, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen(`/proc/self/fd/${directory}/${socketName}`, resolve);
      });
    } finally {
      closeSync(directory);
    }
    this.#mayEnd();
  }

  async #serve(socket: Socket): Promise<void> {
    const frames = readFrames(socket);
    const next = async (): Promise<Frame | undefined> => {
      const { value, done } = await frames.next();
      return done === true ? undefined : value;
    };
    const first = await next();
    if (first === undefined) return;
    const request = messageIn(first) as SpawnerRequest;
    switch (request.ask) {
      case 'follow':
        this.#followers.add(socket);
        sendMessage(socket, this.#state());
        for (let frame = await next(); frame !== undefined; frame = await next()) {
          const call = messageIn(frame) as SpawnerCall & { readonly number: number };
          const image = call.call === 'start' ? (await next())?.bytes : undefined;
          void this.#answer(call, image).then((answer) => sendMessage(socket, { number: call.number, ...answer }));
        }
        this.#followers.delete(socket);
        return;
      case 'exec': {
        const image = await next();
        if (image === undefined) return;
        await this.#exec(socket, frames, request, image.bytes);
        break;
      }
      case 'attach':
        await this.#attach(socket, frames, request.id);
        break;
      case 'end':
        await this.#endAll();
        break;
    }
    socket.end();
  }

  async #answer(call: SpawnerCall, image: Buffer = Buffer.alloc(0)): Promise<Omit<CallAnswer, 'number'>> {
    try {
      switch (call.call) {
        case 'start':
          return { answer: await this.#start(call.id, call.start, image) };
        case 'signal':
          this.#signal(call.id, call.signal);
          return {};
        case 'context':
          return { answer: this.#children.get(call.id)?.start.context };
        case 'forget':
          this.#signal(call.id, SIGKILL);
          rmSync(this.#exitPath(call.id), { force: true });
          this.#children.delete(call.id);
          return {};
      }
    } catch (thrown) {
      return { problem: messageOf(thrown) };
    }
  }

  async #start(id: string, start: ChildStart, image: Buffer): Promise<StartAnswer> {
    let markEnded = (): void => {};
    const whenEnded = new Promise<void>((resolve) => {
      markEnded = resolve;
    });
    const startedAtMs = this.#clock.now();
    const child: Child = {
      id,
      start,
      listeners: new Set(),
      startedAtMs,
      streams: { outputs: [] },
      pid: undefined,
      handle: undefined,
      namespace: undefined,
      killed: false,
      end: undefined,
      whenEnded,
      markEnded,
    };
    this.#children.set(id, child);
    const log = start.log && new ContainerLog(start.log.path, start.log.limits, this.#clock);
    // A full disk: the container runs, and its output is counted as lost.
    const opened = log?.open().catch(() => {});
    const born = (pid: number): void => {
      child.pid = pid;
      child.handle = this.#processes.openChild(pid);
      if (start.strays !== undefined) child.namespace = holdMountNamespace(pid);
      if (child.killed) this.#processes.kill(pid, SIGKILL);
    };
    const joined = this.#handlesOf(start.joins);
    if (joined === undefined) return await this.#refuse(child, log);
    const launch = { image, tty: start.tty, hasStdin: start.stdin !== 'none', joined };
    const { answer, streams, ended } = await this.#launcher.launch(launch, born);
    await opened;
    child.streams = streams;
    const flows = streams.outputs.map(({ stream, source }) =>
      pump(source, async (chunk, isLast) => {
        if (chunk.length > 0) for (const listen of child.listeners) listen(stream, chunk);
        await log?.write(stream, chunk, isLast);
      }),
    );
    if (answer.outcome === 'failed') {
      const exitCode = child.killed ? 128 + SIGKILL : startErrorCode;
      await this.#finish(child, exitCode, flows, log);
      return { ...answer, exitCode };
    }
    void ended.then((exitCode) => this.#finish(child, exitCode, flows, log));
    this.#announce(child);
    return answer;
  }

  /** What it would join is gone. */
  async #refuse(child: Child, log: ContainerLog | undefined): Promise<StartAnswer> {
    await this.#finish(child, startErrorCode, [], log);
    return { outcome: 'failed', report: '', problem: goneProblem, exitCode: startErrorCode };
  }

  #handlesOf(ids: readonly string[]): number[] | undefined {
    const handles = ids.flatMap((id) => {
      const child = this.#children.get(id);
      return child?.handle === undefined || child.end !== undefined ? [] : [child.handle];
    });
    return handles.length === ids.length ? handles : undefined;
  }

  async #finish(
    child: Child,
    exitCode: number,
    flows: readonly Promise<void>[],
    log: ContainerLog | undefined,
  ): Promise<void> {
    const finishedAtMs = this.#clock.now();
    const flowed = Promise.all(flows).then(() => true);
    const deadlineMs = finishedAtMs + lastOutputMsMax;
    this.#killStrays(child);
    for (let done = child.start.strays === undefined; !done && this.#clock.now() < deadlineMs;) {
      done = await Promise.race([flowed, this.#clock.sleep(strayKillMs).then(() => false)]);
      this.#killStrays(child);
    }
    await this.#within(lastOutputMsMax, flowed);
    child.streams.stdin?.destroy();
    for (const { source } of child.streams.outputs) source.destroy();
    await Promise.all(flows);
    await log?.close().catch(() => {});
    for (const descriptor of [child.namespace?.descriptor, child.handle]) {
      if (descriptor !== undefined) this.#processes.close(descriptor);
    }
    child.namespace = undefined;
    child.handle = undefined;
    child.end = { exitCode, finishedAtMs };
    const isKept = child.start.log !== undefined && this.#children.get(child.id) === child;
    if (isKept) this.#record(child.id, child.end);
    child.markEnded();
    this.#announce(child);
    this.#mayEnd();
  }

  async #exec(
    socket: Socket,
    frames: AsyncGenerator<Frame>,
    { id, tty }: { readonly id: string; readonly tty: boolean },
    image: Buffer,
  ): Promise<void> {
    const joined = this.#handlesOf([id]);
    if (joined === undefined) {
      sendMessage(socket, { outcome: 'failed', report: '', problem: goneProblem, exitCode: startErrorCode });
      return;
    }
    const launch = { image, tty, hasStdin: true, joined };
    const { answer, streams, ended } = await this.#launcher.launch(launch, () => {});
    sendMessage(socket, answer);
    if (answer.outcome === 'failed') {
      destroy(streams);
      return;
    }
    const { pid } = answer;
    let isOver = false;
    const kill = (): void => {
      this.#launcher.reap(); // it may have ended while its output was on the way
      if (isOver || !this.#launcher.isAwaited(pid)) return;
      for (const one of processesOfSession(pid)) this.#processes.kill(one.pid, SIGKILL);
      this.#processes.kill(pid, SIGKILL);
    };
    const flows = streams.outputs.map(({ stream, source }) =>
      pump(source, async (chunk) => {
        if (chunk.length > 0 && !sendFrame(socket, stream, chunk)) await drained(socket);
      }),
    );
    // A client that has all it wanted may leave before the command has ended by itself, as kubectl cp does.
    const left = (): void => void this.#clock.sleep(leftMs).then(kill);
    const gone = this.#feed(frames, streams, 'once', left);
    void gone.then(kill);
    const exitCode = await ended;
    isOver = true;
    // A daemon that the command left behind may hold its output open: it is not waited for longer than this.
    await this.#within(lastOutputMsMax, Promise.all(flows));
    destroy(streams);
    sendMessage(socket, { exitCode });
    await this.#within(farewellMsMax, gone);
  }

  async #attach(socket: Socket, frames: AsyncGenerator<Frame>, id: string): Promise<void> {
    const child = this.#children.get(id);
    if (child === undefined || child.end !== undefined) return;
    // A client that does not read misses output: it must not hold up the container.
    const listener: OutputListener = (stream, chunk) => {
      if (socket.writableLength < 1024 * 1024) sendFrame(socket, stream, chunk);
    };
    child.listeners.add(listener);
    sendMessage(socket, {});
    const leaving = new Promise<void>((resolve) => {
      const gone = this.#feed(frames, child.streams, child.start.stdin, resolve);
      void gone.then(resolve);
      void child.whenEnded.then(resolve);
    });
    await leaving;
    child.listeners.delete(listener);
    sendMessage(socket, { ended: true });
    await this.#within(farewellMsMax, new Promise((resolve) => socket.once('close', resolve)));
  }

  /** Hands on what a client types; resolves when it is gone. With `keep` the end of its input is not the end of the program's. */
  async #feed(
    frames: AsyncGenerator<Frame>,
    { stdin, terminal }: Streams,
    mode: ChildStart['stdin'],
    left: () => void,
  ): Promise<void> {
    try {
      for await (const frame of frames) {
        if (frame.kind === 'stdin') {
          const takes = stdin !== undefined && !stdin.destroyed && mode !== 'none';
          if (takes && !stdin.write(frame.bytes)) await drained(stdin);
          continue;
        }
        const message = messageIn(frame) as StreamMessage;
        if ('left' in message) {
          left();
        } else if ('resize' in message) {
          const { columns, rows } = message.resize;
          // Once it is closed its number may be another's.
          if (terminal !== undefined && stdin?.destroyed === false) {
            this.#processes.setTerminalSize(terminal, columns, rows);
          }
        } else if (mode === 'keep') {
          // The program may get more input, from somebody else: this client has said all it had to say.
          left();
        } else if (mode === 'once' && stdin !== undefined) {
          if (terminal === undefined) stdin.end();
          else stdin.write('\x04'); // end of input on a terminal is a key
        }
      }
    } catch {
      // broken off: it is gone
    }
  }

  async #within(ms: number, done: Promise<unknown>): Promise<void> {
    const late = new AbortController();
    await Promise.race([done, this.#clock.sleep(ms, late.signal).catch(() => {})]);
    late.abort();
  }

  #signal(id: string, signal: number): void {
    const child = this.#children.get(id);
    if (child === undefined || child.end !== undefined) return;
    if (signal === SIGKILL) child.killed = true;
    if (child.pid === undefined) return;
    this.#processes.kill(child.pid, signal);
    if (signal === SIGKILL) this.#killStrays(child);
  }

  #killStrays({ start, pid, namespace }: Child): void {
    if (start.strays === undefined) return;
    for (const stray of processesOfContainer(start.strays.groups, namespace)) {
      if (stray.pid !== pid) this.#processes.kill(stray.pid, SIGKILL);
    }
  }

  #record(id: string, end: ChildEndRecord): void {
    const path = this.#exitPath(id);
    try {
      writeFileSync(`${path}.new`, JSON.stringify(end), { mode: 0o600 });
      renameSync(`${path}.new`, path);
    } catch {
      // A full disk: the node has it from the connection, or asks again when it is back.
    }
  }

  #exitPath(id: string): string {
    return join(this.#directory, exitsName, `${id}.json`);
  }

  #announce(child: Child): void {
    for (const socket of this.#followers) sendMessage(socket, factsOf(child));
  }

  #state(): SpawnerState {
    return { protocol: spawnerProtocol, pid: process.pid, children: [...this.#children.values()].map(factsOf) };
  }

  async #endAll(): Promise<void> {
    this.#server?.close();
    for (const { id } of this.#children.values()) this.#signal(id, SIGKILL);
    await Promise.all([...this.#children.values()].map(({ whenEnded }) => whenEnded));
    this.#idle();
  }

  #mayEnd(): void {
    clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(() => {
      const isRunning = [...this.#children.values()].some(({ end, start }) => end === undefined && start.keepsSpawner);
      if (this.#connections > 0 || isRunning) return;
      void this.#endAll();
    }, idleMsMax);
  }
}

function factsOf({ id, pid, startedAtMs, end }: Child): ChildFacts {
  return { id, startedAtMs, ...(pid === undefined ? {} : { pid }), ...(end === undefined ? {} : { end }) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , directory = ''] = process.argv;
  const processes = loadProcesses();
  processes.closeInherited();
  processes.protectMemory();
  process.chdir('/');
  const spawner = new Spawner(directory, processes, systemClock, () => exitNow(0));
  process.on('SIGCHLD', () => spawner.reap());
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGPIPE'] as const) process.on(signal, () => {});
  await spawner.listen();
  process.stdout.write('ready\n', () => process.stdout.destroy());
}
