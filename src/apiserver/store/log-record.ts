/**
 * One commit as bytes in the log. A record that was being written when the machine stopped is the last of its file and is
 * left out; one that is not whole although later ones follow it was damaged since, and that is never passed over. Behind the
 * last record may be zeros, and records of an earlier use of the file, which are known by their lower numbers.
 *
 *   record   checksum of the header 4 | sequence 8 | length of the body 4 | checksum of the body 4 | body
 *   body     for each row:  table 1 | has a value 1 | key length 2 | key | value length 4 | value
 */
import { crc32 } from './checksum.ts';

export const tableNames = ['objects', 'changes', 'state'] as const;
type TableName = (typeof tableNames)[number];

/** Undefined: the row goes. */
export interface LogRow {
  readonly table: TableName;
  readonly key: Buffer;
  readonly row: Buffer | undefined;
}

export interface LogRecord {
  /** One more than that of the commit before it. */
  readonly sequence: number;
  readonly rows: readonly LogRow[];
}

export const recordHeaderLength = 20;
const rowHeaderLength = 8;

export function encodeRecord({ sequence, rows }: LogRecord): Buffer {
  const bodyLength = rows.reduce((sum, { key, row }) => sum + rowHeaderLength + key.length + (row?.length ?? 0), 0);
  const record = Buffer.allocUnsafe(recordHeaderLength + bodyLength);
  let at = recordHeaderLength;
  for (const { table, key, row } of rows) {
    at = record.writeUInt8(tableNames.indexOf(table), at);
    at = record.writeUInt8(row === undefined ? 0 : 1, at);
    at = record.writeUInt16BE(key.length, at);
    at += key.copy(record, at);
    at = record.writeUInt32BE(row?.length ?? 0, at);
    at += row?.copy(record, at) ?? 0;
  }
  record.writeDoubleBE(sequence, 4);
  record.writeUInt32BE(bodyLength, 12);
  record.writeUInt32BE(crc32(record.subarray(recordHeaderLength)), 16);
  record.writeUInt32BE(crc32(record.subarray(4, recordHeaderLength)), 0);
  return record;
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
  let at = 0;
  while (isHeader(bytes, at)) {
    const end = at + recordHeaderLength + bytes.readUInt32BE(at + 12);
    const body = bytes.subarray(at + recordHeaderLength, end);
    if (bytes.readUInt32BE(at + 16) !== crc32(body)) break;
    records.push({ sequence: bytes.readDoubleBE(at + 4), rows: decodeRows(body) });
    at = end;
  }
  return { records, sequenceBehind: greatestSequence(bytes, at + 1) };
}

function isHeader(bytes: Buffer, at: number): boolean {
  return (
    bytes.length - at >= recordHeaderLength &&
    bytes.readUInt32BE(at) === crc32(bytes.subarray(at + 4, at + recordHeaderLength))
  );
}

/** Looked for at every byte: where one record is not whole, nobody knows where the next begins. */
function greatestSequence(bytes: Buffer, from: number): number {
  let greatest = 0;
  for (let at = from; at + recordHeaderLength <= bytes.length; at += 1) {
    // With these begin whole numbers from 1 on, as doubles; most bytes of a log are none of them.
    const first = bytes[at + 4] ?? 0;
    if (first < 0x3f || first > 0x43) continue;
    const sequence = bytes.readDoubleBE(at + 4);
    if (sequence > greatest && Number.isSafeInteger(sequence) && isHeader(bytes, at)) greatest = sequence;
  }
  return greatest;
}

function decodeRows(body: Buffer): LogRow[] {
  const rows: LogRow[] = [];
  for (let at = 0; at < body.length;) {
    const table = tableNames[body.readUInt8(at)] ?? 'state';
    const hasValue = body.readUInt8(at + 1) === 1;
    const keyEnd = at + 4 + body.readUInt16BE(at + 2);
    const end = keyEnd + 4 + body.readUInt32BE(keyEnd);
    rows.push({
      table,
      key: body.subarray(at + 4, keyEnd),
      row: hasValue ? body.subarray(keyEnd + 4, end) : undefined,
    });
    at = end;
  }
  return rows;
}
