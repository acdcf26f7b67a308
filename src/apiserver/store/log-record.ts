/**
 * One commit as bytes in the log. A record that was being written when the machine stopped is the last of its file and is
 * left out; one that is broken although later ones follow it was damaged since, and that is an error. Behind the last record
 * may be zeros, and records of an earlier use of the file, which have lower numbers.
 *
 *   record   checksum of the header 4 | sequence 8 | compacted revision 8 | length of the body 4 | checksum of the body 4 | body
 *   body     the rows, one behind the other
 */
import { crc32, rowAt, type Row } from './row.ts';

export interface LogRecord {
  /** One more than that of the commit before it. */
  readonly sequence: number;
  /** Changes up to and including this revision are not needed any more. */
  readonly compactedRevision: number;
  readonly rows: readonly Row[];
}

const at = { checksum: 0, sequence: 4, compactedRevision: 12, bodyLength: 20, bodyChecksum: 24 } as const;
export const recordHeaderLength = 28;

export function encodeRecord({ sequence, compactedRevision, rows }: LogRecord): Buffer {
  const record = Buffer.allocUnsafe(recordLength(rows));
  let end = recordHeaderLength;
  for (const { bytes } of rows) end += bytes.copy(record, end);
  record.writeDoubleBE(sequence, at.sequence);
  record.writeDoubleBE(compactedRevision, at.compactedRevision);
  record.writeUInt32BE(end - recordHeaderLength, at.bodyLength);
  record.writeUInt32BE(crc32(record.subarray(recordHeaderLength)), at.bodyChecksum);
  record.writeUInt32BE(crc32(record.subarray(at.sequence, recordHeaderLength)), at.checksum);
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
    const end = start + recordHeaderLength + bytes.readUInt32BE(start + at.bodyLength);
    const body = bytes.subarray(start + recordHeaderLength, end);
    if (bytes.readUInt32BE(start + at.bodyChecksum) !== crc32(body)) break;
    const sequence = bytes.readDoubleBE(start + at.sequence);
    const compactedRevision = bytes.readDoubleBE(start + at.compactedRevision);
    records.push({ sequence, compactedRevision, rows: decodeRows(body) });
    start = end;
  }
  return { records, sequenceBehind: greatestSequence(bytes, start + 1) };
}

function isHeader(bytes: Buffer, start: number): boolean {
  return (
    bytes.length - start >= recordHeaderLength &&
    bytes.readUInt32BE(start) === crc32(bytes.subarray(start + at.sequence, start + recordHeaderLength))
  );
}

/** Searched at every byte: where one record is broken, the place of the next is unknown. */
function greatestSequence(bytes: Buffer, from: number): number {
  let greatest = 0;
  for (let start = from; start + recordHeaderLength <= bytes.length; start += 1) {
    // Doubles of whole numbers from 1 on begin with one of these; most bytes of a log do not.
    const first = bytes[start + at.sequence] ?? 0;
    if (first < 0x3f || first > 0x43) continue;
    const sequence = bytes.readDoubleBE(start + at.sequence);
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
