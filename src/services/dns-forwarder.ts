/** Questions about other names, passed on to the servers of this machine, and their answers back. */
import { createSocket } from 'node:dgram';
import { connect, isIP } from 'node:net';
import { onAbort, withDeadline } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';
import { OperatingError } from '../base/errors.ts';
import { isReplyTo } from './dns-message.ts';
import { framed, readMessages } from './dns-stream.ts';

export type DnsTransport = 'udp' | 'tcp';

export interface DnsForwarder {
  readonly clock: Clock;
  /** Addresses of the machine's servers, as they are now. */
  readonly servers: () => Promise<readonly string[]>;
  readonly port: number;
  /** For each server. */
  readonly answerMsMax: number;
}

/** As many as programs ask. */
const serversMax = 3;

/** The first answer that a server gives. Rejects when none gives one. */
export async function forwardQuery(
  query: Buffer,
  over: DnsTransport,
  { clock, servers, port, answerMsMax }: DnsForwarder,
  signal: AbortSignal,
): Promise<Buffer> {
  const known = (await servers()).filter((server) => isIP(server.replace(/%.*$/, '')) !== 0);
  const late = (): Error =>
    new OperatingError('NameServerSilent', 'Cannot resolve a name: no server of this machine answers');
  let problem = late();
  for (const server of known.slice(0, serversMax)) {
    try {
      return await withDeadline(clock, answerMsMax, late, signal, (limit) =>
        (over === 'udp' ? askByDatagram : askByStream)(query, server, port, limit),
      );
    } catch (error) {
      signal.throwIfAborted();
      problem = error as Error;
    }
  }
  throw problem;
}

/** A socket for each question: its port is as hard to guess as the question's number, and the server alone reaches it. */
function askByDatagram(query: Buffer, server: string, port: number, limit: AbortSignal): Promise<Buffer> {
  const socket = createSocket(server.includes(':') ? 'udp6' : 'udp4');
  let stopListening = (): void => {};
  const answer = new Promise<Buffer>((resolve, reject) => {
    stopListening = onAbort(limit, () => reject(limit.reason as Error));
    socket.on('error', reject);
    socket.on('message', (message) => {
      if (isReplyTo(message, query)) resolve(message);
    });
    socket.once('connect', () => socket.send(query));
    socket.connect(port, server);
  });
  return answer.finally(() => {
    stopListening();
    socket.close();
  });
}

async function askByStream(query: Buffer, server: string, port: number, limit: AbortSignal): Promise<Buffer> {
  const socket = connect({ host: server, port });
  const stopListening = onAbort(limit, () => void socket.destroy(limit.reason as Error));
  try {
    socket.write(framed(query));
    for await (const message of readMessages(socket)) if (isReplyTo(message, query)) return message;
    throw new OperatingError('NameServerSilent', `Cannot resolve a name: ${server} ends the connection`);
  } finally {
    stopListening();
    socket.destroy();
  }
}
