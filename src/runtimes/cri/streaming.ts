/** Commands beside containers, their own streams and ports of pods, through the runtime's streaming server. */
import { once } from 'node:events';
import type { Duplex, Writable } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import { ContainerState } from '../../grpc/messages/cri_pb.ts';
import { hasCode } from '../../grpc/grpc-error.ts';
import type { SpdyStream } from '../../spdy/spdy-stream.ts';
import {
  type CommandRequest,
  type CommandResult,
  ContainerNotRunningError,
  type ExecRequest,
  type ExecResult,
  NoSuchContainerError,
  type ProcessStreams,
  RuntimeError,
  commandStartError,
} from '../runtime.ts';
import { type RuntimeCalls, isNotFound, requestMsMax } from './cri-connection.ts';
import { openRuntimeStreams, textOf } from './runtime-stream.ts';

const commandProtocol = 'v4.channel.k8s.io';
const portProtocol = 'portforward.k8s.io';

export class CriStreaming {
  readonly #calls: RuntimeCalls;
  readonly #clock: Clock;

  constructor(calls: RuntimeCalls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
  }

  async exec(containerId: string, request: ExecRequest, signal: AbortSignal): Promise<ExecResult> {
    if (request.command.length === 0) throw commandStartError('Cannot run a command: none is given');
    const chosen = choiceOf(request);
    const { url } = await this.#ofRunning(containerId, signal, (options) =>
      this.#calls.exec({ containerId, cmd: [...request.command], ...chosen }, options),
    );
    const status = await this.#stream(url, chosen, request, signal);
    if (status.status === 'Success') return { exitCode: 0 };
    const exitCode = exitCodeOf(status);
    if (exitCode === undefined) throw commandStartError(withoutPrefix(status.message ?? 'the command failed'));
    return { exitCode };
  }

  /** `streams.tty` is whether the container has a terminal, whatever the client has. */
  async attach(containerId: string, streams: ProcessStreams, signal: AbortSignal): Promise<void> {
    const chosen = choiceOf(streams);
    const { url } = await this.#ofRunning(containerId, signal, (options) =>
      this.#calls.attach({ containerId, ...chosen }, options),
    );
    const status = await this.#stream(url, chosen, streams, signal);
    if (status.status !== 'Success') throw new RuntimeError(withoutPrefix(status.message ?? 'the streams were lost'));
  }

  /** What does not listen is known only when the connection is used: then it breaks with the runtime's words. */
  async connect(podSandboxId: string, port: number, signal: AbortSignal): Promise<Duplex> {
    const { url } = await this.#calls.portForward({ podSandboxId, port: [port] }, { timeoutMs: requestMsMax, signal });
    const headers = ['error', 'data'].map((streamType) => ({ streamType, port: String(port), requestID: '0' }));
    const opened = await openRuntimeStreams(this.#clock, { url, protocol: portProtocol, headers }, signal);
    const [error, data] = opened.streams as [SpdyStream, SpdyStream];
    error.end();
    data.once('close', () => void opened.close());
    const failed = (thrown: string): void => {
      if (thrown !== '') data.destroy(new RuntimeError(withoutPrefix(thrown)));
    };
    textOf(error).then(failed, () => {}); // a connection that is gone has closed `data` too
    return data;
  }

  /** By a call of its own: nothing is streamed, and the runtime itself ends what takes too long. */
  async run(
    containerId: string,
    { command, timeoutMs, bytesMax }: CommandRequest,
    signal: AbortSignal,
  ): Promise<CommandResult | 'timedOut'> {
    const request = { containerId, cmd: [...command], timeout: BigInt(Math.ceil((timeoutMs ?? 0) / 1000)) };
    const limit = timeoutMs === undefined ? undefined : timeoutMs + requestMsMax;
    try {
      const { stdout, stderr, exitCode } = await this.#ofRunning(containerId, signal, () =>
        this.#calls.execSync(request, { timeoutMs: limit, signal }),
      );
      return { exitCode, output: Buffer.concat([stdout, stderr]).subarray(0, bytesMax) };
    } catch (thrown) {
      if (thrown instanceof RuntimeError && hasCode(thrown.cause, 'DEADLINE_EXCEEDED')) return 'timedOut';
      throw thrown;
    }
  }

  /** Tells why a call for a container failed, if that is because it does not run. */
  async #ofRunning<T>(
    containerId: string,
    signal: AbortSignal,
    call: (options: { readonly timeoutMs: number; readonly signal: AbortSignal }) => Promise<T>,
  ): Promise<T> {
    const options = { timeoutMs: requestMsMax, signal };
    try {
      return await call(options);
    } catch (thrown) {
      signal.throwIfAborted();
      if (isNotFound(thrown)) throw new NoSuchContainerError(containerId);
      const { status } = await this.#calls
        .containerStatus({ containerId }, options)
        .catch(() => ({ status: undefined }));
      const isRunning = status === undefined || status.state === ContainerState.CONTAINER_RUNNING;
      throw isRunning ? thrown : new ContainerNotRunningError(status.metadata?.name ?? containerId);
    }
  }

  async #stream(url: string, chosen: Choice, streams: ProcessStreams, signal: AbortSignal): Promise<CommandStatus> {
    const names = [
      'error',
      ...(['stdin', 'stdout', 'stderr'] as const).filter((name) => chosen[name]),
      ...(chosen.tty ? ['resize'] : []),
    ];
    const headers = names.map((streamType) => ({ streamType }));
    const opened = await openRuntimeStreams(this.#clock, { url, protocol: commandProtocol, headers }, signal);
    const named = (name: string): SpdyStream | undefined => opened.streams[names.indexOf(name)];
    const [error] = opened.streams as [SpdyStream];
    const { stdin, stdout, stderr, resizes } = streams;
    const input = named('stdin');
    try {
      if (input !== undefined) stdin?.pipe(input);
      for (const unread of [input, named('resize')]) unread?.resume();
      if (resizes !== undefined) void sendSizes(resizes, named('resize'));
      const [text] = await Promise.all([
        textOf(error),
        copy(named('stdout'), stdout, signal),
        copy(named('stderr'), stderr, signal),
      ]);
      signal.throwIfAborted();
      if (text !== '') return statusOf(text);
      throw new RuntimeError('The container runtime has closed the connection before the command ended');
    } finally {
      if (input !== undefined) stdin?.unpipe(input);
      await opened.close();
    }
  }
}

