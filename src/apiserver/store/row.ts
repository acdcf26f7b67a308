/**
 * One write as bytes: the same in the commit log and in a snapshot, so that rows move from one to the other as they are.
 *
 *   row   checksum 4 | checksum of the value 4 | type 1 | revision 8 | time 8 | key length 2 | value length 4 | key | value
 *
 * The first checksum covers everything up to the value. If it does not match, the place of the next row is unknown too. If only
 * the second does not match, the row is damaged, its key and revision are still known, and the rows behind it are readable.
 */
import zlib from 'node:zlib';
import type { LoggedChange } from './change-log.ts';
import type { ValueSeal } from './encryption.ts';

const types = ['put', 'delete', 'mark'] as const;

export interface Row {
  /** Marks divide the parts of a snapshot. */
  readonly type: (typeof types)[number];
  readonly key: string;
  readonly revision: number;
  /** Milliseconds since the epoch. */
  readonly time: number;
  /** The whole row, as it stands in a file. */
  readonly bytes: Buffer;
}

const at = { checksum: 0, valueChecksum: 4, type: 8, revision: 9, time: 17, keyLength: 25, valueLength: 27 } as const;
const headerLength = 31;

/** `value` as it is written to disk: sealed. */
export function encodeRow({ type, key, revision, time }: Omit<Row, 'bytes'>, value: Buffer): Row {
  const keyLength = Buffer.byteLength(key);
  const keyEnd = headerLength + keyLength;
  const bytes = Buffer.allocUnsafe(keyEnd + value.length);
  bytes.writeUInt8(types.indexOf(type), at.type);
  bytes.writeDoubleBE(revision, at.revision);
  bytes.writeDoubleBE(time, at.time);
  bytes.writeUInt16BE(keyLength, at.keyLength);
  bytes.writeUInt32BE(value.length, at.valueLength);
  bytes.write(key, headerLength);
  value.copy(bytes, keyEnd);
  const checksum = crc32(bytes.subarray(at.type, keyEnd));
  bytes.writeUInt32BE(checksum, at.checksum);
  bytes.writeUInt32BE(crc32(value, checksum), at.valueChecksum);
  return { type, key, revision, time, bytes };
}

/** A deletion without its last content takes less room on a full disk; the changes up to it are then lost with a restart. */
export function encodeChange(change: LoggedChange, seal: ValueSeal, keepsDeleted: boolean): Row {
  const { type, key, revision, value } = change;
  const isLeftOut = type === 'delete' && !keepsDeleted;
  return encodeRow(change, isLeftOut ? nothing : seal.seal({ part: partOf(type), key, revision }, value));
}

/** The row at this place; how many bytes it takes to know, if there are too few; undefined when there is none. */
export function rowAt(bytes: Buffer, offset: number): Row | number | undefined {
  if (bytes.length < offset + headerLength) return headerLength;
  const keyEnd = headerLength + bytes.readUInt16BE(offset + at.keyLength);
  if (bytes.length < offset + keyEnd) return keyEnd;
  const type = types[bytes.readUInt8(offset + at.type)];
  const checksum = crc32(bytes.subarray(offset + at.type, offset + keyEnd));
  if (type === undefined || bytes.readUInt32BE(offset + at.checksum) !== checksum) return undefined;
  const length = keyEnd + bytes.readUInt32BE(offset + at.valueLength);
  if (bytes.length < offset + length) return length;
  return {
    type,
    key: bytes.toString('utf8', offset + headerLength, offset + keyEnd),
    revision: bytes.readDoubleBE(offset + at.revision),
    time: bytes.readDoubleBE(offset + at.time),
    bytes: bytes.subarray(offset, offset + length),
  };
}

type OpenedRow =
  /** The value is undefined where a deletion was written without it. */
  { readonly value: string | undefined; readonly isStale: boolean } | { readonly damage: string };

export function openRow({ type, key, revision, bytes }: Row, seal: ValueSeal): OpenedRow {
  const value = bytes.subarray(bytes.length - bytes.readUInt32BE(at.valueLength));
  if (bytes.readUInt32BE(at.valueChecksum) !== crc32(value, bytes.readUInt32BE(at.checksum))) {
    return { damage: 'its bytes are not those that were written (the checksum differs)' };
  }
  if (value.length === 0 && type === 'delete') return { value: undefined, isStale: false };
  return seal.open({ part: partOf(type), key, revision }, value);
}

/** The row with its value sealed by the first key. Undefined when it is already, or cannot be read. */
export function resealed(row: Row, seal: ValueSeal): Row | undefined {
  const opened = openRow(row, seal);
  if ('damage' in opened || !opened.isStale || opened.value === undefined) return undefined;
  return encodeRow(row, seal.seal({ part: partOf(row.type), key: row.key, revision: row.revision }, opened.value));
}

