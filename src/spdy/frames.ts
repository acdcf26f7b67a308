/**
 * The frames of SPDY/3.1 as bytes, both ways. Only form is checked here; what a frame means is the connection's business.
 *
 *   control:  1 version(15) | type(16) | flags(8) length(24) | payload        data:  0 stream(31) | flags(8) length(24) | bytes
 */
import { MountletError } from '../base/errors.ts';

/** The other end does not keep to SPDY/3.1; the connection cannot go on. */
export class SpdyError extends MountletError {
  readonly reason = 'SpdyProtocolError';
}

export type Frame =
  | { readonly kind: 'synStream'; readonly streamId: number; readonly isLast: boolean; readonly block: Buffer }
  | {
      readonly kind: 'synReply' | 'headers';
      readonly streamId: number;
      readonly isLast: boolean;
      readonly block: Buffer;
    }
  | { readonly kind: 'reset'; readonly streamId: number; readonly code: number }
  | { readonly kind: 'ping'; readonly id: number }
  | { readonly kind: 'goAway'; readonly lastStreamId: number }
  /** One piece of a data frame: a frame may be 16 MiB long and is never held as a whole. */
  | { readonly kind: 'data'; readonly streamId: number; readonly isLast: boolean; readonly bytes: Buffer };

export const resetCodes = { protocolError: 1, invalidStream: 2, refusedStream: 3, cancel: 5 } as const;

const types = {
  synStream: 1,
  synReply: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  headers: 8,
  windowUpdate: 9,
} as const;
const version = 3;
const finFlag = 1;
const headerBytes = 8;
// A block of headers is a few hundred bytes; more is an attack on our memory.
const controlBytesMax = 64 * 1024;

/** Takes bytes as they come and gives frames. Frames that ask nothing of us (SETTINGS, WINDOW_UPDATE, unknown ones) are dropped. */
export class FrameReader {
  /** A header, or a whole control frame once its length is known. */
  #frame = Buffer.alloc(headerBytes);
  #filled = 0;
  #data: { readonly streamId: number; readonly isLast: boolean; left: number } | undefined;

  *read(chunk: Buffer): Generator<Frame> {
    let rest = chunk;
    while (rest.length > 0) {
      if (this.#data === undefined) {
        const taken = rest.copy(this.#frame, this.#filled);
        rest = rest.subarray(taken);
        this.#filled += taken;
        const frame = this.#filled === this.#frame.length ? this.#complete() : undefined;
        if (frame !== undefined) yield frame;
      } else {
        const piece = rest.subarray(0, this.#data.left);
        rest = rest.subarray(piece.length);
        yield this.#dataPiece(this.#data, piece);
      }
    }
  }

  #complete(): Frame | undefined {
    const frame = this.#frame;
    if (frame.length === headerBytes && isControl(frame) && lengthOf(frame) > 0) {
      const length = lengthOf(frame);
      if (length > controlBytesMax) throw new SpdyError(`A control frame of ${length} bytes is too long`);
      this.#frame = Buffer.concat([frame, Buffer.alloc(length)]);
      return undefined;
    }
    this.#frame = Buffer.alloc(headerBytes);
    this.#filled = 0;
    return isControl(frame) ? controlFrame(frame) : this.#beginData(frame);
  }

  #dataPiece(data: { readonly streamId: number; readonly isLast: boolean; left: number }, bytes: Buffer): Frame {
    data.left -= bytes.length;
    if (data.left === 0) this.#data = undefined;
    return { kind: 'data', streamId: data.streamId, isLast: data.isLast && data.left === 0, bytes };
  }

  #beginData(header: Buffer): Frame | undefined {
    const streamId = header.readUInt32BE(0) & 0x7fffffff;
    const isLast = ((header[4] ?? 0) & finFlag) !== 0;
    const left = lengthOf(header);
    if (left === 0) return { kind: 'data', streamId, isLast, bytes: Buffer.alloc(0) };
    this.#data = { streamId, isLast, left };
    return undefined;
  }
}

function isControl(header: Buffer): boolean {
  return ((header[0] ?? 0) & 0x80) !== 0;
}

function lengthOf(header: Buffer): number {
  return header.readUIntBE(5, 3);
}

function controlFrame(whole: Buffer): Frame | undefined {
  if ((whole.readUInt16BE(0) & 0x7fff) !== version) throw new SpdyError('Only version 3 of SPDY is spoken here');
  const type = whole.readUInt16BE(2);
  const isLast = ((whole[4] ?? 0) & finFlag) !== 0;
  const payload = whole.subarray(headerBytes);
  const number = (offset: number): number => {
    if (payload.length < offset + 4) throw new SpdyError(`A frame of type ${type} is too short`);
    return payload.readUInt32BE(offset);
  };
  const streamId = (): number => number(0) & 0x7fffffff;
  switch (type) {
    case types.synStream:
      if (payload.length < 10) throw new SpdyError('A SYN_STREAM frame is too short');
      return { kind: 'synStream', streamId: streamId(), isLast, block: payload.subarray(10) };
    case types.synReply:
      return { kind: 'synReply', streamId: streamId(), isLast, block: payload.subarray(4) };
    case types.headers:
      return { kind: 'headers', streamId: streamId(), isLast, block: payload.subarray(4) };
    case types.reset:
      return { kind: 'reset', streamId: streamId(), code: number(4) };
    case types.ping:
      return { kind: 'ping', id: number(0) };
    case types.goAway:
      return { kind: 'goAway', lastStreamId: streamId() };
    default:
      return undefined;
  }
}

export function dataFrame(streamId: number, bytes: Uint8Array, isLast: boolean): Buffer {
  const frame = Buffer.allocUnsafe(headerBytes + bytes.length);
  frame.writeUInt32BE(streamId, 0);
  frame.writeUInt32BE(bytes.length, 4);
  frame[4] = isLast ? finFlag : 0;
  frame.set(bytes, headerBytes);
  return frame;
}

/** `block` is compressed already. */
export function synStreamFrame(streamId: number, block: Uint8Array): Buffer {
  const associatedAndPriority = Buffer.alloc(6);
  return controlBytes(types.synStream, [uint32(streamId), associatedAndPriority, block]);
}

export function synReplyFrame(streamId: number, block: Uint8Array): Buffer {
  return controlBytes(types.synReply, [uint32(streamId), block]);
}

export function resetFrame(streamId: number, code: number): Buffer {
  return controlBytes(types.reset, [uint32(streamId), uint32(code)]);
}

export function pingFrame(id: number): Buffer {
  return controlBytes(types.ping, [uint32(id)]);
}

export function goAwayFrame(lastStreamId: number, code: 0 | 1): Buffer {
  return controlBytes(types.goAway, [uint32(lastStreamId), uint32(code)]);
}

export function windowUpdateFrame(streamId: number, bytes: number): Buffer {
  return controlBytes(types.windowUpdate, [uint32(streamId), uint32(bytes)]);
}

function controlBytes(type: number, parts: readonly Uint8Array[]): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt16BE(0x8000 | version, 0);
  header.writeUInt16BE(type, 2);
  header.writeUInt32BE(
    parts.reduce((sum, part) => sum + part.length, 0),
    4,
  );
  return Buffer.concat([header, ...parts]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
