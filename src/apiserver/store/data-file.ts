/**
 * A look at LMDB's file before LMDB maps it: given a file that is not its own the engine ends the process with a
 * segmentation fault, and so does reading behind the end of a file that was cut short. Only the header is read here.
 *
 *   page 0 and page 1:  header 24 | magic 4 | version 4 | address 8 | map size 8 | page size 4 | ... | last page 8 | transaction 8
 */
import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';

const magic = 0xbeefc0de;
const version = 2;
const at = { magic: 24, version: 28, pageSize: 48, lastPage: 144, transaction: 152 } as const;
const metaLength = 160;

/** Returns why the file is not one of the engine's, or undefined when it is one, or new. */
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
    const first = readMeta(descriptor, 0);
    const pageSize = first?.pageSize ?? 0;
    const second = pageSize < 512 || pageSize > 65_536 ? undefined : readMeta(descriptor, pageSize);
    if (first === undefined || second === undefined || second.pageSize !== pageSize)
      return `"${path}" is not a data file`;
    const { lastPage } = second.transaction > first.transaction ? second : first;
    // Pages at the end may be free and never written. If they are not, what reads them finds zeros, and says so.
    if (size < (lastPage + 1) * pageSize) ftruncateSync(descriptor, (lastPage + 1) * pageSize);
    return undefined;
  } finally {
    closeSync(descriptor);
  }
}

function readMeta(
  descriptor: number,
  offset: number,
): { readonly pageSize: number; readonly lastPage: number; readonly transaction: number } | undefined {
  const page = Buffer.alloc(metaLength);
  if (readSync(descriptor, page, 0, metaLength, offset) < metaLength) return undefined;
  if (page.readUInt32LE(at.magic) !== magic || (page.readUInt32LE(at.version) & 0xffff) !== version) return undefined;
  const lastPage = page.readBigUInt64LE(at.lastPage);
  if (lastPage > 2n ** 40n) return undefined;
  return {
    pageSize: page.readUInt32LE(at.pageSize),
    lastPage: Number(lastPage),
    transaction: Number(page.readBigUInt64LE(at.transaction)),
  };
}
