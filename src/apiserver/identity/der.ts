/** The few values of DER (the encoding of certificates) that we write, and the walk that finds one part of a certificate. */
const tags = {
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectId: 0x06,
  utf8: 0x0c,
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
  /** A part that is told apart by number: `constructed` around whole values, otherwise in place of a value's own tag. */
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

/** The whole encodings of the values directly inside the outermost one. */
export function children(encoded: Uint8Array): Buffer[] {
  const { start, end } = extent(encoded, 0);
  const parts: Buffer[] = [];
  for (let at = start; at < end;) {
    const next = extent(encoded, at).end;
    parts.push(Buffer.from(encoded.subarray(at, next)));
    at = next;
  }
  return parts;
}

function extent(bytes: Uint8Array, at: number): { start: number; end: number } {
  const first = bytes[at + 1] ?? 0;
  if (first < 0x80) return { start: at + 2, end: at + 2 + first };
  const start = at + 2 + (first & 0x7f);
  const length = [...bytes.subarray(at + 2, start)].reduce((sum, byte) => sum * 256 + byte, 0);
  return { start, end: start + length };
}
