/**
 * The server that every node has: API servers reach through it for logs, commands and ports of its pods. It speaks as the
 * kubelet does, over TLS and HTTP/1.1. It decides nothing about pods and runs nothing itself.
 */
import { once, setMaxListeners } from 'node:events';
import { type Server, createServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import { Connections, connectionPlaces } from '../base/connections.ts';
import { messageOf, OperatingError } from '../base/errors.ts';
import { NodeHandler, type NodeServerDeps } from './node-handler.ts';
import { type StreamLimits } from './streams/protocols.ts';

export interface NodeServerSettings {
  readonly host: string;
  /** 10250 is the kubelet's; 0 takes any free one. */
  readonly port: number;
  readonly certificatePem: string;
  readonly keyPem: string;
  /** Signs the certificates that clients may show. */
  readonly clientAuthorityPem: string;
  readonly limits: StreamLimits;
  readonly minVersion: 'TLSv1' | 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3';
  /** As OpenSSL names them; undefined: the usual ones. */
  readonly ciphers: string | undefined;
}

export interface NodeServer {
  readonly address: AddressInfo;
  /** For connections from now on. */
  showCertificate(certificate: Pick<NodeServerSettings, 'certificatePem' | 'keyPem'>): void;
  /** Ends every session. What runs in containers goes on. */
  close(): Promise<void>;
}

// An eighth of the descriptors of the process; the node needs its own for volumes, containers and logs.
const descriptorShare = 1 / 8;
// A command, a port or a log that is followed takes one; far more than a node's pods are asked for.
const connectionsMax = 1_024;

// A command stands in the address: as much as a program may be given on Linux, and as the API server takes.
const headerBytesMax = 1024 * 1024;

export async function startNodeServer(settings: NodeServerSettings, deps: NodeServerDeps): Promise<NodeServer> {
  const stop = new AbortController();
  // One for every request under way.
  setMaxListeners(0, stop.signal);
  const sockets = new Set<Socket>();
  const answers = new Set<Promise<void>>();
  const connections = new Connections(connectionPlaces(descriptorShare, connectionsMax));
  const handler = new NodeHandler(settings.limits, deps, connections, stop.signal);
  const server: Server = createServer({
    ...secureContext(settings, settings),
    requestCert: true,
    rejectUnauthorized: false,
    maxHeaderSize: headerBytesMax,
    ALPNProtocols: ['http/1.1'],
  });
  const track = (answer: Promise<void>): void => {
    const tracked = answer.finally(() => answers.delete(tracked));
    answers.add(tracked);
  };
  server.on('request', (request, response) => track(handler.answer(request, response)));
  server.on('upgrade', (request, socket, head) => track(handler.upgrade(request, socket, head)));
  server.on('secureConnection', (socket) => socket.on('error', () => {}));
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    connections.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  server.on('tlsClientError', () => {});
  server.listen(settings.port, settings.host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const { host, port } = settings;
    throw new OperatingError(
      'CannotListen',
      `Cannot listen on ${host}:${port} for requests to this node: ${messageOf(error)}`,
      { cause: error },
    );
  }
  // Accepting fails when there are no descriptors left, and goes on when there are.
  server.on('error', (error) => deps.notify({ kind: 'NodeRequestFailed', path: '', error }));
  return {
    address: server.address() as AddressInfo,
    showCertificate: (certificate) => server.setSecureContext(secureContext(settings, certificate)),
    async close() {
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      stop.abort(new Error('the node is stopping'));
      for (const socket of sockets) socket.destroy();
      await closed;
      await Promise.all(answers);
    },
  };
}

function secureContext(
  { clientAuthorityPem, minVersion, ciphers }: NodeServerSettings,
  { certificatePem, keyPem }: Pick<NodeServerSettings, 'certificatePem' | 'keyPem'>,
): SecureContextOptions {
  return {
    cert: certificatePem,
    key: keyPem,
    ca: clientAuthorityPem,
    minVersion,
    ...(ciphers !== undefined && { ciphers }),
  };
}
