/**
 * The few values of DER (the encoding of certificates) that we write, and a reader for encodings that others wrote: every length
 * is checked, nothing is followed deeper than it is asked for.
 */
import { MountletError } from './errors.ts';

export const tags = {
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectId: 0x06,
  utf8: 0x0c,
  printableString: 0x13,
  ia5String: 0x16,
  sequence: 0x30,
  set: 0x31,
};

export const der = {
  sequence: (...parts: readonly Uint8Array[]): Buffer => element(tags.sequence, ...parts),
  set: (...parts: readonly Uint8Array[]): Buffer => element(tags.set, ...parts),
  true: Buffer.from([0x01, 0x01, 0xff]),
  utf8: (text: string): Buffer => element(tags.utf8, Buffer.from(text)),
  octets: (...parts: readonly Uint8Array[]): Buffer => element(tags.octetString, ...parts),
  /** `unusedBits` counts from the end of the last byte. */
  bits: (bytes: Uint8Array, unusedBits = 0): Buffer => element(tags.bitString, Buffer.from([unusedBits]), bytes),
  objectId: (dotted: string): Buffer => element(tags.objectId, objectId(dotted)),
  /** A number that is not negative, from its bytes with the highest first. */
  integer: (bytes: Uint8Array): Buffer => element(tags.integer, positive(bytes)),
  time,
  /** A part with a number for a tag: `constructed` around whole values, otherwise in place of a value's own tag. */
  tagged: (number: number, constructed: boolean, ...parts: readonly Uint8Array[]): Buffer =>
    element(0x80 | (constructed ? 0x20 : 0) | number, ...parts),
};

function element(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag, ...lengthBytes(content.length)]), content]);
}

function lengthBytes(length: number): number[] {
  if (length < 0x80) return [length];
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return [0x80 | bytes.length, ...bytes];
}

function positive(bytes: Uint8Array): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0);
  const significant = first === -1 ? Uint8Array.of(0) : bytes.subarray(first);
  const isNegative = ((significant[0] ?? 0) & 0x80) !== 0;
  return Buffer.concat([Buffer.alloc(isNegative ? 1 : 0), significant]);
}

function objectId(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  const groups = [first * 40 + second, ...rest].map((number) => {
    const bytes = [number & 0x7f];
    for (let high = number >>> 7; high > 0; high >>>= 7) bytes.unshift((high & 0x7f) | 0x80);
    return bytes;
  });
  return Buffer.from(groups.flat());
}

/** Two digits of the year until 2049, four from then on: the standard leaves no choice. */
function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '');
  const isShort = Number(digits.slice(0, 4)) < 2050;
  return element(isShort ? 0x17 : 0x18, Buffer.from(isShort ? digits.slice(2) : digits));
}

/** The bytes are not what the reader was told to expect. */
export class DerError extends MountletError {
  readonly reason = 'BadEncoding';
}

export interface Element {
  readonly tag: number;
  readonly content: Buffer;
  /** The whole encoding, tag and length included. */
  readonly raw: Buffer;
}

/** The values that stand one behind the other in these bytes. Throws `DerError`. */
export function readElements(bytes: Uint8Array): Element[] {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const elements: Element[] = [];
  for (let at = 0; at < all.length;) {
    const { start, end } = extent(all, at);
    elements.push({ tag: all[at] ?? 0, content: all.subarray(start, end), raw: all.subarray(at, end) });
    at = end;
  }
  return elements;
}

/** The one value that these bytes are. */
export function readElement(bytes: Uint8Array, tag: number): Element {
  const [first, ...more] = readElements(bytes);
  if (first === undefined || more.length > 0) throw new DerError('trailing data');
  if (first.tag !== tag) throw new DerError('tags do not match');
  return first;
}

/** The whole encodings of the values directly inside the outermost one. */
export function children(encoded: Uint8Array): Buffer[] {
  const [outermost] = readElements(encoded);
  return outermost === undefined ? [] : readElements(outermost.content).map(({ raw }) => raw);
}

/** `1.2.840.113549.1.1.11` */
export function readObjectId(content: Uint8Array): string {
  const numbers: number[] = [];
  let number = 0;
  for (const byte of content) {
    number = number * 128 + (byte & 0x7f);
    if (number > Number.MAX_SAFE_INTEGER / 128) throw new DerError('object identifier is too long');
    if (byte < 0x80) {
      numbers.push(number);
      number = 0;
    }
  }
  const [first = 0, ...rest] = numbers;
  const top = Math.min(Math.floor(first / 40), 2);
  return [top, first - top * 40, ...rest].join('.');
}

/** Lengths as DER has them: as short as they can be, and of no more bytes than there are. */
function extent(bytes: Uint8Array, at: number): { start: number; end: number } {
  const first = bytes[at + 1];
  if (first === undefined || ((bytes[at] ?? 0) & 0x1f) === 0x1f)
    throw new DerError('syntax error: truncated tag or length');
  const lengthSize = first < 0x80 ? 0 : first & 0x7f;
  const start = at + 2 + lengthSize;
  if (first === 0x80 || lengthSize > 4 || start > bytes.length) throw new DerError('syntax error: bad length');
  let length = first < 0x80 ? first : 0;
  for (const byte of bytes.subarray(at + 2, start)) length = length * 256 + byte;
  if (lengthSize > 0 && (length < 0x80 || bytes[at + 2] === 0))
    throw new DerError('structure error: non-minimal length');
  if (start + length > bytes.length) throw new DerError('syntax error: data truncated');
  return { start, end: start + length };
}
