/**
 * Directories whose content lives in memory and never reaches a disk. Where this process may mount, a directory is a
 * tmpfs of its own. Where it may not (an ordinary user, a container), memory that is there already is used:
 *
 *   may mount?  ──yes──▶  a tmpfs is mounted on the directory
 *      │ no
 *   is it on a tmpfs anyway?  ──yes──▶  it is made in place
 *      │ no
 *   has the user a private tmpfs?     ──yes──▶  it becomes a link to a directory there
 *      │ no
 *   refused: nothing is written
 */
import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, readlinkSync, rmdirSync, symlinkSync, unlinkSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import type { Steps } from '../../base/turns.ts';
import { systemCallError } from '../../linux/system-call-error.ts';
import { fileSystemOf } from '../mounts/file-system.ts';
import type { Mounts } from '../mounts/mounts.ts';
import { makeDirectoryWithMode } from '../paths/directories.ts';
import { removal, removeTree } from '../paths/remove-tree.ts';
import { DiskError } from '../mounts/disk-error.ts';

interface MemoryDirectory {
  /** Where the content is: the directory, or what it links to. */
  readonly path: string;
  /** False: it was there. */
  readonly made: boolean;
}

interface MemoryDirectoryOptions {
  /** Of the directory below the mount, which the mount hides: a tmpfs has a mode of its own, 01777. */
  readonly mode: number;
  /** 0: no limit but the kernel's. Without a mount of its own a directory has no limit at all. */
  readonly sizeBytes: bigint;
}

interface MemoryDirectoryDeps {
  readonly mounts: Mounts;
  /** A directory on a tmpfs that no other user can enter, or undefined; called only where nothing can be mounted. */
  readonly privateTmpfs: () => string | undefined;
  /** Called once, with where memory is kept without mounts. */
  readonly warn: (message: string) => void;
}

/** As the root of a freshly mounted tmpfs. */
const tmpfsMode = 0o1777;

export class MemoryDirectories {
  readonly #deps: MemoryDirectoryDeps;
  #warned = false;

  constructor(deps: MemoryDirectoryDeps) {
    this.#deps = deps;
  }

  /** Where the content of a directory made earlier is; undefined if it is not in memory (any more). */
  find(directory: string): string | undefined {
    const entry = lstatSync(directory, { throwIfNoEntry: false });
    if (entry?.isSymbolicLink() === true) {
      const target = this.#targetOf(directory);
      return target !== undefined && isDirectory(target) ? target : undefined;
    }
    return entry?.isDirectory() === true && fileSystemOf(directory) === 'tmpfs' ? directory : undefined;
  }

  make(directory: string, options: MemoryDirectoryOptions): MemoryDirectory {
    const { mounts } = this.#deps;
    try {
      // Where mounts can be made, a directory that is merely on a tmpfs gets a mount, and with it a limit of its size.
      const isAsGood = mounts.unavailable !== undefined || isLink(directory);
      const found = isAsGood ? this.find(directory) : undefined;
      if (found !== undefined) return { path: found, made: false };
      if (isLink(directory)) unlinkSync(directory); // what it led to went with a reboot, or was never ours
      if (mounts.unavailable === undefined) return this.#mount(directory, options);
      mkdirSync(dirname(directory), { recursive: true });
      const made = fileSystemOf(dirname(directory)) === 'tmpfs' ? makeInPlace(directory) : this.#link(directory);
      this.#warnOnce(mounts.unavailable, dirname(made.path));
      return made;
    } catch (thrown) {
      throw systemCallError(thrown, directory);
    }
  }

  /** Removes the link and what it leads to; a link that is not ours leads to something that is not ours to delete. */
  *removingLink(directory: string): Steps<void> {
    try {
      const target = this.#targetOf(directory);
      if (target !== undefined) yield* removal(target);
      unlinkSync(directory);
    } catch (thrown) {
      throw systemCallError(thrown, directory);
    }
  }

  #mount(directory: string, { mode, sizeBytes }: MemoryDirectoryOptions): MemoryDirectory {
    const { mounts } = this.#deps;
    const { made } = makeDirectoryWithMode(directory, mode);
    if (!made && mounts.isMountPoint(directory) && fileSystemOf(directory) === 'tmpfs') {
      return { path: directory, made: false };
    }
    try {
      mounts.mountTmpfs(directory, { sizeBytes });
    } catch (thrown) {
      if (made) rmdirSync(directory);
      throw thrown;
    }
    return { path: directory, made: true };
  }

  #link(directory: string): MemoryDirectory {
    const base = this.#deps.privateTmpfs();
    if (base === undefined) {
      const why = this.#deps.mounts.unavailable ?? '';
      throw new DiskError(
        'MemoryUnavailable',
        `Cannot keep "${directory}" in memory: cannot mount tmpfs (${why}) and there is no private tmpfs to use instead; ` +
          'run as root, or choose a root directory on a tmpfs, or set XDG_RUNTIME_DIR to a directory on one',
      );
    }
    removeTree(directory); // a leftover on disk is not memory and was never visible to a container
    const target = join(base, nameFor(directory));
    try {
      // No other user can enter the directory it is made in, so what is there is ours.
      mkdirSync(target, { mode: 0o700 });
    } catch (thrown) {
      if (errorCode(thrown) !== 'EEXIST' || !isDirectory(target)) throw thrown;
    }
    chmodSync(target, tmpfsMode);
    symlinkSync(target, directory);
    return { path: target, made: true };
  }

  /** What a link leads to if we made it. It is recognised by its name, since the private tmpfs may be another now. */
  #targetOf(directory: string): string | undefined {
    const target = readlinkSync(directory);
    if (!isAbsolute(target) || basename(target) !== nameFor(directory)) return undefined;
    const base = lstatSync(dirname(target), { throwIfNoEntry: false });
    const isPrivate = base?.isDirectory() === true && base.uid === process.geteuid?.() && (base.mode & 0o077) === 0;
    return isPrivate && fileSystemOf(dirname(target)) === 'tmpfs' ? target : undefined;
  }

  #warnOnce(why: string, where: string): void {
    if (this.#warned) return;
    this.#warned = true;
    this.#deps.warn(`cannot mount tmpfs: ${why}; Secret volumes are kept in "${where}", without a limit of their size`);
  }
}

function makeInPlace(directory: string): MemoryDirectory {
  return { path: directory, ...makeDirectoryWithMode(directory, tmpfsMode) };
}

/** The same for every process that sees the same root directory, so that a later one finds what an earlier one made. */
function nameFor(directory: string): string {
  return `volume-${createHash('sha256').update(resolve(directory)).digest('hex').slice(0, 32)}`;
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
}

function isDirectory(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
