/** Messages between the node and its spawner on a unix socket: a length, a kind, the bytes. */
import type { Duplex } from 'node:stream';

const kinds = ['message', 'image', 'stdin', 'stdout', 'stderr'] as const;
type FrameKind = (typeof kinds)[number];

export interface Frame {
  readonly kind: FrameKind;
  readonly bytes: Buffer;
}

const headerBytes = 5;
/** Above what the kernel takes as the variables and arguments of one program, twice. */
const frameBytesMax = 16 * 1024 * 1024;

/** False when the other side has to catch up first. */
export function sendFrame(socket: Duplex, kind: FrameKind, bytes: Buffer): boolean {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32LE(bytes.length, 0);
  header.writeUInt8(kinds.indexOf(kind), 4);
  socket.cork();
  socket.write(header);
  const isFree = socket.write(bytes);
  socket.uncork();
  return isFree;
}

export function sendMessage(socket: Duplex, message: object): boolean {
  return sendFrame(socket, 'message', Buffer.from(JSON.stringify(message)));
}

export function messageIn({ bytes }: Frame): unknown {
  return JSON.parse(bytes.toString());
}

/** The frames of a socket until its other side ends it. */
export async function* readFrames(socket: Duplex): AsyncGenerator<Frame> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    while (rest.length - at >= headerBytes) {
      const length = rest.readUInt32LE(at);
      const kind = kinds[rest.readUInt8(at + 4)];
      if (kind === undefined || length > frameBytesMax) throw new Error('Not a message of the spawner');
      if (rest.length - at < headerBytes + length) break;
      yield { kind, bytes: rest.subarray(at + headerBytes, at + headerBytes + length) };
      at += headerBytes + length;
    }
    rest = rest.subarray(at);
  }
}
