/** Connections to gRPC servers: of this machine by their sockets, of pods by their addresses. */
import { isIP } from 'node:net';
import { Client, connectivityState, credentials } from '@grpc/grpc-js';

/** As the kubelet's: what a runtime with thousands of containers lists in one message. */
const answerBytesMax = 16 * 1024 * 1024;
const reconnectMsMax = 3_000;

/**
 * A connection to a server's socket, made at the first call and again after it broke. Some servers refuse the name that gRPC
 * derives from a socket's path, so that of this machine is sent.
 */
export function socketChannel(path: string): Client {
  return new Client(`unix://${path}`, credentials.createInsecure(), {
    'grpc.default_authority': 'localhost',
    'grpc.max_receive_message_length': answerBytesMax,
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
