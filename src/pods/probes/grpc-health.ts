/** The only gRPC call that a node makes: grpc.health.v1.Health/Check, over plain HTTP/2. */
import { type ClientHttp2Session, type IncomingHttpHeaders, connect as connectHttp2 } from 'node:http2';
import type { Duplex } from 'node:stream';
import { onAbort } from '../../base/abort.ts';
import { HandlerError } from './http-exchange.ts';

const statusNames = ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN'];
/** An answer has two bytes at most. */
const answerBytesMax = 4096;

/** Resolves with the name of the status: `SERVING`. */
export async function checkGrpcHealth(
  socket: Duplex,
  service: string,
  authority: string,
  userAgent: string,
  signal: AbortSignal,
): Promise<string> {
  const session = connectHttp2(`http://${authority}`, { createConnection: () => socket });
  const stopListening = onAbort(signal, () => session.destroy());
  try {
    return await check(session, service, authority, userAgent);
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    stopListening();
    session.destroy();
  }
}

function check(session: ClientHttp2Session, service: string, authority: string, userAgent: string): Promise<string> {
  return new Promise((resolve, reject) => {
    session.on('error', reject);
    session.once('close', () => reject(new HandlerError('the connection was closed')));
    const stream = session.request({
      ':method': 'POST',
      ':path': '/grpc.health.v1.Health/Check',
      ':authority': authority,
      ':scheme': 'http',
      'content-type': 'application/grpc',
      te: 'trailers',
      'user-agent': userAgent,
    });
    const chunks: Buffer[] = [];
    let size = 0;
    let status: IncomingHttpHeaders = {};
    stream.on('response', (headers) => (status = { ...status, ...headers }));
    stream.on('trailers', (headers) => (status = { ...status, ...headers }));
    stream.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= answerBytesMax) chunks.push(chunk);
    });
    stream.on('error', reject);
    stream.once('end', () => {
      try {
        resolve(readAnswer(status, Buffer.concat(chunks)));
      } catch (error) {
        reject(error instanceof Error ? error : new HandlerError(String(error)));
      }
    });
    stream.end(frame(service));
  });
}

/** A message of one field, the name of the service, after the five bytes that precede every message. */
function frame(service: string): Buffer {
  const name = Buffer.from(service);
  const message =
    name.length === 0 ? Buffer.alloc(0) : Buffer.concat([Buffer.from([0x0a, ...varint(name.length)]), name]);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

function varint(value: number): readonly number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}

function readAnswer(status: IncomingHttpHeaders, body: Buffer): string {
  const code = Number(status['grpc-status'] ?? (String(status[':status']) === '200' ? 0 : 14));
  if (code !== 0) {
    throw new HandlerError(decodeURIComponent(String(status['grpc-message'] ?? '')), { grpcStatus: code });
  }
  const message = body.subarray(5);
  // The field is absent when it is 0.
  const value = message[0] === 0x08 ? (message[1] ?? 0) : 0;
  return statusNames[value] ?? String(value);
}
