/**
 * Mounts a block device, and makes a file system on it first when there is nothing on it. What is there is never
 * overwritten: anything that was recognised, a partition table too, is checked and mounted or refused.
 */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { messageOf } from '../../base/errors.ts';
import { systemCallError } from '../../linux/system-call-error.ts';
import { type BlockDevice, deviceSizeBytes, isReadOnlyDevice, mountPointsOf } from './block-device.ts';
import {
  MountCommandError,
  ProgramMissingError,
  type ProgramOutput,
  type Programs,
  exitText,
  runMount,
  spoken,
} from './programs.ts';
import { DiskError } from '../mounts/disk-error.ts';

export interface DeviceMountSettings {
  readonly device: BlockDevice;
  readonly target: string;
  /** The file system to make; empty for ext4. */
  readonly fileSystem: string;
  /** As for mount(8); with `ro` among them nothing is written to the device. */
  readonly options: readonly string[];
  /** What the volume should hold: an ext file system that is smaller grows before it is mounted, if the device has. */
  readonly sizeBytes?: bigint | undefined;
  /** For storage that may be a user's file: formats only what has zeros at both ends. */
  readonly blankOnly?: FormatMark | undefined;
}

/** Remembers that formatting was begun: half a file system is neither blank nor a user's data. */
export interface FormatMark {
  begin(): void;
  end(): void;
  wasBegun(): boolean;
}

export interface DeviceMountOutcome {
  readonly formatted: boolean;
  /** What fsck has repaired, in its own words. */
  readonly repaired?: string | undefined;
}

/** Large disks take minutes, and a check of one with many files longer than that. */
const workMsMax = 30 * 60_000;

export async function mountDevice(
  programs: Programs,
  settings: DeviceMountSettings,
  signal: AbortSignal,
): Promise<DeviceMountOutcome> {
  const { device, target, sizeBytes = 0n } = settings;
  const fileSystem = settings.fileSystem === '' ? 'ext4' : settings.fileSystem;
  // It becomes part of a program's name.
  if (!/^[a-z0-9][a-z0-9_.-]{0,31}$/i.test(fileSystem)) {
    throw new DiskError('InvalidFileSystemType', `Cannot use "${fileSystem}": no file system has such a name`);
  }
  const readOnly = settings.options.includes('ro');
  const found = await diskFormatOf(programs, device, signal);
  let repaired: string | undefined;
  if (found === '') await format(programs, settings, fileSystem, signal);
  else if (!readOnly) {
    repaired = await checkAndRepair(programs, device.path, signal);
    const isUnused = /^ext[34]$/.test(found) && mountPointsOf(device).length === 0;
    if (isUnused && (await canGrow(device, sizeBytes))) await growUnmounted(programs, device, signal);
  }
  const options = [...settings.options, 'defaults'];
  try {
    await runMount(programs, { source: device.path, target, fileSystem, options }, signal);
  } catch (error) {
    if (!(error instanceof MountCommandError)) throw error;
    const isMismatch = found !== '' && found !== fileSystem;
    const why = `Configured to mount disk ${device.path} as ${fileSystem} but current format is ${found}`;
    throw isMismatch
      ? new DiskError('FilesystemMismatch', `${error.message.trimEnd()}\n${why}`, { cause: error })
      : new DiskError('MountFailed', messageOf(error), { cause: error });
  }
  return { formatted: found === '', ...(repaired !== undefined && { repaired }) };
}

async function format(
  programs: Programs,
  { device, target, options, blankOnly }: DeviceMountSettings,
  fileSystem: string,
  signal: AbortSignal,
): Promise<void> {
  const { path } = device;
  if (options.includes('ro')) {
    throw new DiskError(
      'UnformattedReadOnly',
      `cannot mount unformatted disk ${path} as we are manipulating it in read-only mode`,
    );
  }
  if (blankOnly !== undefined && !blankOnly.wasBegun() && !(await isBlank(device))) {
    const why = `Cannot format ${path}: it has data that is no file system`;
    throw new DiskError('NotBlank', `${why}; use a file that holds only zeros (truncate -s SIZE FILE)`);
  }
  blankOnly?.begin();
  const args = [...formatOptions(fileSystem), path];
  const output = await programs.run({ program: `mkfs.${fileSystem}`, args, timeoutMs: workMsMax }, signal);
  if (output.status !== 0) {
    const shown = [...options, 'defaults'].join(',');
    throw new DiskError(
      'FormatFailed',
      `format of disk "${path}" failed: type:("${fileSystem}") target:("${target}") options:("${shown}") errcode:(${exitText(output)}) output:(${spoken(output)}) `,
    );
  }
  blankOnly?.end();
}

function formatOptions(fileSystem: string): readonly string[] {
  if (fileSystem === 'ext4' || fileSystem === 'ext3') return ['-F', '-m0'];
  return fileSystem === 'xfs' ? ['-f'] : [];
}

/** Bits of the exit code of fsck(8). */
const corrected = 1;
const uncorrected = 4;

