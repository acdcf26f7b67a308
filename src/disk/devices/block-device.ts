/** What the kernel reports about a block device: its name, numbers and size, and whether it is in use. Nothing is written here. */
import { constants, readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { guarded, systemCallError } from '../../linux/system-call-error.ts';
import { readMountTable } from '../mounts/mount-table.ts';
import { DiskError } from '../mounts/disk-error.ts';

export interface BlockDevice {
  /** The name the kernel gave it where there is one, which cannot come to mean another device. */
  readonly path: string;
  /** `major:minor`, as in the mount table. */
  readonly numbers: string;
}

/** Follows links: `/dev/disk/by-id/…` are some. */
export function blockDeviceAt(path: string): BlockDevice {
  const numbers = numbersAt(path);
  if (numbers === undefined) throw new DiskError('NotABlockDevice', `Cannot use "${path}": it is not a block device`);
  const own = kernelName(numbers);
  const isUsable = own !== undefined && numbersAt(own) === numbers;
  return { path: isUsable ? own : guarded(path, () => realpathSync(path)), numbers };
}

export function deviceSizeBytes({ numbers }: BlockDevice): bigint {
  const sectorBytes = 512n; // whatever the device's own sectors have
  return BigInt(attribute(numbers, 'size')) * sectorBytes;
}

export function isReadOnlyDevice({ numbers }: BlockDevice): boolean {
  return attribute(numbers, 'ro') !== '0';
}

/** Where a file system of the device is mounted; several times for bind mounts. */
export function mountPointsOf({ numbers, path }: BlockDevice): string[] {
  // A btrfs has numbers of its own in the table.
  return readMountTable()
    .filter(({ device, source }) => device === numbers || source === path)
    .map(({ mountPoint }) => mountPoint);
}

/** A device number of stat(2) as the kernel writes it elsewhere: `254:0`. */
export function deviceNumbers(device: bigint): string {
  const major = ((device >> 8n) & 0xfffn) | ((device >> 32n) & 0xfffff000n);
  const minor = (device & 0xffn) | ((device >> 12n) & 0xffffff00n);
  return `${major}:${minor}`;
}

function numbersAt(path: string): string | undefined {
  return guarded(path, () => {
    try {
      const status = statSync(path, { bigint: true });
      return status.isBlockDevice() ? deviceNumbers(status.rdev) : undefined;
    } catch (thrown) {
      if (errorCode(thrown) === 'ENOENT') return undefined;
      throw thrown;
    }
  });
}

function kernelName(numbers: string): string | undefined {
  try {
    return `/dev/${basename(readlinkSync(`/sys/dev/block/${numbers}`)).replaceAll('!', '/')}`;
  } catch {
    return undefined; // no /sys here: then the name that was given has to do
  }
}

function attribute(numbers: string, name: string): string {
  const path = `/sys/dev/block/${numbers}/${name}`;
  return guarded(path, () => readFileSync(path, 'utf8').trim());
}

/** Whether a device that should be free is still in use on this machine. */
export class SystemDevices {
  /** False for a path that is missing or not a device. */
  async isDevice(path: string): Promise<boolean> {
    try {
      const status = await stat(path);
      return status.isBlockDevice() || status.isCharacterDevice();
    } catch (error) {
      if (isMissing(error)) return false;
      throw systemCallError(error, path);
    }
  }

  /**
   * Mounted, or part of another device: those are the ones that claim it. A program that merely has it open does not, which
   * is as much as the kubelet asks.
   */
  async isOpen(path: string): Promise<boolean> {
    const { O_RDONLY, O_EXCL, O_NONBLOCK } = constants;
    try {
      await (await open(path, O_RDONLY | O_EXCL | O_NONBLOCK)).close();
      return false;
    } catch (error) {
      if (errorCode(error) === 'EBUSY') return true;
      if (isMissing(error)) return false;
      throw systemCallError(error, path);
    }
  }
}

/** No such path, or no device behind it any more. */
function isMissing(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR', 'ENXIO', 'ENODEV', 'ENOMEDIUM'].includes(errorCode(error) ?? '');
}