const nothing = Buffer.alloc(0);

function partOf(type: Row['type']): 'object' | 'deleted' {
  return type === 'delete' ? 'deleted' : 'object';
}

// Node has it since 20.15 and 22.2; before, the table does the same some ten times slower.
const native: unknown = Reflect.get(zlib, 'crc32');

/** CRC-32 as in zlib and PNG: detects bytes that are not as they were written. It does not protect against intent. */
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

/**
 * One commit as bytes in the log. A record that was being written when the machine stopped is the last of its file and is
 * left out; one that is broken although later ones follow it was damaged since, and that is an error. Behind the last record
 * may be zeros, and records of an earlier use of the file, which have lower numbers.
 *
 *   record   checksum of the header 4 | sequence 8 | compacted revision 8 | length of the body 4 | checksum of the body 4 | body
 *   body     the rows, one behind the other
 */
export interface LogRecord {
  /** One more than that of the commit before it. */
  readonly sequence: number;
  /** Changes up to and including this revision are not needed any more. */
  readonly compactedRevision: number;
  readonly rows: readonly Row[];
}

const recordAt = { checksum: 0, sequence: 4, compactedRevision: 12, bodyLength: 20, bodyChecksum: 24 } as const;
export const recordHeaderLength = 28;

export function encodeRecord({ sequence, compactedRevision, rows }: LogRecord): Buffer {
  const record = Buffer.allocUnsafe(recordLength(rows));
  let end = recordHeaderLength;
  for (const { bytes } of rows) end += bytes.copy(record, end);
  record.writeDoubleBE(sequence, recordAt.sequence);
  record.writeDoubleBE(compactedRevision, recordAt.compactedRevision);
  record.writeUInt32BE(end - recordHeaderLength, recordAt.bodyLength);
  record.writeUInt32BE(crc32(record.subarray(recordHeaderLength)), recordAt.bodyChecksum);
  record.writeUInt32BE(crc32(record.subarray(recordAt.sequence, recordHeaderLength)), recordAt.checksum);
  return record;
}

/** Of a record with these rows. */
export function recordLength(rows: readonly Row[]): number {
  return rows.reduce((sum, { bytes }) => sum + bytes.length, recordHeaderLength);
}

interface DecodedRecords {
  /** Up to the first that is not whole. */
  readonly records: readonly LogRecord[];
  /** The greatest number of a record that follows behind that one; 0 for none. Greater than all of them: that one was lost. */
  readonly sequenceBehind: number;
}

/** The records of one file. */
export function decodeRecords(bytes: Buffer): DecodedRecords {
  const records: LogRecord[] = [];
  let start = 0;
  while (isHeader(bytes, start)) {
    const end = start + recordHeaderLength + bytes.readUInt32BE(start + recordAt.bodyLength);
    const body = bytes.subarray(start + recordHeaderLength, end);
    if (bytes.readUInt32BE(start + recordAt.bodyChecksum) !== crc32(body)) break;
    const sequence = bytes.readDoubleBE(start + recordAt.sequence);
    const compactedRevision = bytes.readDoubleBE(start + recordAt.compactedRevision);
    records.push({ sequence, compactedRevision, rows: decodeRows(body) });
    start = end;
  }
  return { records, sequenceBehind: greatestSequence(bytes, start + 1) };
}

function isHeader(bytes: Buffer, start: number): boolean {
  return (
    bytes.length - start >= recordHeaderLength &&
    bytes.readUInt32BE(start) === crc32(bytes.subarray(start + recordAt.sequence, start + recordHeaderLength))
  );
}

/** Searched at every byte: where one record is broken, the place of the next is unknown. */
function greatestSequence(bytes: Buffer, from: number): number {
  let greatest = 0;
  for (let start = from; start + recordHeaderLength <= bytes.length; start += 1) {
    // Doubles of whole numbers from 1 on begin with one of these; most bytes of a log do not.
    const first = bytes[start + recordAt.sequence] ?? 0;
    if (first < 0x3f || first > 0x43) continue;
    const sequence = bytes.readDoubleBE(start + recordAt.sequence);
    if (sequence > greatest && Number.isSafeInteger(sequence) && isHeader(bytes, start)) greatest = sequence;
  }
  return greatest;
}

function decodeRows(body: Buffer): Row[] {
  const rows: Row[] = [];
  for (let offset = 0; offset < body.length;) {
    const row = rowAt(body, offset);
    // The body has a checksum of its own, so this is a bug in whoever wrote it.
    if (row === undefined || typeof row === 'number') throw new Error('a record of the log has a broken row');
    rows.push(row);
    offset += row.bytes.length;
  }
  return rows;
}
