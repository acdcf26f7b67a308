/**
 * A look at LMDB's file before LMDB maps it: the engine trusts what it maps, and a damaged page ends the process with a
 * segmentation fault or a failed assertion. This walks the newest snapshot as the engine would and checks whatever the engine
 * follows. Values are not read; each has a checksum of its own.
 *
 *   page        number 8 | transaction 8 | 2 | kind 2 | end of offsets 2, start of nodes 2 (overflow: length 4) | offsets 2 each | ... | nodes
 *   node        length of the value 4 | flags 2 | key length 2 | key | value       of a branch: child 4 + 2 | key length 2 | key
 *   tree        page size 4 | flags 2 | depth 2 | 24 | entries 8 | root 8          twice in pages 0 and 1, one for each named table
 *   page 0, 1   header 24 | magic 4 | version 4 | address 8 | map size 8 | tree of free pages | tree of tables | last page 8 | transaction 8
 */
import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';

const magic = 0xbeefc0de;
const version = 2;
const at = { magic: 24, version: 28, mapSize: 40, free: 48, main: 96, lastPage: 144, transaction: 152 } as const;
const metaLength = 160;
const headerLength = 24;
const treeLength = 48;
const kinds = { branch: 1, leaf: 2, overflow: 4 } as const;
const nodeFlags = { overflow: 1, table: 2 } as const;
const nodeHeaderLength = 8;
/** Page, transaction, number of pages. */
const overflowLength = 24;
/** The flag of the tree of free pages. */
const integerKeys = 8;
const noRoot = 2n ** 64n - 1n;
/** As deep as the engine's own stack. */
const depthMax = 32;

interface Tree {
  readonly flags: number;
  readonly depth: number;
  readonly entries: bigint;
  readonly root: bigint;
}

interface Meta {
  readonly pageSize: number;
  readonly lastPage: number;
  readonly transaction: bigint;
  readonly free: Tree;
  readonly main: Tree;
}

/** One step of a walk in the order of keys. Between two children of a branch stands the key that separates them. */
interface Step {
  readonly key: Buffer;
  /** Absent for a separator. */
  readonly leaf?: { readonly flags: number; readonly valueLength: number; readonly value: Buffer };
}

class Damage extends Error {}

/** Where the pages end that are in use, or were: behind it the engine writes next. */
export function dataEnd(descriptor: number): number {
  const first = readMeta(descriptor, 0, 0);
  const second = first && readMeta(descriptor, first.pageSize, 1);
  return first === undefined || second === undefined
    ? 0
    : (Math.max(first.lastPage, second.lastPage) + 1) * first.pageSize;
}

/** Returns why the file is not a whole one of the engine's, or undefined when it is one, or new. */
export function wrongDataFile(path: string): string | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW);
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return undefined;
    throw thrown;
  }
  try {
    const { size } = fstatSync(descriptor);
    if (size === 0) return undefined;
    const first = readMeta(descriptor, 0, 0);
    const second = first && readMeta(descriptor, first.pageSize, 1);
    if (first === undefined || second === undefined || second.pageSize !== first.pageSize)
      return `"${path}" is not a data file`;
    const newest = second.transaction > first.transaction ? second : first;
    // Pages at the end may be free and never written. If they are not, what reads them finds zeros, and says so.
    const length = (newest.lastPage + 1) * newest.pageSize;
    if (size < length) ftruncateSync(descriptor, length);
    new Snapshot(descriptor, newest).check();
    return undefined;
  } catch (thrown) {
    if (!(thrown instanceof Damage)) throw thrown;
    return `"${path}" is damaged: ${thrown.message}`;
  } finally {
    closeSync(descriptor);
  }
}

function readMeta(descriptor: number, offset: number, index: number): Meta | undefined {
  const page = Buffer.alloc(metaLength);
  if (readSync(descriptor, page, 0, metaLength, offset) < metaLength) return undefined;
  if (page.readUInt32LE(at.magic) !== magic || page.readUInt32LE(at.version) !== version) return undefined;
  const pageSize = page.readUInt32LE(at.free);
  const lastPage = page.readBigUInt64LE(at.lastPage);
  const transaction = page.readBigUInt64LE(at.transaction);
  if (pageSize < 512 || pageSize > 65_536 || page.readBigUInt64LE(at.mapSize) % BigInt(pageSize) !== 0n)
    return undefined;
  // Transactions write the two pages in turn; a new file has none yet.
  if (lastPage > 2n ** 32n || (transaction > 0n && transaction % 2n !== BigInt(index))) return undefined;
  const [free, main] = [treeAt(page, at.free), treeAt(page, at.main)];
  return { pageSize, lastPage: Number(lastPage), transaction, free, main };
}

function treeAt(bytes: Buffer, offset: number): Tree {
  return {
    flags: bytes.readUInt16LE(offset + 4),
    depth: bytes.readUInt16LE(offset + 6),
    entries: bytes.readBigUInt64LE(offset + 32),
    root: bytes.readBigUInt64LE(offset + 40),
  };
}

/** What one transaction sees. Every page belongs to one place alone. */
class Snapshot {
  readonly #descriptor: number;
  readonly #meta: Meta;
  readonly #used: Uint8Array;

  constructor(descriptor: number, meta: Meta) {
    this.#descriptor = descriptor;
    this.#meta = meta;
    this.#used = new Uint8Array(meta.lastPage + 1);
  }

