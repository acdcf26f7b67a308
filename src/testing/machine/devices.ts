/** What tests of block devices need: files that become loop devices, and the certainty that none of them stays. */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  realpathSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { SystemDevices } from '../../disk/devices/block-device.ts';
import type { Programs } from '../../disk/devices/programs.ts';
import { systemMounts } from '../../disk/mounts/mounts.ts';
import { directoryForMounts, mountPointsBelow } from './temporary-directory.ts';

/** For `skip`: false where loop devices can be made and mounted with these programs, else the reason. */
export function needsDevices(...programs: readonly string[]): string | false {
  if (process.geteuid?.() !== 0) return 'needs root: it makes loop devices';
  try {
    accessSync('/dev/loop-control', constants.R_OK | constants.W_OK);
  } catch {
    return 'needs /dev/loop-control';
  }
  const missing = ['losetup', 'blkid', ...programs].find((program) => !isInstalled(program));
  if (missing !== undefined) return `needs the program ${missing}`;
  const { unavailable } = systemMounts();
  return unavailable === undefined ? false : `needs to mount: ${unavailable}`;
}

/** As `needsDevices`, for a file system that the kernel must have too. */
export function needsFileSystem(fileSystem: string, ...programs: readonly string[]): string | false {
  const known = readFileSync('/proc/filesystems', 'utf8').split('\n');
  if (!known.some((line) => line.trim() === fileSystem)) return `needs a kernel with ${fileSystem}`;
  return needsDevices(`mkfs.${fileSystem}`, ...programs);
}

function isInstalled(program: string): boolean {
  return ['/usr/sbin', '/usr/bin', '/sbin', '/bin'].some((directory) => existsSync(join(directory, program)));
}

/**
 * A directory that goes with the test, after the mounts in it and the loop devices of its files. It is on a shared mount: what
 * is unmounted here is unmounted in the mount namespaces that other processes, also of other tests, have got meanwhile. Their
 * copies would keep a device in use.
 */
export function directoryForDevices(test: Pick<TestContext, 'after'>): string {
  let directory = '';
  // Before the mounts go, and with them the names that identify them. One that is mounted still goes with its mount.
  test.after(() => {
    for (const device of loopDevicesBelow(directory)) spawnSync('losetup', ['--detach', device]);
  });
  const ground = realpathSync(directoryForMounts(test));
  spawnSync('mount', ['--bind', ground, ground]);
  spawnSync('mount', ['--make-shared', ground]);
  directory = join(ground, 'devices');
  mkdirSync(directory);
  return directory;
}

const mebibyte = 1024 * 1024;

/** A sparse file of zeros. */
export function sparseFile(directory: string, name: string, sizeMebibytes = 16): string {
  const path = join(directory, name);
  writeFileSync(path, '');
  growFile(path, sizeMebibytes);
  return path;
}

export function growFile(path: string, sizeMebibytes: number): void {
  truncateSync(path, sizeMebibytes * mebibyte);
}

/** A loop device that is none of ours: an administrator's, or one that stands for a disk. */
export function foreignLoopDevice(file: string, ...options: readonly string[]): string {
  return execFileSync('losetup', ['--find', '--show', ...options, file], { encoding: 'utf8' }).trim();
}

/** The loop devices of files in a directory, by what the kernel says. */
export function loopDevicesBelow(directory: string): string[] {
  return readdirSync('/sys/block')
    .filter((name) => backingFile(name)?.startsWith(`${directory}/`))
    .map((name) => `/dev/${name}`);
}

function backingFile(name: string): string | undefined {
  try {
    return readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8');
  } catch {
    return undefined; // another kind of device, or one that shows no file
  }
}

/** Mount points and loop devices that a test left: for `assert.deepEqual(leftBelow(directory), [])`. */
export function leftBelow(directory: string): string[] {
  return [...mountPointsBelow(directory), ...loopDevicesBelow(directory)];
}

const glanceMs = 100;

/**
 * Programs with an onlooker, as udev, blkid and others are: each loop device is open elsewhere when it is released, and for
 * a moment longer.
 */
export function watchedPrograms(programs: Programs): Programs {
  return {
    run(command, signal) {
      if (command.args.includes('--detach')) {
        const descriptor = openSync(command.args.at(-1) ?? '', 'r');
        setTimeout(() => closeSync(descriptor), glanceMs);
      }
      return programs.run(command, signal);
    },
  };
}

/** A process that is just getting a mount namespace of its own has a copy of a mount, and with it its device, for a moment. */
export async function untilFree(device: string): Promise<void> {
  for (let looks = 0; looks < 2_400 && (await new SystemDevices().isOpen(device)); looks += 1)
    await systemClock.sleep(50);
}