async function checkAndRepair(programs: Programs, path: string, signal: AbortSignal): Promise<string | undefined> {
  let output: ProgramOutput;
  try {
    output = await programs.run({ program: 'fsck', args: ['-a', path], timeoutMs: workMsMax }, signal);
  } catch (error) {
    if (error instanceof ProgramMissingError) return undefined; // the kernel finds what is badly wrong when it mounts
    throw error;
  }
  if ((output.status & uncorrected) !== 0) {
    throw new DiskError(
      'HasFilesystemErrors',
      `'fsck' found errors on device ${path} but could not correct them: ${spoken(output)}`,
    );
  }
  // It could not be checked (no fsck for this file system, not a file system at all): mounting will show.
  return (output.status & corrected) === 0 ? undefined : spoken(output).trim();
}

/** The kubelet's word for a device with a partition table, which is never formatted. */
export const partitioned = 'unknown data, probably partitions';

const probeMsMax = 60_000;

/** Reads what is on a device: the name of a file system (`ext4`), `partitioned`, or an empty text when nothing was recognised. */
export async function diskFormatOf(programs: Programs, device: BlockDevice, signal: AbortSignal): Promise<string> {
  // To blkid a device that cannot be read has no format either, and it would be formatted.
  await readAt(device, 0n, probeBytes);
  const args = ['-p', '-s', 'TYPE', '-s', 'PTTYPE', '-o', 'export', device.path];
  const output = await programs.run({ program: 'blkid', args, timeoutMs: probeMsMax }, signal);
  if (output.status === 2) return '';
  if (output.status !== 0) {
    // 8: several formats at once, which it cannot choose from.
    throw new DiskError(
      'GetDiskFormatFailed',
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

/** The size of an ext2, ext3 or ext4 according to its superblock; undefined for anything else. */
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

/** Groups of blocks are initialised one after another; a check reads them all. */
const growthMsMax = 30 * 60_000;

/** Grows a file system to the size of its device. `mountPoint` is where it is mounted; xfs and btrfs can only grow there. */
export async function growFileSystem(
  programs: Programs,
  device: BlockDevice,
  mountPoint: string,
  signal: AbortSignal,
): Promise<void> {
  const { path } = device;
  if (isReadOnlyDevice(device)) return;
  const found = await diskFormatOf(programs, device, signal);
  switch (found) {
    case '': // formatting will use all of it
      return;
    case 'ext3':
    case 'ext4':
      if (mountPointsOf(device).length === 0) return growUnmounted(programs, device, signal);
      return grow(programs, path, 'resize2fs', [path], signal);
    case 'xfs':
      return grow(programs, mountPoint, 'xfs_growfs', ['-d', mountPoint], signal);
    case 'btrfs':
      return grow(programs, mountPoint, 'btrfs', ['filesystem', 'resize', 'max', mountPoint], signal);
    default:
      throw new DiskError(
        'FileSystemResizeFailed',
        `ResizeFS.Resize - resize of format ${found} is not supported for device ${path} mounted at ${mountPoint}`,
      );
  }
}

/** Whether an ext file system is smaller than wanted and leaves room on its device, which has grown since. */
async function canGrow(device: BlockDevice, wantedBytes: bigint): Promise<boolean> {
  const usedBytes = await extSizeBytes(device);
  const largestBlockBytes = 65536n; // what is left at the end is less than one block
  if (usedBytes === undefined || usedBytes >= wantedBytes) return false;
  return deviceSizeBytes(device) - usedBytes >= largestBlockBytes;
}

/** For ext3 and ext4 that are mounted nowhere: this needs no more than the right to write to the device. */
async function growUnmounted(programs: Programs, device: BlockDevice, signal: AbortSignal): Promise<void> {
  const { path } = device;
  // resize2fs insists on a complete check; a file system that was just used counts as unchecked.
  const check = await programs.run({ program: 'e2fsck', args: ['-f', '-p', path], timeoutMs: growthMsMax }, signal);
  if (check.status > 3) {
    throw new DiskError(
      'FileSystemResizeFailed',
      `resize of device ${path} failed: ${exitText(check)}. e2fsck output: ${spoken(check)}`.trimEnd(),
    );
  }
  await grow(programs, path, 'resize2fs', [path], signal);
}

async function grow(
  programs: Programs,
  what: string,
  program: 'resize2fs' | 'xfs_growfs' | 'btrfs',
  args: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const output = await programs.run({ program, args, timeoutMs: growthMsMax }, signal);
  if (output.status === 0) return;
  const why = `resize of device ${what} failed: ${exitText(output)}. ${program} output: ${spoken(output)}`.trimEnd();
  if (!output.stderr.includes('Permission denied to resize filesystem'))
    throw new DiskError('FileSystemResizeFailed', why);
  // The kernel lets only a process with CAP_SYS_RESOURCE grow an ext4 that is mounted.
  throw new DiskError('FileSystemInUse', `${why}\nIt grows while it is not mounted: restart the pods that use it`);
}
