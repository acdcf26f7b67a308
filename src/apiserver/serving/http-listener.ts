/**
 * One port for HTTP/2 and HTTP/1.1: ALPN decides which of the two a connection speaks. Without TLS it is HTTP/1.1 only.
 * It knows nothing of the API; every request becomes an Exchange.
 */
import { once } from 'node:events';
import { type Server, ServerResponse, createServer as createHttp1 } from 'node:http';
import {
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  createServer as createHttp2,
} from 'node:http2';
import type { AddressInfo, Server as NetServer, Socket } from 'node:net';
import { createServer as createTls } from 'node:tls';
import { Connections, connectionPlaces } from '../../base/connections.ts';
import { errorCode, messageOf, OperatingError } from '../../base/errors.ts';
import type { PeerIdentity } from '../identity/authentication.ts';
import { type Exchange, peerOf } from '../rest/api-request.ts';
import { Http1Exchange, Http2Exchange } from './http-exchange.ts';

interface ListenerSettings {
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
  /** Absent: plain HTTP. kubectl sends no credentials over that. */
  readonly tls: TlsSettings | undefined;
}

export interface TlsSettings {
  readonly certificate: string;
  readonly key: string;
  /** Signs the certificates that clients may show. */
  readonly clientCa: string | undefined;
}

interface HttpListener {
  readonly address: AddressInfo;
  /** Takes no more connections, lets open answers finish and then closes; after `graceMs` it closes regardless. */
  close(graceMs: number): Promise<void>;
}

/** `trust` marks the client as authenticated. False when the server has no place for it. */
type HandleExchange = (exchange: Exchange, trust: () => boolean) => void;

const listenFailures: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program listens there; end it, or choose another port',
  EADDRNOTAVAIL: 'this machine does not have that address; choose one that it has, such as 127.0.0.1',
  EACCES: 'that needs privileges; choose a port from 1024 on',
  ENOTFOUND: 'no such host is known; give an address, such as 127.0.0.1',
};

// A quarter of the descriptors of the process; the rest is for the store and for a node in the same process.
const descriptorShare = 1 / 4;
// A thousand nodes and as many other clients; the server is not meant for more.
const connectionsMax = 4_096;
// A peer that has not finished by then is not a client.
const handshakeMs = 32_000;
// Pooled Go clients keep an idle connection for 90 s; a server that closes it first makes their next request fail.
const keepAliveMs = 95_000;
const headersMs = 96_000;
const requestMs = 120_000;
const headerBytesMax = 1024 * 1024;
// A limit of Node's own: a client that is told keeps to it, and one that does not has its stream refused, again and again.
const streamHeaderBytesMax = 64 * 1024;
// client-go puts all its watches on one connection; a node watches each object it mounts.
const streamsMax = 1000;
// What a session may hold in memory, in MB; the default of 10 is one large list.
const sessionMemoryMax = 256;

export async function startHttpListener(settings: ListenerSettings, handle: HandleExchange): Promise<HttpListener> {
  const connections = new Connections(connectionPlaces(descriptorShare, connectionsMax));
  const serve = (exchange: Exchange, socket: Socket): void => {
    exchange.onClose(connections.begin(socket));
    handle(exchange, () => connections.trust(socket));
  };
  const sockets = new Set<Socket>();
  const sessions = new Set<ServerHttp2Session>();
  const peers = new Peers();
  const http1 = createHttp1Server(peers, serve);
  const http2 = createHttp2({
    settings: { maxConcurrentStreams: streamsMax, maxHeaderListSize: streamHeaderBytesMax },
    maxSessionMemory: sessionMemoryMax,
  });
  // The types of Node leave out the last one.
  const onStream = (
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    _flags: number,
    rawHeaders: readonly string[] = [],
  ): void => {
    const { session } = stream;
    if (session === undefined) return;
    serve(new Http2Exchange(stream, headers, rawHeaders, peers.of(session, session.socket)), session.socket);
  };
  http2.on('stream', onStream);
  http2.on('sessionError', () => {});
  http2.on('session', (session) => {
    sessions.add(session);
    session.on('error', () => {});
    session.on('close', () => sessions.delete(session));
  });

  const server = settings.tls === undefined ? http1 : tlsServer(settings.tls, http1, http2);
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    connections.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(settings.port, settings.host);
  try {
    await once(server, 'listening');
  } catch (thrown) {
    const { host, port } = settings;
    const why = listenFailures[errorCode(thrown) ?? ''] ?? messageOf(thrown);
    const text = `Cannot listen on ${host.includes(':') ? `[${host}]` : host}:${port}: ${why}`;
    throw new OperatingError('CannotListen', text, { cause: thrown });
  }
  // Starts the clock that ends connections which never finish their headers; it would else start with its own `listen`.
  if (server !== http1) http1.emit('listening');

  return {
    address: server.address() as AddressInfo,
    async close(graceMs) {
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      for (const session of sessions) session.close();
      http1.closeIdleConnections();
      const timer = setTimeout(() => sockets.forEach((socket) => socket.destroy()), graceMs);
      await closed;
      clearTimeout(timer);
      if (server !== http1) http1.close();
    },
  };
}

/** The peer of each connection, read from its certificate once and not with every request. */
class Peers {
  readonly #known = new WeakMap<object, { readonly peer: PeerIdentity | undefined }>();

  of(connection: object, socket: unknown): PeerIdentity | undefined {
    let known = this.#known.get(connection);
    if (known === undefined) this.#known.set(connection, (known = { peer: peerOf(socket) }));
    return known.peer;
  }
}

const malformed = 'HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n';
const tooLargeText = `the address and the headers of a request may not have more than ${headerBytesMax} bytes`;
const tooLarge =
  'HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-type: text/plain\r\n' +
  `content-length: ${tooLargeText.length}\r\n\r\n${tooLargeText}`;

function createHttp1Server(peers: Peers, serve: (exchange: Exchange, socket: Socket) => void): Server {
  const server = createHttp1({
    keepAliveTimeout: keepAliveMs,
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    maxHeaderSize: headerBytesMax,
  });
  server.on('request', (request, response) => {
    serve(new Http1Exchange(request, response, peers.of(request.socket, request.socket)), request.socket);
  });
  server.on('upgrade', (request, socket, head) => {
    // An upgrade may be refused like any request; for that it needs a response on the bare connection.
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as Socket);
    response.on('finish', () => (socket as Socket).destroySoon());
    serve(new Http1Exchange(request, response, peers.of(request.socket, request.socket), head), request.socket);
  });
  server.on('clientError', (error, socket) => {
    if (socket.writable) socket.end(errorCode(error) === 'HPE_HEADER_OVERFLOW' ? tooLarge : malformed);
    else socket.destroy();
  });
  return server;
}

function tlsServer(tls: TlsSettings, http1: Server, http2: NetServer): NetServer {
  const server = createTls({
    cert: tls.certificate,
    key: tls.key,
    minVersion: 'TLSv1.2',
    handshakeTimeout: handshakeMs,
    ALPNProtocols: ['h2', 'http/1.1'],
    ...(tls.clientCa !== undefined && { ca: tls.clientCa, requestCert: true, rejectUnauthorized: false }),
  });
  server.on('secureConnection', (socket) => {
    socket.on('error', () => {});
    (socket.alpnProtocol === 'h2' ? http2 : http1).emit('connection', socket);
  });
  server.on('tlsClientError', () => {});
  return server;
}
