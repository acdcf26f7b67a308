/** Connections to gRPC servers: of this machine by their sockets, of pods by their addresses. */
import { connect as http2Connect } from 'node:http2';
import { connect, isIP } from 'node:net';
import { Client, connectivityState, credentials } from '@grpc/grpc-js';
import { unlessAborted, withDeadline } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';

/** As the kubelet's: what a runtime with thousands of containers lists in one message. */
const runtimeAnswerBytesMax = 16 * 1024 * 1024;
const reconnectMsMax = 3_000;

interface SocketLimits {
  readonly answerBytesMax: number;
}

/**
 * A connection to a server's socket, made at the first call and again after it broke. Some servers refuse the name that gRPC
 * derives from a socket's path, so that of this machine is sent.
 */
export function socketChannel(
  path: string,
  { answerBytesMax }: SocketLimits = { answerBytesMax: runtimeAnswerBytesMax },
): Client {
  return new Client(`unix://${path}`, credentials.createInsecure(), {
    'grpc.default_authority': 'localhost',
    'grpc.max_receive_message_length': answerBytesMax,
    // A connection of its own: one that replaces another does not inherit the delay before that one's next attempt.
    'grpc.use_local_subchannel_pool': 1,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': reconnectMsMax,
  });
}

interface ServerAddress {
  readonly host: string;
  readonly port: number;
  readonly authority: string;
  readonly userAgent: string;
}

/** A connection for one call to a server that is not trusted. */
export function addressChannel({ host, port, authority, userAgent }: ServerAddress): Client {
  const name = { 0: `dns:${host}`, 4: `ipv4:${host}`, 6: `ipv6:[${host}]` }[isIP(host)] ?? host;
  return new Client(`${name}:${port}`, credentials.createInsecure(), {
    'grpc.default_authority': authority,
    'grpc.primary_user_agent': userAgent,
    // A pod is next door, and what is asked once is answered once.
    'grpc.enable_http_proxy': 0,
    'grpc.enable_retries': 0,
    'grpc.use_local_subchannel_pool': 1,
  });
}

export function isConnected(channel: Client): boolean {
  return channel.getChannel().getConnectivityState(false) === connectivityState.READY;
}

/**
 * Rejects unless a server of HTTP/2 answers at the socket, on a connection that is closed at once. A channel would wait for a server
 * that accepts and says nothing without end, and keep that connection even when it is closed itself.
 */
export async function requireServer(path: string, timeoutMs: number, clock: Clock, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const socket = connect(path);
  const session = http2Connect('http://localhost', { createConnection: () => socket });
  const answered = new Promise<void>((resolve, reject) => {
    session.once('remoteSettings', () => resolve());
    session.on('error', reject);
    session.once('close', () => reject(new Error('it closed the connection')));
  });
  const late = (): Error => new Error(`it said nothing for ${timeoutMs / 1000} s`);
  try {
    await withDeadline(clock, timeoutMs, late, signal, (limited) => unlessAborted(answered, limited));
  } finally {
    session.destroy();
    socket.destroy();
  }
}
