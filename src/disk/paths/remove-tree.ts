/**
 * Deletes a directory and all in it, and nothing else: it never follows a symbolic link and never crosses into what is
 * mounted below, whatever others do to the tree meanwhile. A volume whose unmount failed must not lose its content.
 *
 * Every step goes through the descriptor of the directory it happens in (`/proc/self/fd/<descriptor>/<name>`), so that
 * a directory swapped for a link leads nowhere and a path may be longer than the kernel's limit. Names are bytes: what a
 * container wrote need not be UTF-8.
 */
import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  openSync,
  opendirSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmdirSync,
  unlinkSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { MountletError, errorCode } from '../../base/errors.ts';
import { type Steps, atOnce } from '../../base/turns.ts';
import { systemCallError } from '../../linux/system-call-error.ts';
import { type MountEntry, mountIdOf, openPathOnly, readMountsBelow } from '../mounts/mount-table.ts';

export class MountPointBelowError extends MountletError {
  readonly reason = 'MountPointBelow';
  readonly mountPoint: string;

  constructor(directory: string, mountPoint: string) {
    super(`Cannot delete "${directory}": "${mountPoint}" is a mount point; unmount it and try again`);
    this.mountPoint = mountPoint;
  }
}

type MountsBelow = (path: string) => readonly Pick<MountEntry, 'mountPoint'>[];

/**
 * Refuses with a MountPointBelowError, before anything is deleted, if something is mounted at or below `directory`.
 * A missing directory is fine; a link or a file in its place is deleted itself.
 *
 * Reading the mount table takes 3 µs for each mount of the machine. Who removes many trees at once may read it once and
 * hand in the question; a directory mounted since is still found and left alone, only not before the first deletion.
 */
export function removeTree(directory: string, mountsBelow?: MountsBelow): void {
  atOnce(removal(directory, mountsBelow));
}

/** The same as a job in steps. */
export function* removal(directory: string, mountsBelow: MountsBelow = readMountsBelow): Steps<void> {
  try {
    const parentPath = unlessMissing(() => realpathSync(dirname(directory)));
    if (parentPath === undefined) return;
    const [mounted] = mountsBelow(join(parentPath, basename(directory)));
    if (mounted !== undefined) throw new MountPointBelowError(directory, mounted.mountPoint);
    const parent = openSync(parentPath, pathOfDirectory);
    try {
      yield* new Removal(directory, mountIdOf(parent)).run(parent, Buffer.from(basename(directory)));
    } finally {
      closeSync(parent);
    }
  } catch (thrown) {
    throw systemCallError(thrown, directory);
  }
}

/** Bounds the descriptors that are open at once, two for each level; deeper directories are moved up and deleted from there. */
const depthMax = 64;
/** Entries of a directory in memory at once. */
const batchSize = 256;
/** Another that goes on making files is not fought for ever. */
const passesMax = 100;

class Removal {
  readonly #directory: string;
  readonly #mountId: number;
  /** Names, in the top directory, of subtrees that were too deep. */
  readonly #movedUp: Buffer[] = [];

  constructor(directory: string, mountId: number) {
    this.#directory = directory;
    this.#mountId = mountId;
  }

  *run(parent: number, name: Buffer): Steps<void> {
    const top = this.#open(parent, name);
    if (top === undefined) return unlessMissing(() => unlinkSync(within(parent, name)));
    try {
      yield* this.#empty(top, top, 1);
      for (let next = this.#movedUp.pop(); next !== undefined; next = this.#movedUp.pop()) {
        yield* this.#remove(top, next, top, 1);
      }
    } finally {
      closeSync(top);
    }
    unlessMissing(() => rmdirSync(within(parent, name)));
  }

  *#empty(directory: number, top: number, depth: number): Steps<void> {
    // A directory that is read while its entries go may skip some: it is read again until there is nothing in it.
    for (let passes = 0; passes < passesMax; passes += 1) {
      if ((yield* this.#emptyOnce(directory, top, depth)) < batchSize) return;
    }
  }

  /** How many entries it has found. */
  *#emptyOnce(directory: number, top: number, depth: number): Steps<number> {
    // The names are bytes, which the types do not say. A directory may have more of them than can be read in one turn.
    const options = { encoding: 'buffer' as BufferEncoding, bufferSize: batchSize };
    const entries = unlessMissing(() => opendirSync(`/proc/self/fd/${directory}`, options));
    if (entries === undefined) return 0;
    let found = 0;
    try {
      for (let entry = entries.readSync(); entry !== null; entry = entries.readSync()) {
        found += 1;
        const name = entry.name as unknown as Buffer;
        // Some file systems do not report the kind; opening it shows.
        const known = entry.isFile() || entry.isSymbolicLink() || entry.isFIFO() || entry.isSocket();
        if (known) unlessMissing(() => unlinkSync(within(directory, name)));
        else yield* this.#remove(directory, name, top, depth);
        yield;
      }
    } finally {
      entries.closeSync();
    }
    return found;
  }

  *#remove(parent: number, name: Buffer, top: number, depth: number): Steps<void> {
    if (depth >= depthMax) return this.#moveUp(parent, name, top);
    const directory = this.#open(parent, name);
    if (directory === undefined) return unlessMissing(() => unlinkSync(within(parent, name)));
    try {
      yield* this.#empty(directory, top, depth + 1);
    } finally {
      closeSync(directory);
    }
    unlessMissing(() => rmdirSync(within(parent, name)));
  }

  #moveUp(parent: number, name: Buffer, top: number): void {
    const newName = Buffer.from(`.removing-${randomUUID()}`);
    unlessMissing(() => {
      renameSync(within(parent, name), within(top, newName)); // refused by the kernel for a mount point
      this.#movedUp.push(newName);
    });
  }

  /** The descriptor of a directory, or undefined for anything else, or if there is nothing. */
  #open(parent: number, name: Buffer): number | undefined {
    let named: number | undefined;
    try {
      named = unlessMissing(() => openSync(within(parent, name), pathOfDirectory));
      if (named === undefined) return undefined;
    } catch (thrown) {
      if (errorCode(thrown) === 'ENOTDIR' || errorCode(thrown) === 'ELOOP') return undefined;
      throw thrown;
    }
    try {
      // Mounted since the table was read. Unlike a device number, the id also shows bind mounts within one file system. Found
      // out before the directory itself is opened: its file system may be one that does not answer.
      if (mountIdOf(named) !== this.#mountId) {
        throw new MountPointBelowError(this.#directory, readlinkSync(`/proc/self/fd/${named}`));
      }
      return openNamed(named);
    } finally {
      closeSync(named);
    }
  }
}

const pathOfDirectory = openPathOnly | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** Adds u+rwx to an ordinary user's own directories; root needs no permission. */
function openNamed(named: number): number {
  const here = `/proc/self/fd/${named}`;
  const user = process.geteuid?.();
  if (user !== 0) {
    const { mode, uid } = fstatSync(named);
    if (uid === user && (mode & 0o700) !== 0o700) chmodSync(here, 0o700);
  }
  return openSync(here, constants.O_RDONLY | constants.O_DIRECTORY);
}

/** Gone already is what was asked for: another may be deleting the same. */
function unlessMissing<Result>(act: () => Result): Result | undefined {
  try {
    return act();
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return undefined;
    throw thrown;
  }
}

function within(directory: number, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`/proc/self/fd/${directory}/`), name]);
}
