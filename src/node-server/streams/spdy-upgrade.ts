/** Turns a request over HTTP/1.1 into a SPDY connection. */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { RequestRefused } from '../request-refused.ts';
import { agreeOn, listOf } from './protocols.ts';

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
