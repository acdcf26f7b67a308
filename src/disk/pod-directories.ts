/** The directories every pod has, and the directory of one volume in them. */
import { chmodSync, lstatSync, mkdirSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { MountletError } from '../base/errors.ts';
import { systemCallError } from './system-call-error.ts';

/** Never made by us: whoever put it there could turn what we write, or delete, to another place. */
class NotADirectoryError extends MountletError {
  readonly reason = 'NotADirectory';
  constructor(path: string, isLink: boolean) {
    const found = isLink ? 'a symbolic link' : 'a file';
    super(`Cannot use "${path}": it is ${found} and not a directory; remove it, or choose another root directory`);
  }
}

/**
 * Refuses a pod whose own directories are something else, from the directory of all pods down to that of a volume kind.
 * What a volume's name stands for is not looked at: memory that cannot be mounted is linked to.
 */
export function requirePodDirectories(podDirectory: string): void {
  guard(podDirectory, () => {
    requireDirectories(dirname(podDirectory), 0);
    requireDirectories(podDirectory, 0);
    requireDirectories(join(podDirectory, 'volumes'), 1);
    requireDirectories(join(podDirectory, 'plugins'), 2);
    requireDirectories(join(podDirectory, 'volume-subpaths'), 2);
  });
}

/** A missing one is fine: it will be made. */
function requireDirectories(path: string, levelsBelow: number): void {
  if (!isDirectory(path) || levelsBelow === 0) return;
  for (const name of readdirSync(path)) requireDirectories(join(path, name), levelsBelow - 1);
}

/** False if there is nothing. */
function isDirectory(path: string): boolean {
  const entry = lstatSync(path, { throwIfNoEntry: false });
  if (entry !== undefined && !entry.isDirectory()) throw new NotADirectoryError(path, entry.isSymbolicLink());
  return entry !== undefined;
}

/** Made in this order before any volume of the pod is touched. A pod has them from its first volume on: a look is enough. */
export function makePodDirectories(podDirectory: string): void {
  const inside = [`${podDirectory}/volumes`, `${podDirectory}/plugins`];
  const isThere = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  if (guard(podDirectory, () => inside.every(isThere))) return;
  for (const directory of [podDirectory, ...inside]) {
    guard(directory, () => mkdirSync(directory, { recursive: true, mode: 0o750 }));
  }
}

interface MadeDirectory {
  readonly made: boolean;
}

/** Makes a directory with exactly this mode, whatever the umask; one that is there gets the mode too. */
export function makeDirectoryWithMode(directory: string, mode: number): MadeDirectory {
  return guard(directory, () => {
    const made = !isDirectory(directory);
    if (made) mkdirSync(directory, { recursive: true, mode });
    if ((lstatSync(directory).mode & 0o7777) !== mode) chmodSync(directory, mode);
    return { made };
  });
}

function guard<Result>(path: string, act: () => Result): Result {
  try {
    return act();
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}
