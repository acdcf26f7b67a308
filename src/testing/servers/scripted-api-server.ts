/**
 * An API server that does what a test says, over real TLS connections: a test waits for the next request, looks at it and
 * answers as badly as it likes.
 *
 * ```ts
 * const server = await scriptedApiServer(t);
 * const list = await server.next();
 * list.answer(200, listOf('7', aConfigMap('web', '5')));
 * const watch = await server.next();
 * watch.event('MODIFIED', aConfigMap('web', '8'));
 * watch.write('{"type":"ADD'); // half a line
 * watch.drop();
 * ```
 */
import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import {
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
  constants,
  createSecureServer,
} from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import {
  issueClientCertificate,
  issueServerCertificate,
  makeAuthority,
} from '../../apiserver/identity/certificates.ts';
import type { Clock } from '../../base/clock.ts';
import { ApiClient, type ApiClientSettings, apiClientDefaults } from '../../client/api/api-client.ts';
import { type Credentials, anonymous } from '../../client/credentials/credentials.ts';
import { ConnectionPool, type PoolSettings, poolDefaults } from '../../client/transport/connection-pool.ts';
import type { TlsIdentity } from '../../client/transport/transport.ts';
import { FakeClock } from '../fakes/fake-clock.ts';

export interface ScriptedSettings {
  /** How many streams a connection may have. */
  readonly streamsMax?: number;
  readonly speaks?: 'h2' | 'http/1.1';
}

export interface ScriptedClient {
  readonly client: ApiClient;
  readonly pool: ConnectionPool;
  /** Of the connections and requests; a reflector in a test has its own. */
  readonly clock: FakeClock;
}

export interface ScriptedClientSettings {
  readonly api?: Partial<ApiClientSettings>;
  readonly pool?: Partial<PoolSettings>;
  readonly credentials?: Credentials;
  readonly proxy?: URL;
  readonly clock?: Clock;
}

interface Test {
  after(act: () => Promise<void>): void;
}

type Incoming = IncomingMessage | Http2ServerRequest;
type Outgoing = ServerResponse | Http2ServerResponse;

