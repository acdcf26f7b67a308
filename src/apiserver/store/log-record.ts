/**
 * One commit as bytes in the log. A record that was being written when the machine stopped is the last of its file and is
 * left out; one that is not whole although others follow it was damaged later, and that is never passed over.
 *
 *   record   checksum of the header 4 | sequence 8 | length of the body 4 | checksum of the body 4 | body
 *   body     for each row:  table 1 | has a value 1 | key length 2 | key | value length 4 | value
 */
import { crc32 } from './checksum.ts';

export const tableNames = ['objects', 'changes', 'state'] as const;
export type TableName = (typeof tableNames)[number];

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

const headerLength = 20;
const rowHeaderLength = 8;

export function encodeRecord({ sequence, rows }: LogRecord): Buffer {
  const bodyLength = rows.reduce((sum, { key, row }) => sum + rowHeaderLength + key.length + (row?.length ?? 0), 0);
  const record = Buffer.allocUnsafe(headerLength + bodyLength);
  let at = headerLength;
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
  record.writeUInt32BE(crc32(record.subarray(headerLength)), 16);
  record.writeUInt32BE(crc32(record.subarray(4, headerLength)), 0);
  return record;
}

/** The records of one file, up to the first that is not whole. */
export function decodeRecords(bytes: Buffer): { readonly records: readonly LogRecord[]; readonly isDamaged: boolean } {
  const records: LogRecord[] = [];
  for (let at = 0; bytes.length - at >= headerLength;) {
    const header = bytes.subarray(at, at + headerLength);
    if (header.readUInt32BE(0) !== crc32(header.subarray(4))) break;
    const end = at + headerLength + header.readUInt32BE(12);
    const body = bytes.subarray(at + headerLength, end);
    if (header.readUInt32BE(16) !== crc32(body)) return { records, isDamaged: bytes.length > end };
    records.push({ sequence: header.readDoubleBE(4), rows: decodeRows(body) });
    at = end;
  }
  return { records, isDamaged: false };
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
