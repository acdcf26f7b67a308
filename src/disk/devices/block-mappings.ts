/**
 * A raw block device as a pod has it, in three parts that are made in this order and taken away in the other:
 *
 *   <map path>/<pod's UID>   a bind mount of the device; while there is one, the device is in use
 *   <link>                   leads to the device; container runtimes open it
 *   a loop device            made of the bind mount: it keeps the device open, also when this process ends, so that its
 *                            name cannot come to stand for another device while a container is started
 *
 * Every call may be repeated, and continues what another process began.
 */
import {
  closeSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { errorCode } from '../../base/errors.ts';
import { guarded, systemCallError } from '../../linux/system-call-error.ts';
import type { Mounts } from '../mounts/mounts.ts';
import { makeDirectoryWithMode } from '../paths/directories.ts';
import { removeTree } from '../paths/remove-tree.ts';
import { type BlockDevice, blockDeviceAt, deviceNumbers } from './block-device.ts';
import { LoopDevices } from './loop-devices.ts';
import type { Programs } from './programs.ts';
import { DiskError } from '../mounts/disk-error.ts';

interface MappedDevice {
  /** The directory that has a bind mount for each pod. Absolute. */
  readonly mapPath: string;
  /** Names the bind mount: one path segment. */
  readonly podUid: string;
  /** Absolute. */
  readonly link: string;
}

export interface NewMapping extends MappedDevice {
  readonly devicePath: string;
}

interface BlockMappingDeps {
  readonly mounts: Mounts;
  readonly programs: Programs;
  readonly clock: Clock;
}

const directoryMode = 0o750;
/** More than any mistake of ours could pile up; a table that grows faster is not ours to fight. */
const layersMax = 16;

export class BlockMappings {
  readonly #mounts: Mounts;
  readonly #loops: LoopDevices;
  readonly #clock: Clock;

  constructor({ mounts, programs, clock }: BlockMappingDeps) {
    this.#mounts = mounts;
    this.#loops = new LoopDevices(programs);
    this.#clock = clock;
  }

  /** The device's own path, behind links such as those of `/dev/disk/by-id`. */
  async resolve(devicePath: string): Promise<string> {
    return guarded(devicePath, () => realpathSync(devicePath));
  }

  async map({ devicePath, mapPath, podUid, link }: NewMapping, signal: AbortSignal): Promise<void> {
    const device = blockDeviceAt(devicePath);
    const { unavailable } = this.#mounts;
    if (unavailable !== undefined)
      throw new DiskError('BlockMappingFailed', `Cannot map "${devicePath}" for a pod: ${unavailable}`);
    requirePlainName(podUid);
    makeDirectoryWithMode(mapPath, directoryMode);
    const place = placeOf(mapPath, podUid);
    await this.#bind(device, place, signal);
    linkTo(devicePath, link);
    if (this.#loops.madeOf(place).length === 0) await this.#loops.makeReadOnly(place, signal);
  }

  async unmap({ mapPath, podUid, link }: MappedDevice, signal: AbortSignal): Promise<void> {
    const place = placeOf(mapPath, podUid);
    await this.#unlock(place, signal);
    unlink(link);
    this.#unbind(place);
  }

  /** Bind mounts that pods have of it. A directory that is not there has none. */
  async referencesBelow(mapPath: string): Promise<readonly string[]> {
    return guarded(mapPath, () => {
      // What readdir(3) says of an entry is what lies below the bind mount, so each of them is looked at.
      return entriesOf(mapPath)
        .map((name) => join(mapPath, name))
        .filter((path) => lstatSync(path, { throwIfNoEntry: false })?.isBlockDevice() === true);
    });
  }

  /** Refused while anything is mounted in it. */
  async remove(mapPath: string): Promise<void> {
    removeTree(mapPath);
  }

  /** A bind mount that is there counts, unless it shows another device: after a restart the names may be others. */
  async #bind(device: BlockDevice, place: string, signal: AbortSignal): Promise<void> {
    const shown = guarded(place, () => lstatSync(place, { bigint: true, throwIfNoEntry: false }));
    if (shown?.isBlockDevice() === true) {
      if (deviceNumbers(shown.rdev) === device.numbers) return;
      await this.#unlock(place, signal);
      this.#unbind(place);
    }
    guarded(place, () => closeSync(openSync(place, 'a', directoryMode)));
    this.#mounts.bind(device.path, place);
  }

  #unbind(place: string): void {
    guarded(place, () => {
      for (let layers = 0; layers < layersMax && isThere(place) && this.#mounts.isMountPoint(place); layers += 1) {
        this.#mounts.unmount(place);
      }
      if (isThere(place)) unlinkSync(place);
    });
  }

  /** Not before the loop device is really gone can the bind mount be unmounted. */
  async #unlock(place: string, signal: AbortSignal): Promise<void> {
    const left = await this.#loops.releaseAll(async () => this.#loops.madeOf(place), this.#clock, signal);
    if (left.length === 0) return;
    const names = left.map((path) => `"${path}"`).join(', ');
    throw new DiskError(
      'BlockMappingFailed',
      `Cannot release ${names}, which keeps "${place}" open: in use; see who has it open (fuser -v ${left.join(' ')})`,
    );
  }
}

function requirePlainName(podUid: string): void {
  if (!['', '.', '..'].includes(podUid) && !/[/\0]/.test(podUid)) return;
  throw new DiskError('BlockMappingFailed', `Cannot map a device for pod "${podUid}": that is no plain file name`);
}

/** Without links, as the kernel reports the file of a loop device. */
function placeOf(mapPath: string, podUid: string): string {
  requirePlainName(podUid);
  try {
    return join(realpathSync(mapPath), podUid);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return join(mapPath, podUid);
    throw systemCallError(error, mapPath);
  }
}

function linkTo(devicePath: string, link: string): void {
  makeDirectoryWithMode(dirname(link), directoryMode);
  guarded(link, () => {
    const found = lstatSync(link, { throwIfNoEntry: false });
    if (found?.isSymbolicLink() === true && readlinkSync(link) === devicePath) return;
    if (found !== undefined) unlinkSync(link); // of another boot, when the device had another name
    symlinkSync(devicePath, link);
  });
}

/** Whatever else has its name is not ours. */
function unlink(link: string): void {
  guarded(link, () => {
    if (lstatSync(link, { throwIfNoEntry: false })?.isSymbolicLink() === true) unlinkSync(link);
  });
}

function entriesOf(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}
