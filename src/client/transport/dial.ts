/**
 * Opens a connection to the API server: TCP, a proxy's tunnel where there is one, TLS, and the protocol both sides speak. What is
 * then said over it is not known here.
 */
import { ClientError } from './transport.ts';
import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { BlockList, type Socket, connect as connectTcp, isIP } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { onAbort } from '../../base/abort.ts';
import { ConnectionFailedError, type TlsIdentity } from './transport.ts';

/** Whom we trust to be the server. */
export interface Trust {
  /** In PEM; absent means the authorities this machine trusts. */
  readonly authorityPem?: string | undefined;
  readonly isInsecure: boolean;
  /** The name its certificate must have, where that is not the host's. */
  readonly serverName?: string | undefined;
}

export interface Endpoint {
  /** May have a path, below which the API is: some clusters are reached through a server of many. */
  readonly url: URL;
  /** Asked at each connection, because the file it comes from may have been replaced. */
  readonly trust: (signal: AbortSignal) => Promise<Trust>;
  /** `http:` or `https:`, reached by CONNECT. */
  readonly proxy?: URL | undefined;
}

export type Protocol = 'h2' | 'http/1.1';

export interface Dialled {
  readonly socket: Socket;
  readonly protocol: Protocol;
}

// A half-open peer behind HTTP/1.1, which has no ping, is noticed by the kernel.
const keepAliveMs = 30_000;

/** Rejects with a ConnectionFailedError, or with the signal's reason. */
export async function dial(
  endpoint: Endpoint,
  identity: TlsIdentity | undefined,
  protocols: readonly Protocol[],
  signal: AbortSignal,
): Promise<Dialled> {
  signal.throwIfAborted();
  const { url, proxy } = endpoint;
  const isSecure = url.protocol === 'https:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port === '' ? (isSecure ? 443 : 80) : Number(url.port);
  try {
    const trust = isSecure ? await endpoint.trust(signal) : undefined;
    signal.throwIfAborted();
    const tcp = await (proxy === undefined ? reach(host, port, signal) : tunnel(proxy, url.hostname, port, signal));
    tcp.setNoDelay(true);
    tcp.setKeepAlive(true, keepAliveMs);
    if (trust === undefined) return { socket: tcp, protocol: 'http/1.1' };
    const serverName = trust.serverName ?? host;
    const socket = connectTls({
      socket: tcp,
      // An address is not a server name; sending one violates the protocol.
      ...(isIP(serverName) === 0 && { servername: serverName }),
      host: serverName,
      ALPNProtocols: [...protocols],
      minVersion: 'TLSv1.2',
      rejectUnauthorized: !trust.isInsecure,
      ...(trust.authorityPem !== undefined && { ca: trust.authorityPem }),
      ...(identity !== undefined && { cert: identity.certificatePem, key: identity.keyPem }),
    });
    await opened(socket, 'secureConnect', signal);
    return { socket, protocol: socket.alpnProtocol === 'h2' ? 'h2' : 'http/1.1' };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw new ConnectionFailedError(url.origin, error);
  }
}

async function reach(host: string, port: number, signal: AbortSignal): Promise<Socket> {
  const socket = connectTcp({ host, port });
  await opened(socket, 'connect', signal);
  return socket;
}

/** Resolves at `event`; a socket that fails, closes or is no longer wanted is destroyed. */
function opened(socket: Socket, event: 'connect' | 'secureConnect', signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void): void => {
      stopListening();
      socket.off('close', onClose);
      act();
    };
    const onClose = (): void => settle(() => reject(failure ?? new Error('the connection was closed')));
    let failure: unknown;
    // Stays: an error after this reaches the user of the socket by 'close'.
    socket.on('error', (error) => (failure = error));
    socket.once('close', onClose);
    socket.once(event, () => settle(resolve));
    const stopListening = onAbort(signal, () => socket.destroy());
    if (signal.aborted) socket.destroy();
  });
}

