/** CRC-32 as in zlib and PNG: notices bytes that are not as they were written. It is no protection against intent. */
import zlib from 'node:zlib';

// Node has it since 20.15 and 22.2; before, the table does the same some ten times slower.
const native: unknown = Reflect.get(zlib, 'crc32');

export const crc32: (bytes: Uint8Array, before?: number) => number =
  typeof native === 'function' ? (native as (bytes: Uint8Array, before?: number) => number) : crc32ByTable;

export function crc32ByTable(bytes: Uint8Array, before = 0): number {
  let rest = ~before;
  for (const byte of bytes) rest = (table[(rest ^ byte) & 0xff] ?? 0) ^ (rest >>> 8);
  return ~rest >>> 0;
}

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit += 1) rest = (rest & 1) === 1 ? 0xedb88320 ^ (rest >>> 1) : rest >>> 1;
  return rest >>> 0;
});
