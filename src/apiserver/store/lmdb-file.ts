/** Reads what versions before this one wrote: tables of LMDB in `data.mdb`, and a log of the commits that are not in them yet. */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { crc32, encodeRow, type Row } from './row.ts';
import { snapshotName, writeSnapshot, type StoreState } from './snapshot.ts';

const dataName = 'data.mdb';

/** Makes a snapshot of it at the first start. Clients list again: the changes are not taken over. */
export async function migrateLmdb(directory: string, draft: string): Promise<void> {
  const [data, snapshot] = [join(directory, dataName), join(directory, snapshotName)];
  if (!existsSync(data)) return;
  if (!existsSync(snapshot)) await writeSnapshot(snapshot, draft, readLmdb(data));
  for (const name of [dataName, 'lock.mdb']) rmSync(join(directory, name), { force: true });
}

export function isLmdb(bytes: Buffer): boolean {
  return bytes.length >= 160 && bytes.readUInt32LE(24) === 0xbeefc0de;
}

/** As what a snapshot is written of. */
export function readLmdb(
  path: string,
): Pick<Parameters<typeof writeSnapshot>[2], 'base' | 'records'> & { state: StoreState } {
  const bytes = readFileSync(path);
  if (!isLmdb(bytes)) throw new Error(`"${path}" is not a data file`);
  const pageSize = bytes.readUInt32LE(48);
  const newest = bytes.readBigUInt64LE(152) > bytes.readBigUInt64LE(pageSize + 152) ? 0 : pageSize;
  const tables = new Map([...rowsOf(bytes, pageSize, newest + 96)].map(([key, tree]) => [String(key), tree]));
  const tableOf = (name: string): [string, Buffer][] => {
    const tree = tables.get(`${name}\0`);
    if (tree === undefined) throw new Error(`"${path}" is damaged: it has no ${name}`);
    return [...rowsOf(tree, pageSize, 0, bytes)].map(([key, row]) => [String(key), row]);
  };
  const objects = new Map(tableOf('objects'));
  let stateRow = new Map(tableOf('state')).get('state');
  const sequenceOf = (row: Buffer | undefined): number => row?.readDoubleBE(24) ?? 0;
  for (const { sequence, rows } of logOf(dirname(path))) {
    if (sequence !== sequenceOf(stateRow) + 1) continue;
    for (const { table, key, row } of rows) {
      if (table === 2) stateRow = row;
      else if (table === 0 && row !== undefined) objects.set(key, row);
      else if (table === 0) objects.delete(key);
    }
  }
  if (
    stateRow === undefined
      ? objects.size > 0
      : crc32(stateRow.subarray(4), crc32(Buffer.from('state'))) !== stateRow.readUInt32BE(0)
  )
    throw new Error(`"${path}" is damaged: its state is missing`);
  const [revision, sequence] = [stateRow?.readDoubleBE(8) ?? 0, sequenceOf(stateRow)];
  const state = { revision, sequence, compactedRevision: revision };
  return { base: undefined, records: [{ ...state, rows: [...objects].map(([key, row]) => rowOf(key, row)) }], state };
}

/** A damaged one stays a damaged one. */
function rowOf(key: string, old: Buffer): Row {
  const row = encodeRow({ type: 'put', key, revision: old.readDoubleBE(4), time: 0 }, old.subarray(12));
  if (crc32(old.subarray(4), crc32(Buffer.from(key))) !== old.readUInt32BE(0)) row.bytes.writeUInt32BE(0, 4);
  return row;
}

/** tree: page size 4 | flags 2 | depth 2 | 24 | entries 8 | root 8; page: 20 | end of offsets 2 | 2 | offsets | nodes */
function* rowsOf(tree: Buffer, pageSize: number, at: number, file = tree): Iterable<[Buffer, Buffer]> {
  if (tree.readBigUInt64LE(at + 32) === 0n) return;
  yield* walk(Number(tree.readBigUInt64LE(at + 40)), tree.readUInt16LE(at + 6));
  function* walk(page: number, depth: number): Iterable<[Buffer, Buffer]> {
    const start = page * pageSize + 24;
    if (depth < 1 || file.readUInt16LE(start - 6) !== (depth === 1 ? 2 : 1)) throw new Error(`page ${page} is damaged`);
    for (let index = 0; index < file.readUInt16LE(start - 4) / 2; index += 1) {
      const node = start + file.readUInt16LE(start + 2 * index);
      const [length, flags, keyEnd] = [
        file.readUInt32LE(node),
        file.readUInt16LE(node + 4),
        node + 8 + file.readUInt16LE(node + 6),
      ];
      if (depth > 1) yield* walk(length + flags * 2 ** 32, depth - 1);
      else {
        const value = flags === 1 ? Number(file.readBigUInt64LE(keyEnd)) * pageSize + 24 : keyEnd;
        yield [file.subarray(node + 8, keyEnd), file.subarray(value, value + length)];
      }
    }
  }
}

interface OldRecord {
  readonly sequence: number;
  readonly rows: { readonly table: number; readonly key: string; readonly row: Buffer | undefined }[];
}

/** record: checksum 4 | sequence 8 | body length 4 | checksum of the body 4 | rows: table 1 | has value 1 | key length 2 | key | length 4 | value */
function logOf(directory: string): OldRecord[] {
  const records: OldRecord[] = [];
  for (const path of ['log.0', 'log.1'].map((name) => join(directory, name)).filter(existsSync)) {
    const bytes = readFileSync(path);
    for (let at = 0; at + 20 <= bytes.length && bytes.readUInt32BE(at) === crc32(bytes.subarray(at + 4, at + 20));) {
      const body = bytes.subarray(at + 20, at + 20 + bytes.readUInt32BE(at + 12));
      if (crc32(body) !== bytes.readUInt32BE(at + 16)) break;
      const record: OldRecord = { sequence: bytes.readDoubleBE(at + 4), rows: [] };
      for (let row = 0; row < body.length;) {
        const keyEnd = row + 4 + body.readUInt16BE(row + 2);
        const end = keyEnd + 4 + body.readUInt32BE(keyEnd);
        const value = body[row + 1] === 1 ? body.subarray(keyEnd + 4, end) : undefined;
        record.rows.push({ table: body[row] ?? 0, key: body.toString('utf8', row + 4, keyEnd), row: value });
        row = end;
      }
      records.push(record);
      at += 20 + body.length;
    }
  }
  return records.toSorted((a, b) => a.sequence - b.sequence);
}