  check(): void {
    const { free, main } = this.#meta;
    for (const { flags, value, valueLength } of this.#rows(main, 0)) {
      if (flags !== nodeFlags.table) continue;
      if (valueLength !== treeLength) throw new Damage('a table is described wrongly');
      for (const _ of this.#rows(treeAt(value, 0), 0));
    }
    const lists = [...this.#rows(free, integerKeys)];
    for (const { value } of lists) this.#useFreePages(value);
  }

  /** Checks a tree while it is read, and the place of each value. */
  *#rows({ flags, depth, entries, root }: Tree, flagsExpected: number): Iterable<NonNullable<Step['leaf']>> {
    if (flags !== flagsExpected || depth > depthMax) throw new Damage('a table is described wrongly');
    if (root === noRoot && depth === 0 && entries === 0n) return;
    let count = 0n;
    let last: { readonly key: Buffer; readonly isLeaf: boolean } | undefined;
    for (const { key: stored, leaf } of this.#walk(root, depth)) {
      const isNumber = flags === integerKeys;
      if (isNumber ? stored.length !== 8 : stored.length === 0) throw new Damage('a key has a wrong length');
      // Numbers stand with their last byte first.
      const key = isNumber ? Buffer.from(stored).swap64() : stored;
      if (last !== undefined && key.compare(last.key) < (last.isLeaf ? 1 : 0))
        throw new Damage('keys are out of order');
      last = { key, isLeaf: leaf !== undefined };
      if (leaf === undefined) continue;
      count += 1n;
      const value = leaf.flags === nodeFlags.overflow ? this.#overflow(leaf, isNumber) : leaf.value;
      yield { ...leaf, value };
    }
    if (count !== entries) throw new Damage(`a table of ${entries} rows has ${count}`);
  }

  *#walk(number: bigint, depth: number): Iterable<Step> {
    const page = this.#read(number, 1);
    const isLeaf = depth === 1;
    if (page.readUInt16LE(18) !== (isLeaf ? kinds.leaf : kinds.branch))
      throw new Damage(`page ${number} is of a wrong kind`);
    // Both count from behind the header.
    const [lower, upper, end] = [page.readUInt16LE(20), page.readUInt16LE(22), page.length - headerLength];
    if (lower % 2 !== 0 || lower < (isLeaf ? 2 : 4) || lower > upper || upper > end) {
      throw new Damage(`page ${number} has a wrong size`);
    }
    let bytes = 0;
    for (let index = 0; index < lower / 2; index += 1) {
      const offset = page.readUInt16LE(headerLength + 2 * index);
      if (offset < upper || offset % 2 !== 0 || offset + nodeHeaderLength > end)
        throw new Damage(`page ${number} has a wrong offset`);
      const node = page.subarray(headerLength + offset);
      const [valueLength, flags, keyLength] = [node.readUInt32LE(0), node.readUInt16LE(4), node.readUInt16LE(6)];
      const keyEnd = nodeHeaderLength + keyLength;
      const length = keyEnd + (!isLeaf ? 0 : flags === nodeFlags.overflow ? overflowLength : valueLength);
      if (length > node.length) throw new Damage(`page ${number} has a row that goes beyond its end`);
      bytes += length + (length % 2);
      const key = node.subarray(nodeHeaderLength, keyEnd);
      if (!isLeaf) {
        // The first key of a branch is not used, and may be empty.
        if (index > 0) yield { key };
        yield* this.#walk(BigInt(valueLength) + (BigInt(flags) << 32n), depth - 1);
      } else if (flags > nodeFlags.table) throw new Damage(`page ${number} has a row of a wrong kind`);
      else yield { key, leaf: { flags, valueLength, value: node.subarray(keyEnd, length) } };
    }
    if (bytes !== end - upper) throw new Damage(`page ${number} has rows that overlap`);
  }

  #overflow({ value, valueLength }: NonNullable<Step['leaf']>, reads: boolean): Buffer {
    const [number, transaction, pages] = [0, 8, 16].map((offset) => value.readBigUInt64LE(offset));
    const count = Math.ceil((headerLength + valueLength) / this.#meta.pageSize);
    const page = this.#read(number ?? 0n, count, reads);
    if (
      pages !== BigInt(count) ||
      (transaction ?? 0n) > this.#meta.transaction ||
      page.readUInt16LE(18) !== kinds.overflow ||
      page.readUInt32LE(20) !== count
    ) {
      throw new Damage(`page ${number} is not the value of its row`);
    }
    return page.subarray(headerLength, headerLength + valueLength);
  }

  /** A count, then page numbers; a negative number is the length of a run that begins at the next one. */
  #useFreePages(list: Buffer): void {
    const count = list.length < 8 ? 0n : list.readBigUInt64LE(0);
    if (count === 0n || count * 8n + 8n > BigInt(list.length))
      throw new Damage('a list of free pages has a wrong length');
    for (let index = 1; index <= Number(count); index += 1) {
      const entry = list.readBigInt64LE(8 * index);
      if (entry > 0n) this.#use(entry, 1);
      else if (entry < 0n) {
        index += 1;
        if (index > Number(count) || -entry > this.#meta.lastPage)
          throw new Damage('a list of free pages has a wrong length');
        this.#use(list.readBigInt64LE(8 * index), Number(-entry));
      }
    }
  }

  #read(number: bigint, count: number, isWhole = false): Buffer {
    const { pageSize, transaction } = this.#meta;
    this.#use(number, count);
    const page = Buffer.alloc(isWhole ? count * pageSize : pageSize);
    readSync(this.#descriptor, page, 0, page.length, Number(number) * pageSize);
    if (page.readBigUInt64LE(0) !== number || page.readBigUInt64LE(8) > transaction) {
      throw new Damage(`page ${number} is not the one that was written there`);
    }
    return page;
  }

  #use(number: bigint, count: number): void {
    const first = Number(number);
    if (number < 2n || first + count - 1 > this.#meta.lastPage) throw new Damage(`there is no page ${number}`);
    if (this.#used.subarray(first, first + count).includes(1)) throw new Damage(`page ${number} is used twice`);
    this.#used.fill(1, first, first + count);
  }
}
