/** Which kind of file system a path is on, and where an ordinary user has private memory-backed storage. */
import { type Stats, lstatSync, mkdirSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { systemCallError } from '../../linux/system-call-error.ts';
import type { MountEntry } from './mount-table.ts';
import { DiskError } from './disk-error.ts';

type FileSystemKind = 'tmpfs' | 'hugetlbfs' | 'other';

const kinds: ReadonlyMap<bigint, FileSystemKind> = new Map([
  [0x01021994n, 'tmpfs'],
  [0x958458f6n, 'hugetlbfs'],
]);

/** Follows links. Throws a SystemCallError, with code ENOENT for a missing path. */
export function fileSystemOf(path: string): FileSystemKind {
  try {
    // The number's sign depends on the architecture; its low 32 bits do not.
    return kinds.get(BigInt.asUintN(32, statfsSync(path, { bigint: true }).type)) ?? 'other';
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}

interface PrivateTmpfsSettings {
  /** `XDG_RUNTIME_DIR`, if it is set. */
  readonly runtimeDirectory?: string;
  readonly uid: number;
  /** Where everybody may make a directory on a tmpfs. */
  readonly sharedMemoryDirectory?: string;
}

/**
 * A directory on a tmpfs that only this user can enter, for secrets where nothing can be mounted: the user's runtime
 * directory, or else `mountlet-<uid>` in /dev/shm, which is made if it is missing. Undefined if the machine has neither.
 * Throws a DiskError `UnsafeDirectory` if the latter exists and is not the user's alone: someone else may have put it there.
 */
export function privateTmpfsDirectory(settings: PrivateTmpfsSettings): string | undefined {
  const { runtimeDirectory, uid, sharedMemoryDirectory = '/dev/shm' } = settings;
  if (runtimeDirectory !== undefined && isTmpfs(runtimeDirectory)) {
    const status = lstatIfPresent(runtimeDirectory);
    if (status !== undefined && flawOf(status, uid) === undefined) return runtimeDirectory;
  }
  if (!isTmpfs(sharedMemoryDirectory)) return undefined;
  const directory = join(sharedMemoryDirectory, `mountlet-${uid}`);
  try {
    mkdirSync(directory, { mode: 0o700 });
  } catch (thrown) {
    if (errorCode(thrown) === 'EACCES' || errorCode(thrown) === 'EROFS') return undefined;
    if (errorCode(thrown) !== 'EEXIST') throw systemCallError(thrown, directory);
  }
  // Checked in any case. In /dev/shm (sticky) only its owner can exchange it afterwards.
  const status = lstatIfPresent(directory);
  const flaw = status === undefined ? 'it vanished while it was made' : flawOf(status, uid);
  if (flaw !== undefined) {
    const advice = 'have its owner remove it, or choose another directory';
    throw new DiskError('UnsafeDirectory', `Cannot keep secrets in "${directory}": ${flaw}; ${advice}`);
  }
  return directory;
}

function flawOf(status: Stats, uid: number): string | undefined {
  if (status.isSymbolicLink()) return 'it is a symbolic link';
  if (!status.isDirectory()) return 'it is not a directory';
  if (status.uid !== uid) return `it belongs to user ${status.uid}, not to user ${uid}`;
  const mode = status.mode & 0o7777;
  if ((mode & 0o077) !== 0 || (mode & 0o700) !== 0o700) return `its mode is ${mode.toString(8)}, not 700`;
  return undefined;
}

function isTmpfs(path: string): boolean {
  try {
    return fileSystemOf(path) === 'tmpfs';
  } catch {
    return false; // what cannot be reached cannot be used
  }
}

function lstatIfPresent(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

const units: Readonly<Record<string, bigint>> = { '': 1n, K: 1n << 10n, M: 1n << 20n, G: 1n << 30n, T: 1n << 40n };

/** The page size of a mounted hugetlbfs; undefined if its entry has none. `2M` and `2Mi` are the same here: the kernel counts in powers of two. */
export function hugePageSizeBytes({
  superOptions,
  options,
}: Pick<MountEntry, 'superOptions' | 'options'>): bigint | undefined {
  for (const option of [...superOptions, ...options]) {
    const [, number, unit] = /^pagesize=(\d+)([KMGT]?)i?$/.exec(option) ?? [];
    if (number !== undefined && unit !== undefined) return BigInt(number) * (units[unit] ?? 1n);
  }
  return undefined;
}