interface Choice {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** A terminal has one stream for both, and something has to be streamed. */
function choiceOf({ stdin, stdout, stderr, tty }: ProcessStreams): Choice {
  const hasErrors = stderr !== undefined && !tty;
  const hasInput = stdin !== undefined;
  return { stdin: hasInput, stdout: stdout !== undefined || (!hasErrors && !hasInput), stderr: hasErrors, tty };
}

/** A client that is gone does not hold up the command; its going aborts the whole. */
async function copy(from: SpdyStream | undefined, to: Writable | undefined, signal: AbortSignal): Promise<void> {
  for await (const bytes of (from ?? []) as AsyncIterable<Buffer>) {
    if (signal.aborted) return;
    if (to === undefined || !to.writable || to.write(bytes)) continue;
    const waited = new AbortController();
    const over = { signal: AbortSignal.any([signal, waited.signal]) };
    await Promise.race([once(to, 'drain', over), once(to, 'close', over)]).catch(() => {});
    waited.abort();
  }
}

/** Until the stream is gone, or there are no more. */
async function sendSizes(sizes: NonNullable<ProcessStreams['resizes']>, to: Writable | undefined): Promise<void> {
  for await (const { columns, rows } of sizes) {
    if (to?.writable !== true) return;
    to.write(`{"Width":${columns},"Height":${rows}}\n`);
  }
}

interface CommandStatus {
  readonly status?: unknown;
  readonly message?: string;
  readonly reason?: unknown;
  readonly details?: { readonly causes?: readonly { readonly reason?: unknown; readonly message?: unknown }[] };
}

/** What the runtime says at the end. */
function statusOf(text: string): CommandStatus {
  try {
    const status = JSON.parse(text) as unknown;
    if (typeof status === 'object' && status !== null) return status;
  } catch {
    // Not what the protocol says; its words are all there is.
  }
  return { status: 'Failure', message: text };
}

function exitCodeOf({ reason, details }: CommandStatus): number | undefined {
  if (reason !== 'NonZeroExitCode') return undefined;
  const code = details?.causes?.find((cause) => cause.reason === 'ExitCode')?.message;
  return typeof code === 'string' && /^\d{1,3}$/.test(code) ? Number(code) : undefined;
}

/** The node's own server says the same before the runtime's words. */
function withoutPrefix(text: string): string {
  return text
    .replace(/^Internal error occurred: /, '')
    .replace(/^error (executing command in|attaching to) container: /, '')
    .replace(/^error forwarding port \d+ to pod \S+, uid \S*: /, '');
}
