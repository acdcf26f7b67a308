/** Grows a file system to the size of its device, mounted or not, as far as the kernel lets us. */
import { MountletError } from '../../base/errors.ts';
import { deviceSizeBytes, isReadOnlyDevice, mountPointsOf } from './block-device.ts';
import type { BlockDevice } from './block-device.ts';
import { diskFormatOf, extSizeBytes } from './disk-format.ts';
import { exitText, spoken } from './programs.ts';
import type { Programs } from './programs.ts';

/** The kubelet's text. */
class GrowthError extends MountletError {
  readonly reason = 'FileSystemResizeFailed';
}

/** Groups of blocks are initialised one after another; a check reads them all. */
const growthMsMax = 30 * 60_000;

/** `mountPoint` is where the file system is mounted; xfs and btrfs can only grow there. */
export async function growFileSystem(
  programs: Programs,
  device: BlockDevice,
  mountPoint: string,
  signal: AbortSignal,
): Promise<void> {
  const { path } = device;
  if (isReadOnlyDevice(device)) return;
  const format = await diskFormatOf(programs, device, signal);
  switch (format) {
    case '': // whoever formats it will use all of it
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
      throw new GrowthError(
        `ResizeFS.Resize - resize of format ${format} is not supported for device ${path} mounted at ${mountPoint}`,
      );
  }
}

/** Whether an ext file system is smaller than wanted and leaves room on its device, which has grown since. */
export async function canGrow(device: BlockDevice, wantedBytes: bigint): Promise<boolean> {
  const usedBytes = await extSizeBytes(device);
  const largestBlockBytes = 65536n; // what is left at the end is less than one block
  if (usedBytes === undefined || usedBytes >= wantedBytes) return false;
  return deviceSizeBytes(device) - usedBytes >= largestBlockBytes;
}

/** For ext3 and ext4 that are mounted nowhere: this needs no more than the right to write to the device. */
export async function growUnmounted(programs: Programs, device: BlockDevice, signal: AbortSignal): Promise<void> {
  const { path } = device;
  // resize2fs insists on a complete check; a file system that was just used counts as unchecked.
  const check = await programs.run({ program: 'e2fsck', args: ['-f', '-p', path], timeoutMs: growthMsMax }, signal);
  if (check.status > 3) {
    throw new GrowthError(
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
  throw new GrowthError(
    `resize of device ${what} failed: ${exitText(output)}. ${program} output: ${spoken(output)}`.trimEnd(),
  );
}