export async function scriptedApiServer(test: Test, settings: ScriptedSettings = {}): Promise<ScriptedApiServer> {
  const now = Date.now();
  const authority = makeAuthority({ now, days: 1 });
  const { certificatePem, keyPem } = issueServerCertificate(authority, { hosts: ['127.0.0.1'], now, days: 1 });
  const tls = {
    cert: certificatePem,
    key: keyPem,
    ca: authority.certificatePem,
    requestCert: true,
    rejectUnauthorized: false,
  };
  const http =
    settings.speaks === 'http/1.1'
      ? createHttpsServer(tls)
      : createSecureServer({ ...tls, settings: { maxConcurrentStreams: settings.streamsMax ?? 100 } });
  const sockets = new Set<Socket>();
  const sessions = new Set<ServerHttp2Session>();
  http.on('secureConnection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  const server = new ScriptedApiServer(sockets, () => authority.certificatePem);
  server.identity = (user) => issueClientCertificate(authority, { user, groups: [], now, days: 1 });
  http.on('request', (request: Incoming, response: Outgoing) => server.take(request, response));
  http.on('sessionError', () => {});
  http.on('session', (session: ServerHttp2Session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
  });
  server.allowStreams = (maxConcurrentStreams) => {
    for (const session of sessions) session.settings({ maxConcurrentStreams });
  };
  let port = 0;
  server.start = async () => {
    http.listen(port, '127.0.0.1');
    await once(http, 'listening');
    ({ port } = http.address() as AddressInfo);
  };
  await server.start();
  server.url = `https://127.0.0.1:${port}`;
  server.stop = async () => {
    if (!http.listening) return;
    const closed = once(http, 'close');
    http.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  test.after(() => server.close());
  return server;
}

export class ScriptedApiServer {
  url = '';
  /** Stops listening and drops every connection. */
  stop: () => Promise<void> = () => Promise.resolve();
  /** Listens again, at the same address. */
  start: () => Promise<void> = () => Promise.resolve();
  /** Changes the limit of the connections that are open. */
  allowStreams: (max: number) => void = () => {};
  /** A certificate that this server's authority signed. */
  identity: (user: string) => TlsIdentity = () => ({ certificatePem: '', keyPem: '' });
  readonly #sockets: ReadonlySet<Socket>;
  readonly #authorityPem: () => string;
  readonly #clients: ApiClient[] = [];
  readonly #unread: ScriptedRequest[] = [];
  readonly #readers: ((request: ScriptedRequest) => void)[] = [];

  constructor(sockets: ReadonlySet<Socket>, authorityPem: () => string) {
    this.#sockets = sockets;
    this.#authorityPem = authorityPem;
  }

  get connections(): number {
    return this.#sockets.size;
  }

  get authorityPem(): string {
    return this.#authorityPem();
  }

  /** The oldest request that no test has looked at. */
  next(): Promise<ScriptedRequest> {
    const request = this.#unread.shift();
    return request === undefined ? new Promise((resolve) => this.#readers.push(resolve)) : Promise.resolve(request);
  }

  get unread(): number {
    return this.#unread.length;
  }

  take(request: Incoming, response: Outgoing): void {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('error', () => {});
    response.on('error', () => {});
    request.on('end', () => {
      const scripted = new ScriptedRequest(request, response, Buffer.concat(chunks).toString());
      const reader = this.#readers.shift();
      if (reader === undefined) this.#unread.push(scripted);
      else reader(scripted);
    });
  }

  /** A client without a rate limit, on a clock of its own. */
  client({ api, pool, credentials = anonymous, proxy, clock: given }: ScriptedClientSettings = {}): ScriptedClient {
    const clock = new FakeClock();
    const { authorityPem } = this;
    const trust = (): Promise<{ authorityPem: string; isInsecure: false }> =>
      Promise.resolve({ authorityPem, isInsecure: false });
    const endpoint = { url: new URL(this.url), trust, proxy };
    const transport = new ConnectionPool(endpoint, given ?? clock, { ...poolDefaults, ...pool });
    const unlimited = { perSecond: Infinity, burst: 1 };
    const client = new ApiClient(
      { transport, credentials, clock: given ?? clock },
      { ...apiClientDefaults, rate: unlimited, watchRate: unlimited, ...api },
    );
    this.#clients.push(client);
    return { client, pool: transport, clock };
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()));
    await this.stop();
  }
}

export class ScriptedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly #request: Incoming;
  readonly #response: Outgoing;

  constructor(request: Incoming, response: Outgoing, body: string) {
    const url = new URL(request.url ?? '/', 'https://server');
    this.method = request.method ?? '';
    this.path = url.pathname;
    this.query = Object.fromEntries(url.searchParams);
    this.headers = request.headers;
    this.body = body;
    this.#request = request;
    this.#response = response;
  }

  /** Who opened the connection, by its certificate. */
  get user(): string | undefined {
    const { socket } = this.#request;
    const certificate = 'getPeerCertificate' in socket ? (socket as TlsPeer).getPeerCertificate() : undefined;
    return certificate?.subject?.CN;
  }

  /** Resolves when the client gave the request up, or the answer is over. */
  closed(): Promise<unknown> {
    return once(this.#response, 'close');
  }

  answer(code: number, json: unknown, headers: Readonly<Record<string, string>> = {}): void {
    this.#head(code, headers);
    this.#response.end(typeof json === 'string' ? json : JSON.stringify(json));
  }

  /** A Status, with its code as the answer's. */
  refuse(code: number, reason: string, message = reason, more: object = {}, headers = {}): void {
    this.answer(code, aStatus(code, reason, message, more), headers);
  }

  /** Begins the answer to a watch. */
  begin(): void {
    this.#head(200, {});
    if ('flushHeaders' in this.#response) this.#response.flushHeaders();
  }

  event(type: string, object: unknown): void {
    this.write(`${JSON.stringify({ type, object })}\n`);
  }

  write(text: string | Buffer): void {
    if (!this.#response.headersSent) this.begin();
    (this.#response as ServerResponse).write(text);
  }

  /** The clean end of a watch. */
  end(): void {
    if (!this.#response.headersSent) this.begin();
    this.#response.end();
  }

  /** Ends this stream with an error and leaves the connection. */
  reset(code: number = constants.NGHTTP2_INTERNAL_ERROR): void {
    if ('stream' in this.#response) this.#response.stream.close(code);
    else this.#response.destroy();
  }

  /** Cuts the connection, and all that is on it. */
  drop(): void {
    this.#session?.destroy();
    this.#request.socket.destroy();
  }

  /** Takes no more streams on this connection; those above `lastStream` were not looked at. */
  goAway(lastStream?: number): void {
    this.#session?.goaway(constants.NGHTTP2_NO_ERROR, lastStream);
  }

  get streamId(): number | undefined {
    return 'stream' in this.#request ? this.#request.stream.id : undefined;
  }

  get #session(): ServerHttp2Session | undefined {
    return 'stream' in this.#request ? (this.#request.stream.session as ServerHttp2Session | undefined) : undefined;
  }

  #head(code: number, headers: Readonly<Record<string, string>>): void {
    (this.#response as ServerResponse).writeHead(code, { 'content-type': 'application/json', ...headers });
  }
}

interface TlsPeer {
  getPeerCertificate(): { readonly subject?: { readonly CN?: string } };
}

export function aStatus(code: number, reason: string, message = reason, more: object = {}): object {
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, code, ...more };
}

export function versionedConfigMap(
  name: string,
  resourceVersion: string,
  data: Readonly<Record<string, string>> = {},
): object {
  const metadata = { name, namespace: 'shop', uid: `uid-${name}`, resourceVersion };
  return { kind: 'ConfigMap', apiVersion: 'v1', metadata, data };
}

export function listOf(resourceVersion: string, ...items: readonly object[]): object {
  return { kind: 'ConfigMapList', apiVersion: 'v1', metadata: { resourceVersion }, items };
}

/** Of ConfigMaps; with `isEnd` it ends the initial events. */
export function bookmark(resourceVersion: string, isEnd: boolean | string = false): object {
  const annotations = isEnd === false ? {} : { 'k8s.io/initial-events-end': isEnd === true ? 'true' : isEnd };
  return { kind: 'ConfigMap', apiVersion: 'v1', metadata: { resourceVersion, creationTimestamp: null, annotations } };
}