function tunnel(proxy: URL, host: string, port: number, signal: AbortSignal): Promise<Socket> {
  const target = `${host}:${port}`;
  const credentials = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  const request = (proxy.protocol === 'https:' ? requestHttps : requestHttp)({
    host: proxy.hostname.replace(/^\[|\]$/g, ''),
    port: proxy.port === '' ? (proxy.protocol === 'https:' ? 443 : 80) : Number(proxy.port),
    method: 'CONNECT',
    path: target,
    agent: false,
    headers: {
      host: target,
      ...(credentials !== ':' && { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` }),
    },
  });
  return new Promise((resolve, reject) => {
    const settle = (act: () => void): void => {
      // Not by the request's own `signal`: that would end the tunnel with it later.
      stopListening();
      act();
    };
    const refuse = (problem: string, cause?: unknown): void =>
      settle(() => reject(new Error(`the proxy "${proxy.host}" ${problem}`, { cause })));
    const stopListening = onAbort(signal, () => request.destroy());
    request.once('connect', ({ statusCode = 0 }, socket: Socket, rest: Buffer) => {
      const isOpen = statusCode >= 200 && statusCode < 300;
      if (isOpen && rest.length === 0) return settle(() => resolve(socket));
      socket.destroy();
      // A server waits for us to speak first; what is in the tunnel before that is not from one.
      refuse(isOpen ? 'sent something of its own through the tunnel' : `answered ${statusCode}`);
    });
    request.once('response', ({ statusCode }) => {
      request.destroy();
      refuse(`answered ${statusCode}`);
    });
    request.once('error', (error) => refuse(`failed: ${error.message}`, error));
    request.end();
  });
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The proxy that the environment names (HTTPS_PROXY, HTTP_PROXY, NO_PROXY), by the rules of Go's programs, kubectl among them. A
 * kubeconfig's own `proxy-url` comes before it. No value is ever in an error: it may have a password in it.
 * Undefined when the server is reached directly, as one on this machine always is.
 */
export function environmentProxy(env: Environment, server: URL): URL | undefined {
  const variable = server.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  const text = valueOf(env, variable);
  if (text === '' || isLoopback(server) || isExempt(server, valueOf(env, 'NO_PROXY'))) return undefined;
  const whole = text.includes('://') ? text : `http://${text}`;
  const proxy = URL.canParse(whole) ? new URL(whole) : undefined;
  if (proxy?.protocol === 'http:' || proxy?.protocol === 'https:') return proxy;
  throw new ClientError(
    'InvalidProxy',
    `Cannot use the proxy of ${variable}: give a URL such as http://proxy:3128; only http and https are supported`,
  );
}

function valueOf(env: Environment, name: string): string {
  return (env[name] || env[name.toLowerCase()] || '').trim();
}

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
}

function isLoopback(server: URL): boolean {
  const host = hostOf(server);
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

function isExempt(server: URL, list: string): boolean {
  const host = hostOf(server);
  const port = server.port || (server.protocol === 'https:' ? '443' : '80');
  return list
    .split(',')
    .map((entry) => entry.trim().toLowerCase())
    .some((entry) => entry === '*' || (entry !== '' && matches(entry, host, port)));
}

/** An address, a range of them, a domain with all below it, or with a dot in front only what is below; each with or without a port. */
function matches(entry: string, host: string, port: string): boolean {
  const range = /^(.+)\/(\d{1,3})$/.exec(entry);
  if (range !== null) return isInRange(host, range[1] ?? '', Number(range[2]));
  if (isIP(entry) !== 0) return host === entry;
  const [, name = '', wantedPort = port] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(entry) ?? [];
  if (wantedPort !== port) return false;
  const wanted = name.replace(/^\[|\]$/g, '').replace(/^\*\./, '.');
  return wanted.startsWith('.') ? host.endsWith(wanted) : host === wanted || host.endsWith(`.${wanted}`);
}

function isInRange(host: string, network: string, bits: number): boolean {
  const version = isIP(network);
  if (version === 0 || isIP(host) !== version || bits > (version === 4 ? 32 : 128)) return false;
  const family = version === 4 ? 'ipv4' : 'ipv6';
  const list = new BlockList();
  list.addSubnet(network, bits, family);
  return list.check(host, family);
}
