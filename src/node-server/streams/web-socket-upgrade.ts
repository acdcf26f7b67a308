/** Turns a request over HTTP/1.1 into a WebSocket. */
import type { WebSocket } from 'ws';
import { WebSocketServer } from 'ws';
import { MountletError } from '../../base/errors.ts';
import { RequestRefused } from '../request-refused.ts';
import { agreeOn, listOf } from './protocols.ts';
import type { Upgrade } from './spdy-upgrade.ts';

// Clients send what they read at once, some tens of KiB; one message is held in memory as a whole.
const messageBytesMax = 4 * 1024 * 1024;

class WebSocketFailed extends MountletError {
  readonly reason = 'WebSocketFailed';
}

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

/** Answers 101; a request that is no proper WebSocket is refused by itself. */
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
    const onClose = (): void => reject(new WebSocketFailed('the request is no proper WebSocket'));
    socket.once('close', onClose);
    server.handleUpgrade(request, socket, head, (webSocket) => {
      socket.off('close', onClose);
      resolve(webSocket);
    });
  });
}
