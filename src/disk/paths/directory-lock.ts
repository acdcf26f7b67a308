/**
 * One process at a time for a directory. The lock is flock(2) on the file `.lock` in it, so it goes with its process,
 * however that ends: nothing is left to clean up, and no pid has to be guessed to be alive or dead.
 */
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
  readSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { guarded } from '../../linux/system-call-error.ts';
import { type SystemCalls, loadSystemCalls } from '../../linux/system-calls.ts';
import { DiskError } from '../mounts/disk-error.ts';

interface DirectoryLock {
  /** Removes the lock file. Can be called again without harm. */
  release(): void;
}

// Enough to recognise the program and its command.
const commandLengthMax = 200;

/** Of a process that holds the lock and so is alive; empty where it cannot be read. */
function commandOf(pid: number): string {
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
    return command === '' ? '' : ` (${command.slice(0, commandLengthMax)})`;
  } catch {
    return '';
  }
}

function inUseError(directory: string, holderPid: number | undefined): DiskError {
  const holder = holderPid === undefined ? 'another process' : `process ${holderPid}${commandOf(holderPid)}`;
  const advice = 'end that process, or choose another directory';
  return new DiskError('DirectoryInUse', `Cannot use "${directory}": ${holder} uses it; ${advice}`);
}

// Each further try means that a holder has released it in between; more than this in a row is an attack.
const triesMax = 100;

/** Throws a DiskError `DirectoryInUse` at once if another process has it, or this one has it already. */
export function lockDirectory(directory: string, load: () => SystemCalls = loadSystemCalls): DirectoryLock {
  const path = join(directory, '.lock');
  for (let tries = 1; ; tries += 1) {
    let descriptor: number | undefined = openLockFile(path);
    try {
      if (!load().lockFile(descriptor, path)) throw inUseError(directory, readPid(descriptor));
      if (isAt(path, descriptor)) {
        writePid(descriptor);
        const held = descriptor;
        descriptor = undefined;
        return { release: once(() => letGo(path, held)) };
      }
      // The file was removed by its holder after we had opened it: what we have locked is not the file that others lock.
      if (tries === triesMax) throw inUseError(directory, undefined);
    } finally {
      if (descriptor !== undefined) closeSync(descriptor);
    }
  }
}

/** Removed while it is still locked, so that no other process can hold a file that is about to go. */
function letGo(path: string, descriptor: number): void {
  try {
    if (isAt(path, descriptor)) unlinkSync(path);
  } finally {
    closeSync(descriptor);
  }
}

function once(act: () => void): () => void {
  let done = false;
  return () => {
    if (!done) act();
    done = true;
  };
}

function isAt(path: string, descriptor: number): boolean {
  const there = lstatSync(path, { throwIfNoEntry: false });
  const here = fstatSync(descriptor);
  return there?.ino === here.ino && there.dev === here.dev;
}

/** Node opens with O_CLOEXEC, so programs that this one starts do not hold the lock after it has ended. */
function openLockFile(path: string): number {
  return guarded(path, () => openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600));
}

/** For people and messages only; nothing is decided by it, and a full disk must be usable for cleaning it. */
function writePid(descriptor: number): void {
  try {
    ftruncateSync(descriptor);
    writeSync(descriptor, `${process.pid}\n`, 0);
  } catch {
    // Held all the same: the lock is on the file, not in it.
  }
}

function readPid(descriptor: number): number | undefined {
  const text = Buffer.alloc(16);
  const length = readSync(descriptor, text, 0, text.length, 0);
  const pid = Number(text.toString('latin1', 0, length));
  return Number.isInteger(pid) && pid > 0 ? pid : undefined;
}
