/** Directories that the node makes: where a user names one, those of pods and volumes, and the markers of volumes. */
import { chmodSync, lstatSync, mkdirSync, readdirSync, rmSync, rmdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { SystemCallError, guarded, systemCallError } from '../../linux/system-call-error.ts';
import { DiskError } from '../mounts/disk-error.ts';

/**
 * Makes a directory and the parents it lacks; returns those it made, the deepest first. When it fails, it has made none.
 * Node's own recursive mkdir never returns where nothing can be made (/proc), and calls a read-only disk "not found".
 */
export function makeDirectories(directory: string): readonly string[] {
  const missing = missingOf(directory);
  const made: string[] = [];
  try {
    for (const path of missing.toReversed()) if (makeOne(path)) made.unshift(path);
    // Asked only now: a link to nowhere is neither missing nor a directory.
    if (!isDirectory(directory)) throw new SystemCallError({ call: 'mkdir', path: directory, code: 'ENOTDIR' });
    return made;
  } catch (thrown) {
    for (const path of made) rmdirSync(path);
    throw systemCallError(thrown, directory);
  }
}

/** False: another process made it meanwhile. */
function makeOne(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o755 });
    return true;
  } catch (thrown) {
    if (errorCode(thrown) === 'EEXIST' && isDirectory(path)) return false;
    throw thrown;
  }
}

function missingOf(directory: string): readonly string[] {
  const missing: string[] = [];
  for (let path = directory; !isPresent(path); path = dirname(path)) missing.push(path);
  return missing;
}

/** What cannot be inspected counts as present: making it then fails with the reason. */
function isPresent(path: string): boolean {
  try {
    statSync(path);
    return true;
  } catch (thrown) {
    return errorCode(thrown) !== 'ENOENT';
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/**
 * Refuses a pod whose own directories are something else, from the directory of all pods down to that of a volume kind.
 * What a volume's name stands for is not checked: memory that cannot be mounted is linked to.
 */
export function requirePodDirectories(podDirectory: string): void {
  guarded(podDirectory, () => {
    requireDirectories(dirname(podDirectory), 0);
    requireDirectories(podDirectory, 0);
    requireDirectories(join(podDirectory, 'volumes'), 1);
    requireDirectories(join(podDirectory, 'plugins'), 2);
    requireDirectories(join(podDirectory, 'volume-subpaths'), 2);
  });
}

/** A missing one is fine: it will be made. */
function requireDirectories(path: string, levelsBelow: number): void {
  if (!hasDirectory(path) || levelsBelow === 0) return;
  for (const name of readdirSync(path)) requireDirectories(join(path, name), levelsBelow - 1);
}

/** False if there is nothing. */
function hasDirectory(path: string): boolean {
  const entry = lstatSync(path, { throwIfNoEntry: false });
  if (entry === undefined || entry.isDirectory()) return entry !== undefined;
  // Never made by us: it could divert what we write or delete to another place.
  const found = entry.isSymbolicLink() ? 'a symbolic link' : 'a file';
  const advice = 'remove it, or choose another root directory';
  throw new DiskError('NotADirectory', `Cannot use "${path}": it is ${found} and not a directory; ${advice}`);
}

/** Made in this order before any volume of the pod is touched. A pod has them from its first volume on: then one check is enough. */
export function makePodDirectories(podDirectory: string): void {
  const inside = [`${podDirectory}/volumes`, `${podDirectory}/plugins`];
  const isThere = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  if (guarded(podDirectory, () => inside.every(isThere))) return;
  for (const directory of [podDirectory, ...inside]) {
    guarded(directory, () => mkdirSync(directory, { recursive: true, mode: 0o750 }));
  }
}

interface MadeDirectory {
  readonly made: boolean;
}

/** Makes a directory with exactly this mode, whatever the umask; one that is there gets the mode too. */
export function makeDirectoryWithMode(directory: string, mode: number): MadeDirectory {
  return guarded(directory, () => {
    const made = !hasDirectory(directory);
    if (made) mkdirSync(directory, { recursive: true, mode });
    if ((lstatSync(directory).mode & 0o7777) !== mode) chmodSync(directory, mode);
    return { made };
  });
}

/**
 * Whether a volume was set up completely once. The marker `<pod>/plugins/kubernetes.io~empty-dir/<volume>/ready` stands outside
 * of the volume, so that no container can make or remove it. It does not say that the volume is still there: memory is empty
 * after a reboot, and a directory can be deleted.
 */
export function isMarkedReady(marker: string): boolean {
  try {
    return statSync(marker, { throwIfNoEntry: false })?.isFile() === true;
  } catch {
    return false; // doubt costs one more set-up, which is harmless
  }
}

export function markReady(marker: string): void {
  try {
    mkdirSync(dirname(marker), { recursive: true, mode: 0o750 });
    writeFileSync(marker, '');
  } catch (thrown) {
    throw systemCallError(thrown, marker);
  }
}

/** The marker's directory goes with it. */
export function clearReady(marker: string): void {
  try {
    rmSync(dirname(marker), { recursive: true, force: true });
  } catch (thrown) {
    throw systemCallError(thrown, dirname(marker));
  }
}
