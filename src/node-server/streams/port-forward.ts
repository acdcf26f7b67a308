/** Forwards connections of a client to ports of a pod: over SPDY, over SPDY inside a WebSocket, or over channels. */
import { onAbort } from '../../base/abort.ts';
import { setMaxListeners } from 'node:events';
import type { Duplex, Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createWebSocketStream } from 'ws';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { SpdyConnection } from '../../spdy/spdy-connection.ts';
import type { SpdyStream } from '../../spdy/spdy-stream.ts';
import { ChannelSocket } from './channel-socket.ts';
import {
  RequestRefused,
  type StreamLimits,
  spdyPortProtocol,
  tunnelledPortProtocol,
  webSocketPortProtocols,
} from './protocols.ts';
import { flushed } from './remote-command.ts';
import {
  type Upgrade,
  agreeOnSpdy,
  agreeOnWebSocket,
  isWebSocket,
  offeredProtocols,
  upgradeToSpdy,
  upgradeToWebSocket,
} from './upgrades.ts';

interface ForwardedPod {
  readonly name: string;
  readonly uid: string;
  connect(port: number, signal: AbortSignal): Promise<Duplex>;
}

interface PortForwardDeps {
  readonly clock: Clock;
  readonly limits: StreamLimits;
}

/** Resolves when the client has left. Rejects with RequestRefused before anything was upgraded. */
export async function servePortForward(
  deps: PortForwardDeps,
  upgrade: Upgrade,
  pod: ForwardedPod,
  query: URLSearchParams,
  signal: AbortSignal,
): Promise<void> {
  if (!isWebSocket(upgrade)) {
    const protocol = agreeOnSpdy(upgrade, [spdyPortProtocol]);
    return forwardOverSpdy(deps, upgradeToSpdy(upgrade, protocol), pod, signal);
  }
  if (offeredProtocols(upgrade.request).includes(tunnelledPortProtocol)) {
    const tunnel = createWebSocketStream(await upgradeToWebSocket(upgrade, tunnelledPortProtocol));
    return forwardOverSpdy(deps, tunnel, pod, signal);
  }
  const ports = askedPorts(query);
  const protocol = agreeOnWebSocket(upgrade, [...webSocketPortProtocols.keys()]);
  const codec = webSocketPortProtocols.get(protocol)?.codec ?? 'binary';
  return forwardOverChannels(
    deps.clock,
    new ChannelSocket(await upgradeToWebSocket(upgrade, protocol), { codec }),
    ports,
    pod,
    signal,
  );
}

// Each port has two channels, and their numbers are bytes.
const portsMax = 120;

function askedPorts(query: URLSearchParams): number[] {
  const values = query.getAll('port');
  if (values.length === 0) throw new RequestRefused(400, 'query parameter "port" is required');
  const ports = values.flatMap((value) => {
    if (value === '') throw new RequestRefused(400, 'query parameter "port" cannot be empty');
    return value.split(',').map((text) => portOf(text, (message) => new RequestRefused(400, message)));
  });
  if (ports.length > portsMax) throw new RequestRefused(400, `at most ${portsMax} ports can be forwarded at once`);
  return ports;
}

function portOf(text: string, refusal: (message: string) => Error): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (!(port <= 0xffff)) throw refusal(`unable to parse ${JSON.stringify(text)} as a port`);
  if (port < 1) throw refusal(`port ${JSON.stringify(text)} must be > 0`);
  return port;
}

interface Pair {
  data?: SpdyStream;
  error?: SpdyStream;
  readonly complete: AbortController;
}

