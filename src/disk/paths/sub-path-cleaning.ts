/** Takes away the binds that sub-path.ts made, when a volume or its pod goes. */
import { lstatSync, readdirSync, rmdirSync, statSync, unlinkSync, type Dirent, type Stats } from 'node:fs';
import { dirname, join } from 'node:path';
import { MountletError } from '../../base/errors.ts';
import type { Mounts } from '../mounts/mounts.ts';
import { isWithin } from './path-within.ts';
import { UnsafePathError, textOf } from './safe-open.ts';
import { errnoOf } from '../system-call-error.ts';

const directoryName = 'volume-subpaths';

export class SubPathCleaningError extends MountletError {
  readonly reason = 'SubPathNotCleaned';
}

export interface SubPathOwner {
  readonly podDirectory: string;
  readonly volumeName: string;
  readonly containerName: string;
  readonly index: number;
}

/** Where a container's binds of one volume are. */
export function subPathDirectory({ podDirectory, volumeName, containerName }: SubPathOwner): string {
  return join(podDirectory, directoryName, requireName(volumeName), requireName(containerName));
}

/** No container can have this name, so it stands beside those of the containers. */
const liveName = '..live';

/** Where the subPaths of a volume are that follow its updates: a mount of its own, made by live-sub-paths.ts. */
export function liveSubPathsDirectory(podDirectory: string, volumeName: string): string {
  return join(podDirectory, directoryName, requireName(volumeName), liveName);
}

/** The volumes of a pod that have subPaths, following or not. */
export function volumesWithSubPaths(podDirectory: string): string[] {
  return (entriesOf(join(podDirectory, directoryName)) ?? [])
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

/** Validation has seen to it already, unless someone went around it; then the name must not become a way out. */
export function requireName(name: string): string {
  if (['', '.', '..', liveName].includes(name) || /[/\0]/.test(name)) {
    throw new UnsafePathError(`invalid name of a volume or container: ${JSON.stringify(name)}`);
  }
  return name;
}

const brokenMountCodes = new Set(['ENOTCONN', 'ESTALE', 'EIO', 'EACCES', 'EHOSTDOWN', 'EAGAIN', 'ENODEV']);

/** Whether an error says that a mount is there whose file system is gone (a dead server, a crashed FUSE program). */
export function isBrokenMount(thrown: unknown): boolean {
  return brokenMountCodes.has(errnoOf(thrown) ?? '');
}

/**
 * Unmounts and removes all binds of a volume of a pod, of all its containers. Missing ones are fine. What is below a
 * bind is never looked at: it is the volume's.
 */
export function cleanSubPaths(podDirectory: string, volumeName: string, mounts: Mounts): void {
  const directory = join(podDirectory, directoryName, requireName(volumeName));
  if (entriesOf(directory) === undefined) return;
  cleanLiveSubPaths(join(directory, liveName), mounts);
  for (const container of entriesOf(directory) ?? []) {
    if (!container.isDirectory()) continue; // not ours: it stays, and removing the directory below fails by it
    const containerDirectory = join(directory, container.name);
    for (const { name } of entriesOf(containerDirectory) ?? []) {
      try {
        cleanMountPoint(join(containerDirectory, name), mounts);
      } catch (thrown) {
        throw cleaningError(`error processing ${containerDirectory}`, thrown);
      }
    }
    removeDirectory(containerDirectory);
  }
  removeDirectory(directory);
  removeDirectory(join(podDirectory, directoryName), ['ENOTEMPTY', 'EEXIST']); // other volumes may have binds
}

/** Lazily, and with it goes all that is mounted below it. What it holds is in memory and goes with its last user. */
function cleanLiveSubPaths(directory: string, mounts: Mounts): void {
  try {
    unmountAll(directory, mounts, { lazy: true });
    remove(directory);
  } catch (thrown) {
    throw cleaningError(`error cleaning subpath mount ${directory}`, thrown);
  }
}

/** Undoes one bind, after it failed: also what was made for it, as far as it is empty. Its failure is not the news. */
export function cleanSubPath(owner: SubPathOwner, mounts: Mounts): void {
  try {
    const containerDirectory = subPathDirectory(owner);
    cleanMountPoint(join(containerDirectory, String(owner.index)), mounts);
    removeEmptyDirectories(owner.podDirectory, containerDirectory);
  } catch (thrown) {
    if (!(thrown instanceof MountletError)) throw thrown;
  }
}

/** Removes directories from `end` upwards until one that is not empty, never `base` itself. Missing ones are skipped. */
export function removeEmptyDirectories(base: string, end: string): void {
  if (!isWithin(base, end)) {
    throw new SubPathCleaningError(`endDir ${JSON.stringify(end)} is not within baseDir ${JSON.stringify(base)}`);
  }
  for (let current = end; current !== base; current = dirname(current)) {
    const status = statOf(current);
    if (status === undefined) continue;
    if (!status.isDirectory()) throw new SubPathCleaningError(`path ${JSON.stringify(current)} not a directory`);
    try {
      rmdirSync(current);
    } catch (thrown) {
      if (errnoOf(thrown) === 'ENOTEMPTY' || errnoOf(thrown) === 'EEXIST') return;
      throw cleaningError(`error removing directory ${JSON.stringify(current)}`, thrown);
    }
  }
}

/** A place bound twice by mistake needs two unmounts; a place that needs more than this is no mistake of ours. */
const unmountsMax = 8;

function cleanMountPoint(path: string, mounts: Mounts): void {
  try {
    unmountAll(path, mounts);
    remove(path);
  } catch (thrown) {
    throw cleaningError(`error cleaning subpath mount ${path}`, thrown);
  }
}

/** Takes off all that is mounted on a place. */
export function unmountAll(path: string, mounts: Mounts, options: { readonly lazy?: boolean } = {}): void {
  for (let count = 0; isMounted(path, mounts); count += 1) {
    if (count === unmountsMax) throw new SubPathCleaningError(`failed to cleanup mount point ${path}`);
    mounts.unmount(path, options);
  }
}

function isMounted(path: string, mounts: Mounts): boolean {
  try {
    return mounts.isMountPoint(path);
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return false;
    if (isBrokenMount(thrown)) return true;
    throw thrown;
  }
}

function remove(path: string): void {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined) return;
  if (status.isDirectory()) rmdirSync(path);
  else unlinkSync(path);
}

function removeDirectory(path: string, tolerated: readonly (string | undefined)[] = []): void {
  try {
    rmdirSync(path);
  } catch (thrown) {
    if (!tolerated.includes(errnoOf(thrown))) throw cleaningError(`error deleting ${path}`, thrown);
  }
}

function entriesOf(directory: string): Dirent[] | undefined {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return undefined;
    throw cleaningError(`error reading ${directory}`, thrown);
  }
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return undefined;
    throw cleaningError(`error stat ${JSON.stringify(path)}`, thrown);
  }
}

function cleaningError(failure: string, thrown: unknown): SubPathCleaningError {
  const detail = thrown instanceof MountletError ? thrown.message : textOf(thrown);
  return new SubPathCleaningError(`${failure}: ${detail}`, { cause: thrown });
}
