/**
 * Reads the protobuf wire format, one value at a time. It knows no message: `decode-protobuf.ts` gives the fields their
 * names. Whatever bytes it is given, it either returns a value that lies within them or throws a MalformedProtobufError.
 */
import { MountletError } from '../../base/errors.ts';

export class MalformedProtobufError extends MountletError {
  readonly reason = 'MalformedProtobuf';
}

/** The three low bits of a tag: how the value that follows is written. */
export const wireTypes = { varint: 0, fixed64: 1, bytes: 2, groupStart: 3, groupEnd: 4, fixed32: 5 } as const;

interface Tag {
  readonly field: number;
  readonly wireType: number;
}

/** What other implementations allow; groups are the only thing that a sender can nest without our knowing the message. */
const groupDepthMax = 100;
const varintBytesMax = 10;
/** Seven bytes carry 49 bits, which plain arithmetic adds up exactly; nearly every number on the wire has fewer. */
const exactBytesMax = 7;

export class ProtobufReader {
  readonly #bytes: Buffer;
  readonly #end: number;
  #position: number;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#position = 0;
    this.#end = bytes.byteLength;
  }

  get done(): boolean {
    return this.#position >= this.#end;
  }

  tag(): Tag {
    const tag = this.#varint();
    if (typeof tag === 'bigint' || tag < 8 || tag > 0xffffffff) throw new MalformedProtobufError(`illegal tag ${tag}`);
    return { field: Math.floor(tag / 8), wireType: tag % 8 };
  }

  boolean(): boolean {
    return Number(this.#varint()) !== 0;
  }

  /** int32 and int64 look the same on the wire. What a double cannot hold is refused: rounding would corrupt it silently. */
  integer(): number {
    const value = this.#varint();
    if (typeof value === 'number') return value;
    const signed = BigInt.asIntN(64, value);
    if (!Number.isSafeInteger(Number(signed))) {
      throw new MalformedProtobufError(`${signed} is out of range: whole numbers up to 2^53 are supported`);
    }
    return Number(signed);
  }

  /** A view of the given bytes, not a copy. */
  bytes(): Buffer {
    const length = this.#varint();
    if (typeof length === 'bigint' || length > this.#end - this.#position) {
      throw new MalformedProtobufError(`a length of ${length} bytes leaves the message`);
    }
    const start = this.#position;
    this.#position += length;
    return this.#bytes.subarray(start, this.#position);
  }

  /** Bytes that are not UTF-8 become U+FFFD, as they would in the JSON of a Go server. */
  string(): string {
    return this.bytes().toString('utf8');
  }

  skip({ field, wireType }: Tag, depth = 0): void {
    switch (wireType) {
      case wireTypes.varint:
        this.#varint();
        return;
      case wireTypes.fixed64:
        this.#advance(8);
        return;
      case wireTypes.bytes:
        this.bytes();
        return;
      case wireTypes.fixed32:
        this.#advance(4);
        return;
      case wireTypes.groupStart:
        this.#skipGroup(field, depth + 1);
        return;
      case wireTypes.groupEnd:
        throw new MalformedProtobufError(`the end of group ${field} has no start`);
      default:
        throw new MalformedProtobufError(`illegal wire type ${wireType}`);
    }
  }

  #skipGroup(field: number, depth: number): void {
    if (depth > groupDepthMax) throw new MalformedProtobufError('groups are nested too deeply');
    for (;;) {
      const tag = this.tag();
      if (tag.wireType !== wireTypes.groupEnd) {
        this.skip(tag, depth);
        continue;
      }
      if (tag.field !== field) throw new MalformedProtobufError(`group ${field} ends as group ${tag.field}`);
      return;
    }
  }

  #advance(count: number): void {
    if (count > this.#end - this.#position) throw new MalformedProtobufError('unexpected end of the message');
    this.#position += count;
  }

  /** An unsigned number of 64 bits, seven at a time, the lowest first. A bigint only if it has more than seven bytes. */
  #varint(): number | bigint {
    let low = 0;
    let factor = 1;
    for (let index = 0; index < exactBytesMax; index += 1) {
      const byte = this.#byte();
      low += (byte & 0x7f) * factor;
      if (byte < 0x80) return low;
      factor *= 128;
    }
    let value = BigInt(low);
    for (let index = exactBytesMax; index < varintBytesMax; index += 1) {
      const byte = this.#byte();
      value |= BigInt(byte & 0x7f) << BigInt(7 * index);
      if (byte >= 0x80) continue;
      if (value > 0xffffffffffffffffn) break;
      return value;
    }
    throw new MalformedProtobufError('a number is longer than 64 bits');
  }

  #byte(): number {
    const byte = this.#position < this.#end ? this.#bytes[this.#position] : undefined;
    if (byte === undefined) throw new MalformedProtobufError('unexpected end of the message');
    this.#position += 1;
    return byte;
  }
}
