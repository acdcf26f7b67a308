/**
 * A projected volume is mounted read-only, so the runtime cannot make directories in it for other volumes that a
 * container mounts below it (`/etc/app` and `/etc/app/cache`). They are made here, beforehand. Which containers there
 * are is the caller's knowledge.
 */
import { lstatSync, mkdirSync } from 'node:fs';
import { posix } from 'node:path';
import { systemErrorText } from '../../linux/system-call-error.ts';
import { DiskError } from '../mounts/disk-error.ts';

export interface MountPlace {
  readonly mountPath: string;
  readonly volumeName: string;
}

/**
 * Directories that `volumeName` needs, relative to it: for every place where a container (one list of mounts each) mounts
 * it, the outermost mount paths strictly below that place.
 */
export function nestedMountPoints(volumeName: string, containers: readonly (readonly MountPlace[])[]): string[] {
  return [...new Set(containers.flatMap((mounts) => nestedInContainer(volumeName, mounts)))];
}

function nestedInContainer(volumeName: string, mounts: readonly MountPlace[]): string[] {
  // Shorter first: an outer path always comes before what is nested in it, which sorting by text does not ensure.
  const paths = mounts.map(({ mountPath }) => cleanPath(mountPath)).toSorted((a, b) => a.length - b.length);
  const places = mounts.filter((mount) => mount.volumeName === volumeName).map(({ mountPath }) => cleanPath(mountPath));
  return places.flatMap((place) => {
    if (place.startsWith('../')) throw new DiskError('InvalidMountPoint', `invalid container mount point ${place}`);
    const outermost: string[] = [];
    for (const path of paths) {
      if (!path.startsWith(`${place}/`)) continue;
      if (!outermost.some((outer) => path === outer || path.startsWith(`${outer}/`))) outermost.push(path);
    }
    return outermost.map((path) => path.slice(place.length + 1));
  });
}

function cleanPath(path: string): string {
  const clean = posix.normalize(path);
  return clean.length > 1 && clean.endsWith('/') ? clean.slice(0, -1) : clean;
}

/**
 * Makes the directories. A first element that is a link is projected content: a directory made through it would stand in a
 * version of the payload, be taken for drift and vanish with the next write, so such a path is skipped and returned.
 * Any other link on the way could lead out of the volume and is an error, as is a file.
 */
export function makeNestedMountPoints(directory: string, paths: readonly string[]): string[] {
  return paths.filter((path) => !makeWithin(directory, path.split('/')));
}

function makeWithin(directory: string, elements: readonly string[]): boolean {
  let path = directory;
  try {
    for (const [depth, element] of elements.entries()) {
      path = `${path}/${element}`;
      // A directory named ..data would block the volume's content for ever.
      if (depth === 0 && element.startsWith('..')) throw nestedError(`mkdir ${path}: the name is reserved`);
      const entry = lstatSync(path, { throwIfNoEntry: false });
      if (entry === undefined) mkdirSync(path, 0o755);
      else if (depth === 0 && entry.isSymbolicLink()) return false;
      else if (!entry.isDirectory()) throw nestedError(`mkdir ${path}: not a directory`);
    }
  } catch (error) {
    throw error instanceof DiskError ? error : nestedError(systemErrorText(error), { cause: error });
  }
  return true;
}

function nestedError(problem: string, options?: ErrorOptions): DiskError {
  return new DiskError('NestedMountPointFailed', `unable to create nested volume mountpoints: ${problem}`, options);
}
