/** What is on a block device, found out without changing it. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { MountletError } from '../../base/errors.ts';
import { systemCallError } from '../system-call-error.ts';
import { deviceSizeBytes } from './block-device.ts';
import type { BlockDevice } from './block-device.ts';
import { exitText, spoken } from './programs.ts';
import type { Programs } from './programs.ts';

/** The kubelet's word for a device with a partition table, which is never formatted. */
export const partitioned = 'unknown data, probably partitions';

class DiskFormatError extends MountletError {
  readonly reason = 'GetDiskFormatFailed';
}

const probeMsMax = 60_000;

/** The name of the file system (`ext4`), `partitioned`, or an empty text when nothing was recognised. */
export async function diskFormatOf(programs: Programs, device: BlockDevice, signal: AbortSignal): Promise<string> {
  // To blkid a device that cannot be read has no format either, and it would be formatted.
  await readAt(device, 0n, probeBytes);
  const args = ['-p', '-s', 'TYPE', '-s', 'PTTYPE', '-o', 'export', device.path];
  const output = await programs.run({ program: 'blkid', args, timeoutMs: probeMsMax }, signal);
  if (output.status === 2) return '';
  if (output.status !== 0) {
    // 8: several formats at once, of which it cannot tell the right one.
    throw new DiskFormatError(
      `failed to get disk format of disk ${device.path}: ${exitText(output)} ${spoken(output)}`.trimEnd(),
    );
  }
  const found = new Map(output.stdout.split('\n').map(assignment));
  return found.has('PTTYPE') ? partitioned : (found.get('TYPE') ?? '');
}

function assignment(line: string): [name: string, value: string] {
  const at = line.indexOf('=');
  return at === -1 ? [line, ''] : [line.slice(0, at), line.slice(at + 1)];
}

/** Where a file, a document or a dump of a database has its content; a new file has zeros there. */
const probeBytes = 1024 * 1024;

/** Whether there are only zeros at both ends. */
export async function isBlank(device: BlockDevice): Promise<boolean> {
  const sizeBytes = deviceSizeBytes(device);
  const tail = sizeBytes > BigInt(probeBytes) ? sizeBytes - BigInt(probeBytes) : 0n;
  return isZero(await readAt(device, 0n, probeBytes)) && isZero(await readAt(device, tail, probeBytes));
}

function isZero(bytes: Buffer): boolean {
  return bytes.equals(Buffer.alloc(bytes.length));
}

/** The size of an ext2, ext3 or ext4 as its superblock tells it; undefined if there is none. */
export async function extSizeBytes(device: BlockDevice): Promise<bigint | undefined> {
  const block = await readAt(device, 1024n, 1024);
  if (block.length < 1024 || block.readUInt16LE(0x38) !== 0xef53) return undefined;
  const has64Bits = (block.readUInt32LE(0x60) & 0x80) !== 0;
  const blocks = BigInt(block.readUInt32LE(0x4)) | (has64Bits ? BigInt(block.readUInt32LE(0x150)) << 32n : 0n);
  return blocks << BigInt(10 + block.readUInt32LE(0x18));
}

/** In a thread of its own: a device that does not answer must not stop everything else. */
async function readAt({ path }: BlockDevice, offset: bigint, bytes: number): Promise<Buffer> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, Number(offset));
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}
