/** Turns a request over HTTP/1.1 into a SPDY connection. */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { OperatingError } from '../../base/errors.ts';
import { RequestRefused, agreeOn, listOf } from './protocols.ts';

export interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  /** What was read beyond the request. */
  readonly head: Buffer;
}

/** The protocol that both know. Nothing is sent yet, so that the request can still be refused. */
export function agreeOnSpdy({ request }: Pick<Upgrade, 'request'>, known: readonly string[]): string {
  const header = 'x-stream-protocol-version';
  const value = request.headers[header];
  if (!/spdy\/3\.1/i.test(request.headers.upgrade ?? ''))
    throw new RequestRefused(400, 'unable to upgrade: missing upgrade headers in request');
  const offered = listOf(Array.isArray(value) ? value.join(',') : value);
  if (offered.length === 0)
    throw new RequestRefused(400, 'unable to upgrade: header X-Stream-Protocol-Version does not exist in request');
  const protocol = agreeOn(offered, known);
  if (protocol !== undefined) return protocol;
  const message = `unable to upgrade: unable to negotiate protocol: client supports [${offered.join(' ')}], server accepts [${known.join(' ')}]`;
  throw new RequestRefused(403, message, { 'X-Accepted-Stream-Protocol-Versions': known.join(', ') });
}

/** Answers 101; from here on the socket speaks SPDY. */
export function upgradeToSpdy({ socket, head }: Upgrade, protocol: string): Duplex {
  socket.write(
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n' +
      `X-Stream-Protocol-Version: ${protocol}\r\n\r\n`,
  );
  if (head.length > 0) socket.unshift(head);
  return socket;
}

/** Turns a request over HTTP/1.1 into a WebSocket. */
// Clients send what they read at once, some tens of KiB; one message is held in memory as a whole.
const messageBytesMax = 4 * 1024 * 1024;

export function isWebSocket({ request }: Pick<Upgrade, 'request'>): boolean {
  return (request.headers.upgrade ?? '').toLowerCase() === 'websocket';
}

/** The protocol that both know; empty when the client offers none and that is known. */
export function agreeOnWebSocket({ request }: Pick<Upgrade, 'request'>, known: readonly string[]): string {
  const offered = offeredProtocols(request);
  const protocol = agreeOn(offered.length === 0 ? [''] : offered, known);
  if (protocol !== undefined) return protocol;
  throw new RequestRefused(
    403,
    `requested protocol(s) are not supported: [${offered.join(' ')}]; supports [${known.filter((name) => name !== '').join(' ')}]`,
  );
}

export function offeredProtocols(request: Upgrade['request']): string[] {
  return listOf(request.headers['sec-websocket-protocol']);
}

/** Answers 101; a request that is not a valid WebSocket handshake is refused by the library. */
export function upgradeToWebSocket({ request, socket, head }: Upgrade, protocol: string): Promise<WebSocket> {
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: messageBytesMax,
  });
  // Told here and not to `ws`, which takes `SPDY/3.1+portforward.k8s.io` for no proper name: it holds a slash.
  const { 'sec-websocket-protocol': _, ...headers } = request.headers;
  request.headers = headers;
  if (protocol !== '') server.on('headers', (lines) => void lines.push(`Sec-WebSocket-Protocol: ${protocol}`));
  return new Promise((resolve, reject) => {
    const onClose = (): void => reject(new OperatingError('WebSocketFailed', 'the request is no proper WebSocket'));
    socket.once('close', onClose);
    server.handleUpgrade(request, socket, head, (webSocket) => {
      socket.off('close', onClose);
      resolve(webSocket);
    });
  });
}
