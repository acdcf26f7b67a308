/** One HTTP request to a pod, for probes and hooks: certificates are not verified, since pods sign their own. */
import { type IncomingMessage, request as startRequest } from 'node:http';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { onAbort } from '../../base/abort.ts';
import { MountletError } from '../../base/errors.ts';
import type { Probe } from '../../kube/kinds/pod/container.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';

export interface PodAddress {
  /** The pod's, unless the probe or hook names another; this machine's own where neither is known. */
  readonly host: string;
  readonly port: number;
}

/** How the node connects to a pod. */
export interface PodNetwork {
  /** Rejects with the system's error when nothing listens. */
  connect(address: PodAddress, signal: AbortSignal): Promise<Duplex>;
}

/** `10.0.0.7:80`, `[::1]:80`. */
export function hostAndPort({ host, port }: PodAddress): string {
  return `${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${port}`;
}

/** A probe or a hook names a port by number, or by the name of one of the container's ports. */
export function containerPort(port: string | number, { ports = [] }: AnyContainer): number {
  const named = typeof port === 'string' ? ports.find(({ name }) => name === port)?.containerPort : port;
  const number = named ?? (/^\d+$/.test(String(port)) ? Number(port) : undefined);
  if (number === undefined) throw new HandlerError(`couldn't find port: ${port}`);
  if (number <= 0 || number > 65_535) throw new HandlerError(`invalid port number: ${number}`);
  return number;
}

/** A probe or a hook cannot be carried out as it is written, or its server refuses it. */
export class HandlerError extends MountletError {
  readonly reason = 'HandlerFailed';
}

export interface HttpExchange extends PodAddress {
  readonly scheme: 'http' | 'https';
  readonly path: string;
  readonly headers: readonly { readonly name: string; readonly value: string }[];
}

interface HttpAnswer {
  readonly statusCode: number;
  readonly location: string | undefined;
  /** Its first 10 KiB. */
  readonly body: string;
}

/** The request of a probe or a hook. */
export function httpExchange(
  { container, podIp }: { readonly container: AnyContainer; readonly podIp: string },
  { host = '', path = '', port = 0, scheme = 'HTTP', httpHeaders = [] }: Partial<NonNullable<Probe['httpGet']>>,
): HttpExchange {
  return {
    host: host || podIp || 'localhost',
    port: containerPort(port, container),
    scheme: scheme.toUpperCase() === 'HTTPS' ? 'https' : 'http',
    path: path.startsWith('/') ? path : `/${path}`,
    headers: httpHeaders,
  };
}

const bodyBytesMax = 10 * 1024;

export async function exchangeHttp(
  exchange: HttpExchange,
  network: PodNetwork,
  userAgent: string,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const plain = await network.connect(exchange, signal);
  const stopListening = onAbort(signal, () => void plain.destroy());
  try {
    const socket = exchange.scheme === 'https' ? await secured(plain, exchange.host) : plain;
    return await answerOf(socket, exchange, userAgent, signal);
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    stopListening();
    plain.destroy();
  }
}

function secured(plain: Duplex, servername: string): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const options = /[^\d.:[\]]/.test(servername) ? { servername: servername.replace(/:\d+$/, '') } : {};
    const socket = connectTls({ socket: plain, rejectUnauthorized: false, ...options }, () => resolve(socket));
    socket.on('error', reject);
    // Of a connection that is ended on this side it has no error to tell.
    plain.once('close', () => reject(new HandlerError('the connection was closed before it was secured')));
  });
}

function answerOf(
  socket: Duplex,
  { path, headers, ...address }: HttpExchange,
  userAgent: string,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const given = Object.fromEntries(headers.map(({ name, value }) => [name.toLowerCase(), value]));
  const host = hostAndPort(address);
  const all = { 'user-agent': userAgent, accept: '*/*', host, connection: 'close', ...given };
  return new Promise((resolve, reject) => {
    const request = startRequest({ createConnection: () => socket, method: 'GET', path, headers: all, signal });
    request.on('error', reject);
    request.once('response', (response) => {
      readBody(response).then(
        (body) => resolve({ statusCode: response.statusCode ?? 0, location: response.headers.location, body }),
        reject,
      );
    });
    request.end();
  });
}

async function readBody(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response) {
    chunks.push(chunk as Buffer);
    size += (chunk as Buffer).length;
    if (size >= bodyBytesMax) break;
  }
  return Buffer.concat(chunks).subarray(0, bodyBytesMax).toString('utf8');
}
