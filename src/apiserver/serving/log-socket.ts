/** Logs over a WebSocket, as API servers send them: every piece is a message, of bytes or of base64 text. Nothing is read. */
import type { IncomingMessage } from 'node:http';
import { type WebSocket, WebSocketServer } from 'ws';
import { onAbort } from '../../base/abort.ts';
import { StatusError, badRequest } from '../model/status.ts';
import type { Exchange } from '../rest/api-request.ts';

const protocols = ['binary.k8s.io', 'base64.binary.k8s.io'];
const handshakeHeaders = ['connection', 'upgrade', 'sec-websocket-key', 'sec-websocket-version'];

export function asksForWebSocket(exchange: Exchange): boolean {
  return exchange.upgrade !== undefined && (exchange.header('upgrade') ?? '').toLowerCase() === 'websocket';
}

/** A client that offers no protocol gets bytes. */
function agreedProtocol(exchange: Exchange): string {
  const offered = (exchange.header('sec-websocket-protocol') ?? '').split(',').flatMap((name) => name.trim() || []);
  const found = offered.find((name) => protocols.includes(name));
  if (found === undefined && offered.length > 0) {
    const text = `requested protocol(s) are not supported: [${offered.join(' ')}]; supports [${protocols.join(' ')}]`;
    throw new StatusError(403, 'Forbidden', text);
  }
  return found ?? '';
}

/** Resolves when all was sent and the socket is closed, or the client has left. */
export async function sendLog(log: AsyncIterable<Buffer>, exchange: Exchange, signal: AbortSignal): Promise<void> {
  const protocol = agreedProtocol(exchange);
  const socket = await openSocket(exchange, protocol);
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  const stopListening = onAbort(signal, () => socket.terminate());
  const send = (bytes: Buffer): Promise<void> =>
    new Promise((resolve, reject) => {
      const done = (error?: Error | null): void => (error ? reject(error) : resolve());
      if (protocol === 'base64.binary.k8s.io') socket.send(bytes.toString('base64'), done);
      else socket.send(bytes, { binary: true }, done);
    });
  try {
    // Clients wait for a first message, as the sign that the log could be opened.
    await send(Buffer.alloc(0));
    for await (const bytes of log) await send(bytes);
    socket.close(1000);
  } catch {
    // The client has left, or the node broke off: it must not take what it has for all there is.
    socket.terminate();
  }
  await closed;
  stopListening();
}

function openSocket(exchange: Exchange, protocol: string): Promise<WebSocket> {
  const { upgrade } = exchange;
  if (upgrade === undefined) throw badRequest('Upgrade request required');
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: 1024,
  });
  if (protocol !== '') server.on('headers', (lines) => void lines.push(`Sec-WebSocket-Protocol: ${protocol}`));
  const headers = Object.fromEntries(handshakeHeaders.map((name) => [name, exchange.header(name)]));
  const request = { method: exchange.method, headers } as Partial<IncomingMessage> as IncomingMessage;
  return new Promise((resolve, reject) => {
    const { socket, head } = upgrade;
    const onClose = (): void => reject(badRequest('the request is no proper WebSocket'));
    socket.once('close', onClose);
    server.handleUpgrade(request, socket, head, (opened) => {
      socket.off('close', onClose);
      opened.on('error', () => {});
      resolve(opened);
    });
  });
}
