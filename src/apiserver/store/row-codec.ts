/**
 * Rows as bytes, in buffers from Node's pool, which are cheap to make and to forget. Every row begins with a checksum over itself and the key it stands under, because the engine has none: a
 * row that was torn, changed or put in another place is recognised and reported, never served.
 *
 *   object   checksum 4 | revision 8 | value
 *   change   checksum 4 | time 8 | type 1 | previous revision 8 | key length 2 | key | previous length 4 | previous | value
 *   state    checksum 4 | format 4 | revision 8 | compacted revision 8 | sequence 8
 *
 * A change has the value before it and not the one after: that is the one before the next change of the same key, or the
 * object itself. Only a deletion has both, as nothing else has its last content. So a write costs two values, not three.
 */
import { crc32 } from './checksum.ts';
import type { LoggedChange } from './change-log.ts';
import type { StoredObject } from './store.ts';
import type { ValueSeal } from './value-seal.ts';

export const storeFormat = 1;

export interface StoreState {
  readonly format: number;
  readonly revision: number;
  readonly compactedRevision: number;
  /** Of the last commit that is in the tables; later ones are in the log. */
  readonly sequence: number;
}

interface ObjectRow {
  readonly object: StoredObject;
  readonly isStale: boolean;
}

/** A change as it is on disk. */
export interface ChangeRow {
  readonly type: 'put' | 'delete';
  readonly key: string;
  readonly revision: number;
  readonly time: number;
  readonly previous: string | undefined;
  readonly previousRevision: number;
  /** Only of a deletion. */
  readonly value: string | undefined;
  readonly isStale: boolean;
}

interface Damage {
  readonly damage: string;
}

const checksumLength = 4;
const objectHeaderLength = checksumLength + 8;
const changeHeaderLength = checksumLength + 8 + 1 + 8 + 2;
const stateLength = checksumLength + 28;
const deleteType = 2;
const putType = 1;

export function objectRowKey(key: string): Buffer {
  return Buffer.from(key);
}

/** Big endian, so that the engine's order is that of revisions. */
export function changeRowKey(revision: number): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeUInt16BE(0);
  bytes.writeUIntBE(revision, 2, 6); // 48 bits: at a million writes a second, nine years
  return bytes;
}

export function revisionOfRowKey(rowKey: Buffer): number {
  return rowKey.readUIntBE(2, 6);
}

export function encodeObject(object: StoredObject, seal: ValueSeal): Buffer {
  const value = seal.seal({ part: 'object', key: object.key, revision: object.revision }, object.value);
  const row = Buffer.allocUnsafe(objectHeaderLength + value.length);
  row.writeDoubleBE(object.revision, checksumLength);
  value.copy(row, objectHeaderLength);
  return withChecksum(objectRowKey(object.key), row);
}

export function decodeObject(key: string, row: Buffer, seal: ValueSeal): ObjectRow | Damage {
  if (!isWhole(objectRowKey(key), row, objectHeaderLength)) return tornRow;
  const revision = row.readDoubleBE(checksumLength);
  const opened = seal.open({ part: 'object', key, revision }, row.subarray(objectHeaderLength));
  if ('damage' in opened) return opened;
  return { object: { key, value: opened.value, revision }, isStale: opened.isStale };
}

export function encodeChange(change: LoggedChange, seal: ValueSeal): Buffer {
  const { type, key, revision, time, value, previous, previousRevision } = change;
  const keyBytes = Buffer.from(key);
  const previousBytes = previous === undefined ? nothing : seal.seal({ part: 'previous', key, revision }, previous);
  const valueBytes = type === 'delete' ? seal.seal({ part: 'deleted', key, revision }, value) : nothing;
  const keyEnd = changeHeaderLength + keyBytes.length;
  const row = Buffer.allocUnsafe(keyEnd + 4 + previousBytes.length + valueBytes.length);
  row.writeDoubleBE(time, 4);
  row.writeUInt8(type === 'delete' ? deleteType : putType, 12);
  row.writeDoubleBE(previousRevision, 13);
  row.writeUInt16BE(keyBytes.length, 21);
  keyBytes.copy(row, changeHeaderLength);
  row.writeUInt32BE(previousBytes.length, keyEnd);
  previousBytes.copy(row, keyEnd + 4);
  valueBytes.copy(row, keyEnd + 4 + previousBytes.length);
  return withChecksum(changeRowKey(revision), row);
}

export function decodeChange(revision: number, row: Buffer, seal: ValueSeal): ChangeRow | Damage {
  if (!isWhole(changeRowKey(revision), row, changeHeaderLength + 4)) return tornRow;
  const keyEnd = changeHeaderLength + row.readUInt16BE(21);
  const key = row.toString('utf8', changeHeaderLength, keyEnd);
  const previousEnd = keyEnd + 4 + row.readUInt32BE(keyEnd);
  const previous = openPart(seal, 'previous', key, revision, row.subarray(keyEnd + 4, previousEnd));
  const value = openPart(seal, 'deleted', key, revision, row.subarray(previousEnd));
  if ('damage' in previous) return previous;
  if ('damage' in value) return value;
  return {
    type: row.readUInt8(12) === deleteType ? 'delete' : 'put',
    key,
    revision,
    time: row.readDoubleBE(4),
    previous: previous.value,
    previousRevision: row.readDoubleBE(13),
    value: value.value,
    isStale: previous.isStale || value.isStale,
  };
}

export function encodeState({ format, revision, compactedRevision, sequence }: StoreState): Buffer {
  const row = Buffer.alloc(stateLength);
  row.writeUInt32BE(format, 4);
  row.writeDoubleBE(revision, 8);
  row.writeDoubleBE(compactedRevision, 16);
  row.writeDoubleBE(sequence, 24);
  return withChecksum(stateRowKey, row);
}

export function decodeState(row: Buffer): StoreState | Damage {
  if (!isWhole(stateRowKey, row, stateLength)) return tornRow;
  return {
    format: row.readUInt32BE(4),
    revision: row.readDoubleBE(8),
    compactedRevision: row.readDoubleBE(16),
    sequence: row.readDoubleBE(24),
  };
}

export const stateRowKey = Buffer.from('state');

const nothing = Buffer.alloc(0);
const tornRow: Damage = { damage: 'its bytes are not those that were written (the checksum differs)' };

function openPart(
  seal: ValueSeal,
  part: 'previous' | 'deleted',
  key: string,
  revision: number,
  bytes: Buffer,
): { readonly value: string | undefined; readonly isStale: boolean } | Damage {
  return bytes.length === 0 ? { value: undefined, isStale: false } : seal.open({ part, key, revision }, bytes);
}

function withChecksum(rowKey: Uint8Array, row: Buffer): Buffer {
  row.writeUInt32BE(checksumOf(rowKey, row), 0);
  return row;
}

function isWhole(rowKey: Uint8Array, row: Buffer, lengthMin: number): boolean {
  return row.length >= lengthMin && row.readUInt32BE(0) === checksumOf(rowKey, row);
}

function checksumOf(rowKey: Uint8Array, row: Buffer): number {
  return crc32(row.subarray(checksumLength), crc32(rowKey));
}
