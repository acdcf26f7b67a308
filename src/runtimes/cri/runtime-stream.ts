/**
 * The way to a runtime's streaming server: it gives a URL for every command and port, and speaks SPDY there after an upgrade. The
 * URL comes from the runtime and is not trusted to lead elsewhere than to this machine.
 */
import { type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http';
import { isIPv4 } from 'node:net';
import type { Duplex, Readable } from 'node:stream';
import { onAbort, withDeadline } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { SpdyConnection } from '../../spdy/spdy-connection.ts';
import type { SpdyStream } from '../../spdy/spdy-stream.ts';
import { RuntimeError } from '../runtime.ts';

/** How long the server may take to open the streams that it was asked for. */
const openingMsMax = 30_000;
const urlCharactersMax = 4_096;
const headerBytesMax = 16 * 1024;
/** Of what a server says when it refuses, and of a status. */
const textBytesMax = 16 * 1024;

interface RuntimeStreams {
  /** In the order in which they were asked for. */
  readonly streams: readonly SpdyStream[];
  /** Ends the connection, and with it what is still open. */
  close(): Promise<void>;
}

/** One stream for each of `headers`. Aborting the signal ends the connection, also later. */
export async function openRuntimeStreams(
  clock: Clock,
  { url, protocol, headers }: { readonly url: string; readonly protocol: string; readonly headers: readonly Headers[] },
  signal: AbortSignal,
): Promise<RuntimeStreams> {
  const target = localUrl(url);
  const late = (): Error => new RuntimeError("The container runtime's streaming server does not answer");
  return await withDeadline(clock, openingMsMax, late, signal, async (limited) => {
    const connection = new SpdyConnection(await upgrade(target, protocol, limited));
    const closed = connection.run();
    const stopListening = onAbort(signal, () => connection.destroy());
    const close = async (): Promise<void> => {
      stopListening();
      connection.destroy();
      await closed;
    };
    const stopWaiting = onAbort(limited, () => connection.destroy());
    try {
      const streams = await Promise.all(headers.map((one) => connection.open(new Map(Object.entries(one)))));
      stopWaiting();
      return { streams, close };
    } catch (thrown) {
      await close();
      limited.throwIfAborted();
      throw new RuntimeError("The container runtime's streaming server has closed the connection", { cause: thrown });
    }
  });
}

type Headers = Readonly<Record<string, string>>;

function localUrl(text: string): URL {
  const url = text.length <= urlCharactersMax && URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'http:' && isLoopback(url.hostname) && url.username === '') return url;
  throw new RuntimeError(
    `Cannot use the streaming server that the container runtime names: it must be http:// on a loopback address of this machine (containerd: stream_server_address = "127.0.0.1")`,
  );
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || (isIPv4(host) && host.startsWith('127.'));
}

function upgrade(url: URL, protocol: string, signal: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const request: ClientRequest = httpRequest(url, {
      method: 'POST',
      agent: false,
      maxHeaderSize: headerBytesMax,
      headers: { Connection: 'Upgrade', Upgrade: 'SPDY/3.1', 'X-Stream-Protocol-Version': protocol },
    });
    const stopListening = onAbort(signal, () => request.destroy());
    const fail = (error: Error): void => {
      stopListening();
      request.destroy();
      reject(signal.aborted ? (signal.reason as Error) : error);
    };
    request.on('error', (cause) => fail(unreachable(cause)));
    request.on('response', (response) => void refusal(response).then(fail, fail));
    request.on('upgrade', (response: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.on('error', () => {});
      if (response.headers['x-stream-protocol-version'] !== protocol)
        return fail(new RuntimeError(`The container runtime's streaming server does not speak ${protocol}`));
      stopListening();
      if (head.length > 0) socket.unshift(head);
      resolve(socket);
    });
    request.end();
  });
}

function unreachable(cause: Error): RuntimeError {
  return new RuntimeError(`Cannot reach the container runtime's streaming server: ${cause.message}`, { cause });
}

async function refusal(response: IncomingMessage): Promise<RuntimeError> {
  const text = (await textOf(response)).trim();
  return new RuntimeError(`The container runtime's streaming server answered ${response.statusCode}: ${text}`);
}

/** All of a short text; the rest of a long one is dropped. */
export async function textOf(stream: Readable): Promise<string> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of stream as AsyncIterable<Buffer>) {
    if (size < textBytesMax) pieces.push(piece.subarray(0, textBytesMax - size));
    size += piece.length;
  }
  return Buffer.concat(pieces).toString('utf8');
}
