/** Runs or joins a command for a client: chooses the transport, connects the streams, reports how it ended. */
import type { Duplex, Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { WebSocket } from 'ws';
import { OperatingError } from '../../base/errors.ts';
import type { Clock } from '../../base/clock.ts';
import type { ExecResult, ProcessStreams, TerminalSize } from '../../runtimes/runtime.ts';
import { SpdyConnection } from '../../spdy/spdy-connection.ts';
import type { SpdyStream } from '../../spdy/spdy-stream.ts';
import { ChannelSocket } from './channel-socket.ts';
import {
  type CommandStatus,
  type RemoteProtocol,
  type RemoteStreams,
  RequestRefused,
  type StreamChoice,
  type StreamLimits,
  exited,
  failed,
  spdyCommandProtocols,
  statusBytes,
  succeeded,
  webSocketCommandProtocols,
} from './protocols.ts';
import {
  type Upgrade,
  agreeOnSpdy,
  agreeOnWebSocket,
  isWebSocket,
  upgradeToSpdy,
  upgradeToWebSocket,
} from './upgrades.ts';

interface RemoteCommand {
  /** `error executing command in container`: begins the message when it cannot be run. */
  readonly failure: string;
  /** Answers nothing for a command that was only joined. */
  run(streams: ProcessStreams, signal: AbortSignal): Promise<ExecResult | undefined>;
}

interface RemoteCommandDeps {
  readonly clock: Clock;
  readonly limits: StreamLimits;
}

/** The names are the node's own; `1` is the only yes. */
export function streamChoice(query: URLSearchParams): StreamChoice {
  const isAsked = (name: string): boolean => query.get(name) === '1';
  const tty = isAsked('tty');
  // A terminal has one stream for both.
  const choice = { stdin: isAsked('input'), stdout: isAsked('output'), stderr: isAsked('error') && !tty, tty };
  if (choice.stdin || choice.stdout || choice.stderr) return choice;
  throw new RequestRefused(400, 'you must specify at least 1 of stdin, stdout, stderr');
}

/** Resolves when the client knows how it ended, or is gone. Rejects with RequestRefused before anything was upgraded. */
export async function serveRemoteCommand(
  deps: RemoteCommandDeps,
  upgrade: Upgrade,
  choice: StreamChoice,
  command: RemoteCommand,
  signal: AbortSignal,
): Promise<void> {
  const streams = await openStreams(deps, upgrade, choice);
  const over = AbortSignal.any([signal, streams.gone]);
  const { stdin, stdout, stderr, resizes } = streams;
  let status: CommandStatus;
  try {
    const result = await command.run({ stdin, stdout, stderr, tty: choice.tty, resizes }, over);
    status = result === undefined ? succeeded : exited(result);
  } catch (error) {
    status = failed(command.failure, error);
  }
  await streams.finish(status);
}

async function openStreams(deps: RemoteCommandDeps, upgrade: Upgrade, choice: StreamChoice): Promise<RemoteStreams> {
  if (isWebSocket(upgrade)) {
    const name = agreeOnWebSocket(upgrade, [...webSocketCommandProtocols.keys()]);
    return webSocketCommandStreams(
      await upgradeToWebSocket(upgrade, name),
      known(webSocketCommandProtocols, name),
      choice,
    );
  }
  const name = agreeOnSpdy(upgrade, [...spdyCommandProtocols.keys()]);
  return spdyCommandStreams(upgradeToSpdy(upgrade, name), known(spdyCommandProtocols, name), choice, deps);
}

function known<T>(protocols: ReadonlyMap<string, T>, name: string): T {
  const protocol = protocols.get(name);
  if (protocol === undefined) throw new RequestRefused(403, `the protocol ${JSON.stringify(name)} is not spoken here`);
  return protocol;
}

/** Over SPDY the client opens a stream for each, named by its header `streamType`. */
type StreamName = 'error' | 'stdin' | 'stdout' | 'stderr' | 'resize';

/** Resolves when the client has opened every stream it announced. */
async function spdyCommandStreams(
  transport: Duplex,
  protocol: RemoteProtocol,
  choice: StreamChoice,
  { clock, limits }: { readonly clock: Clock; readonly limits: StreamLimits },
): Promise<RemoteStreams> {
  const wanted = new Set<StreamName>(['error']);
  for (const name of ['stdin', 'stdout', 'stderr'] as const) if (choice[name]) wanted.add(name);
  if (choice.tty && protocol.hasResize) wanted.add('resize');

  const opened = new Map<StreamName, SpdyStream>();
  let complete = (): void => {};
  const completed = new Promise<'complete'>((resolve) => (complete = () => resolve('complete')));
  const connection = new SpdyConnection(transport, (stream) => {
    const name = stream.headers.get('streamtype') as StreamName;
    if (!wanted.has(name) || opened.has(name)) return false;
    opened.set(name, stream);
    if (opened.size === wanted.size) complete();
    return true;
  });
  const gone = new AbortController();
  const closed = connection
    .run()
    .finally(() => gone.abort(new OperatingError('StreamsMissing', 'the client has left')));
  const waiting = new AbortController();
  const late = clock.sleep(limits.creationMs, waiting.signal).then(
    () => 'late' as const,
    () => 'late' as const,
  );
  const outcome = await Promise.race([completed, late, closed.then(() => 'closed' as const)]);
  waiting.abort();
  if (outcome !== 'complete') {
    connection.destroy();
    await closed;
    throw new OperatingError(
      'StreamsMissing',
      outcome === 'late' ? 'timed out waiting for client to create streams' : 'the client has left',
    );
  }

  const sizes = new TerminalSizes();
  const resize = opened.get('resize');
  resize?.on('data', (bytes: Buffer) => sizes.add(bytes));
  resize?.on('close', () => sizes.end());
  if (resize === undefined) sizes.end();
  const error = opened.get('error');
  for (const name of ['error', 'stdout', 'stderr'] as const) opened.get(name)?.resume();

  return {
    stdin: opened.get('stdin'),
    stdout: opened.get('stdout'),
    stderr: opened.get('stderr'),
    resizes: sizes,
    gone: gone.signal,
    async finish(status) {
      await Promise.all([opened.get('stdout'), opened.get('stderr')].map(flushed));
      error?.end(statusBytes(status, protocol.hasStructuredStatus));
      await flushed(error);
      for (const stream of opened.values()) stream.destroy();
      connection.goAway();
      // Closing at once could throw away what the client has not read yet: it closes when it has.
      const patience = clock.sleep(limits.closingMs, gone.signal).catch(() => {});
      await Promise.race([closed, patience]);
      connection.destroy();
      await closed;
    },
  };
}

/** Resolves when everything was sent, or nothing more can be. */
export async function flushed(stream: Writable | undefined): Promise<void> {
  if (stream === undefined || stream.destroyed) return;
  if (!stream.writableEnded) stream.end();
  await finished(stream, { readable: false }).catch(() => {});
}

/** The streams of a remote command over a WebSocket: 0 stdin, 1 stdout, 2 stderr, 3 status, 4 terminal sizes. */
const channels = { stdin: 0, stdout: 1, stderr: 2, status: 3, resize: 4 } as const;

async function webSocketCommandStreams(
  socket: WebSocket,
  protocol: RemoteProtocol,
  choice: StreamChoice,
): Promise<RemoteStreams> {
  const channelSocket = new ChannelSocket(socket, protocol);
  const sizes = new TerminalSizes();
  const resize = channelSocket.input(channels.resize);
  resize.on('data', (bytes: Buffer) => sizes.add(bytes));
  resize.on('close', () => sizes.end());
  const stdin = choice.stdin ? channelSocket.input(channels.stdin) : undefined;
  const stdout = choice.stdout ? channelSocket.output(channels.stdout) : undefined;
  const stderr = choice.stderr ? channelSocket.output(channels.stderr) : undefined;
  for (const stream of [stdin, stdout, stderr]) stream?.on('error', () => {});
  // An empty message on the lowest channel that it will write to: clients wait for it.
  await channelSocket.send(
    choice.stdout ? channels.stdout : choice.stderr ? channels.stderr : channels.status,
    Buffer.alloc(0),
  );
  return {
    stdin,
    stdout,
    stderr,
    resizes: sizes,
    gone: channelSocket.gone,
    async finish(status) {
      await Promise.all([stdout, stderr].map(flushed));
      const bytes = statusBytes(status, protocol.hasStructuredStatus);
      if (bytes.length > 0) await channelSocket.send(channels.status, bytes);
      await channelSocket.close();
    },
  };
}

/** The sizes of a client's terminal as they come. Only the newest is kept: the ones before do not matter. */
// A size is some thirty bytes.
const textMax = 1024;

export class TerminalSizes implements AsyncIterable<TerminalSize> {
  #newest: TerminalSize | undefined;
  #isEnded = false;
  #wake: () => void = () => {};
  #text = '';

  /** Bytes of `{"Width":80,"Height":24}`, one after the other, cut anywhere. What is none of these is passed over. */
  add(bytes: Buffer): void {
    this.#text += bytes.toString('latin1');
    for (const [text] of this.#text.matchAll(/\{[^{}]*\}/g)) this.#newest = sizeOf(text) ?? this.#newest;
    this.#text = this.#text.slice(this.#text.lastIndexOf('}') + 1).slice(-textMax);
    this.#wake();
  }

  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TerminalSize> {
    for (;;) {
      const newest = this.#newest;
      this.#newest = undefined;
      if (newest !== undefined) yield newest;
      else if (this.#isEnded) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

function sizeOf(text: string): TerminalSize | undefined {
  try {
    const { Width: columns, Height: rows } = JSON.parse(text) as { Width?: unknown; Height?: unknown };
    return isSide(columns) && isSide(rows) ? { columns, rows } : undefined;
  } catch {
    return undefined;
  }
}

function isSide(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 0xffff;
}