async function forwardOverSpdy(
  { clock, limits }: PortForwardDeps,
  transport: Duplex,
  pod: ForwardedPod,
  signal: AbortSignal,
): Promise<void> {
  const pairs = new Map<string, Pair>();
  const forwards = new Set<Promise<void>>();
  const track = (work: Promise<void>): void => {
    const tracked = work.finally(() => forwards.delete(tracked));
    forwards.add(tracked);
  };
  const gone = new AbortController();
  const over = AbortSignal.any([signal, gone.signal]);
  // One for every connection through it; Node takes more than ten for a leak.
  setMaxListeners(0, over);
  const connection = new SpdyConnection(transport, (stream) => {
    const request = requestOf(stream);
    if (request === undefined) return false;
    const { id, role, port } = request;
    let pair = pairs.get(id);
    if (pair === undefined) {
      pairs.set(id, (pair = { complete: new AbortController() }));
      track(expire(id, pair));
    }
    if (pair[role] !== undefined) {
      pair.error?.end(`error processing stream for request ${id}: ${role} stream already assigned`);
      return false;
    }
    pair[role] = stream;
    const { data, error } = pair;
    if (data !== undefined && error !== undefined) {
      pair.complete.abort();
      pairs.delete(id);
      error.resume();
      track(forwardPair(clock, data, error, port, pod, over));
    }
    return true;
  });
  /** A client that opens one stream of two gets an error, and its stream is closed. */
  const expire = async (id: string, pair: Pair): Promise<void> => {
    const isLate = await clock.sleep(limits.creationMs, AbortSignal.any([over, pair.complete.signal])).then(
      () => true,
      () => false,
    );
    if (!isLate) return;
    pairs.delete(id);
    pair.error?.end(`(request=${id}) timed out waiting for streams`);
    pair.data?.destroy();
  };
  const stopListening = onAbort(signal, () => connection.destroy());
  await connection.run();
  stopListening();
  gone.abort();
  await Promise.all(forwards);
}

function requestOf(stream: SpdyStream): { id: string; role: 'data' | 'error'; port: number } | undefined {
  const role = stream.headers.get('streamtype');
  const port = stream.headers.get('port') ?? '';
  if ((role !== 'data' && role !== 'error') || !/^\d{1,5}$/.test(port) || Number(port) < 1 || Number(port) > 0xffff) {
    return undefined;
  }
  // Old clients give no number; their error stream comes first and the data stream right after it.
  const id = stream.headers.get('requestid') ?? String(role === 'error' ? stream.id : stream.id - 2);
  return { id, role, port: Number(port) };
}

async function forwardPair(
  clock: Clock,
  data: SpdyStream,
  error: SpdyStream,
  port: number,
  pod: ForwardedPod,
  signal: AbortSignal,
): Promise<void> {
  const failure = await forward(clock, { input: data, output: data }, port, pod, signal);
  if (failure !== undefined) error.write(failure);
  await Promise.all([flushed(error), flushed(data)]);
  error.destroy();
  data.destroy();
}

interface Ends {
  readonly input: Readable;
  readonly output: Writable;
}

/** What a client still sends to a pod that has ended its side: as long as containerd passes it on. */
const lastWordsMs = 1_000;

/** Answers what went wrong, in the words that kubectl shows. */
async function forward(
  clock: Clock,
  { input, output }: Ends,
  port: number,
  pod: ForwardedPod,
  signal: AbortSignal,
): Promise<string | undefined> {
  let target: Duplex | undefined;
  try {
    target = await pod.connect(port, signal);
    target.on('error', () => {});
    const received = pipeline(target, output, { signal });
    const both = Promise.all([pipeline(input, target, { signal }), received]);
    both.catch(() => {}); // if it is not waited for below
    // Either side may say that it is done and still listen; but kubectl ends its side only when all of it has ended here.
    await Promise.race([both, received.then(() => clock.sleep(lastWordsMs, signal))]);
    return undefined;
  } catch (error) {
    if (signal.aborted || isPrematureClose(error)) return undefined;
    return `error forwarding port ${port} to pod ${pod.name}, uid ${pod.uid}: ${messageOf(error)}`;
  } finally {
    target?.destroy();
  }
}

/** A client that closes a connection in the middle has not failed. */
function isPrematureClose(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE';
}

async function forwardOverChannels(
  clock: Clock,
  socket: ChannelSocket,
  ports: readonly number[],
  pod: ForwardedPod,
  signal: AbortSignal,
): Promise<void> {
  const over = AbortSignal.any([signal, socket.gone]);
  setMaxListeners(0, over);
  const pairs = ports.map((port, index) => {
    const [data, error] = [2 * index, 2 * index + 1];
    const output = socket.output(data);
    output.on('error', () => {});
    return { port, data, error, input: socket.input(data), output };
  });
  await Promise.all(
    pairs.map(async ({ port, data, error, input, output }) => {
      const number = Buffer.alloc(2);
      number.writeUInt16LE(port);
      await socket.send(data, number);
      await socket.send(error, number);
      const failure = await forward(clock, { input, output }, port, pod, over);
      if (failure !== undefined) await socket.send(error, Buffer.from(failure));
    }),
  );
  await socket.close();
}
