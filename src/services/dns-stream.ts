/** Messages of DNS over TCP: each after its length. */
import type { Readable } from 'node:stream';

const lengthBytes = 2;

export function framed(message: Buffer): Buffer {
  const length = Buffer.alloc(lengthBytes);
  length.writeUInt16BE(message.length);
  return Buffer.concat([length, message]);
}

/** Holds one message, and what came after it in the same piece. */
export async function* readMessages(stream: Readable): AsyncGenerator<Buffer> {
  let held = Buffer.alloc(0);
  for await (const piece of stream as AsyncIterable<Buffer>) {
    held = Buffer.concat([held, piece]);
    while (held.length >= lengthBytes && held.length >= lengthBytes + held.readUInt16BE()) {
      const end = lengthBytes + held.readUInt16BE();
      yield held.subarray(lengthBytes, end);
      held = held.subarray(end);
    }
  }
}
