/**
 * Opens, makes and reads what is below a directory that others may change at any time, without ever leaving it. Every element is opened
 * relative to the descriptor of the one before and links are refused, so a directory swapped for a link between a check
 * and its use leads to an error and nowhere else.
 *
 * `/proc/self/fd/<descriptor>/<name>` is openat(2) for Node: the kernel starts from the open directory itself, whatever
 * its path has become, so no native code is needed here.
 */
import {
  type Stats,
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
} from 'node:fs';
import { join, relative } from 'node:path';
import { MountletError, errorCode, messageOf } from '../../base/errors.ts';
import { errnoOf, errnoText } from '../../linux/system-call-error.ts';
import { isWithin, openPathOnly } from '../mounts/mount-table.ts';
import { DiskError } from '../mounts/disk-error.ts';

/** A path that leads out of its volume, or that cannot be followed safely. The messages are the kubelet's. */
export class UnsafePathError extends MountletError {
  readonly reason = 'UnsafePath';
  /** The errno behind it, if there was one. */
  readonly code: string | undefined;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = errnoOf(options?.cause);
  }
}

/**
 * A descriptor (O_PATH) of `path`, which the caller closes. Both paths have their links resolved already; a link that is
 * found all the same was put there since. The last element may be of any kind: file, socket, fifo, device, directory.
 */
export function safeOpen(base: string, path: string): number {
  let current = openElement(`cannot open directory ${base}`, base, constants.O_DIRECTORY);
  let currentPath = base;
  try {
    for (const name of elementsOf(base, path)) {
      currentPath = join(currentPath, name);
      if (!isWithin(base, currentPath)) {
        throw new UnsafePathError(`path ${currentPath} is outside of allowed base ${base}`);
      }
      const here = elementOf(current, name);
      triggerAutomount(here);
      const next = openElement(`cannot open ${currentPath}`, here, 0);
      closeSync(current);
      current = next;
      if (fstatSync(current).isSymbolicLink()) throw new UnsafePathError(`unexpected symlink found ${currentPath}`);
    }
    return current;
  } catch (thrown) {
    closeSync(current);
    throw thrown;
  }
}

/** The path of a name in an open directory. */
function elementOf(directory: number, name: string): string {
  return `/proc/self/fd/${directory}/${name}`;
}

/** The names on the way from one path to another below it; none if they are the same. */
function elementsOf(base: string, path: string): string[] {
  const way = relative(base, path);
  return way === '' ? [] : way.split('/');
}

/** The path without links, or an UnsafePathError that names it as it was given (`quoted` with the kubelet's quotes). */
export function resolveLinks(path: string, quoted: string): string {
  try {
    return realpathSync.native(path);
  } catch (thrown) {
    throw new UnsafePathError(`error resolving symlinks in ${quoted}: lstat ${path}: ${textOf(thrown)}`, {
      cause: thrown,
    });
  }
}

export function textOf(thrown: unknown): string {
  const code = errnoOf(thrown);
  if (code === undefined) throw thrown; // no system error: a bug
  return errnoText(code);
}

function openElement(failure: string, path: string, flags: number): number {
  try {
    return openSync(path, openPathOnly | constants.O_NOFOLLOW | flags);
  } catch (thrown) {
    throw new UnsafePathError(`${failure}: ${textOf(thrown)}`, { cause: thrown });
  }
}

/** A directory that is mounted on demand is mounted by looking at what is in it: hence the slash. */
function triggerAutomount(path: string): void {
  try {
    lstatSync(`${path}/`);
  } catch {
    // Not a directory, or not there: opening it will show.
  }
}

/**
 * Makes `below` (relative) in `base`, which a container may write to, and never anything outside, whatever is replaced by a
 * link meanwhile. With all missing levels, each with exactly `mode`, setuid, setgid and sticky bits
 * included and whatever the umask. Links that stay inside of `base` are followed. What exists already is left as it is,
 * even if links lead outside: making nothing harms nothing, and its user has to check anyway.
 */
export function safeMakeDirectory(base: string, below: string, mode: number): void {
  const realBase = resolveLinks(base, base);
  const path = join(realBase, below);
  if (!isWithin(realBase, path)) throw new UnsafePathError(`path ${path} is outside of allowed base ${realBase}`);
  const present = statIfPossible(path);
  if (present?.isDirectory()) return;
  if (present !== undefined) throw new UnsafePathError(`mkdir ${path}: not a directory`);

  const { existing, missing } = findExistingPrefix(realBase, path);
  if (!isWithin(realBase, existing)) {
    throw new UnsafePathError(`path ${existing} is outside of allowed base ${realBase}`);
  }
  let parent = safeOpen(realBase, existing);
  let parentPath = existing;
  try {
    for (const name of missing) {
      parentPath = join(parentPath, name);
      const child = makeIn(parent, name, parentPath, mode);
      closeSync(parent);
      parent = child;
    }
  } finally {
    closeSync(parent);
  }
}

/** The directory is opened without following a link, and as a directory, so that a fifo put there cannot block us. */
function makeIn(parent: number, name: string, path: string, mode: number): number {
  const here = elementOf(parent, name);
  try {
    mkdirSync(here, { mode: mode & 0o777 });
  } catch (thrown) {
    throw new UnsafePathError(`cannot create directory ${path}: ${textOf(thrown)}`, { cause: thrown });
  }
  let made: number;
  try {
    made = openSync(here, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  } catch (thrown) {
    throw new UnsafePathError(`cannot open ${path}: ${textOf(thrown)}`, { cause: thrown });
  }
  try {
    fchmodSync(made, mode & 0o7777); // mkdir obeyed the umask
    return made;
  } catch (thrown) {
    closeSync(made);
    throw new UnsafePathError(`chmod ${JSON.stringify(path)} failed: ${textOf(thrown)}`, { cause: thrown });
  }
}

interface Prefix {
  /** The longest part of the way that exists, as the kernel reached it: without links. */
  readonly existing: string;
  readonly missing: readonly string[];
}

function findExistingPrefix(base: string, path: string): Prefix {
  const names = elementsOf(base, path);
  let current = openFollowing(path, base);
  try {
    for (const [index, name] of names.entries()) {
      let next: number;
      try {
        next = openFollowing(path, elementOf(current, name));
      } catch (thrown) {
        if (thrown instanceof UnsafePathError && thrown.code === 'ENOENT') {
          return { existing: pathOf(current), missing: names.slice(index) };
        }
        throw thrown;
      }
      closeSync(current);
      current = next;
    }
    return { existing: pathOf(current), missing: [] }; // made by another in this moment
  } finally {
    closeSync(current);
  }
}

function openFollowing(wanted: string, path: string): number {
  try {
    return openSync(path, openPathOnly);
  } catch (thrown) {
    throw new UnsafePathError(`error opening directory ${wanted}: ${textOf(thrown)}`, { cause: thrown });
  }
}

/** Where an open directory is now: asking the descriptor leaves nothing to be swapped in between. */
function pathOf(descriptor: number): string {
  return readlinkSync(`/proc/self/fd/${descriptor}`);
}

function statIfPossible(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch (thrown) {
    if (errnoOf(thrown) === undefined) throw thrown;
    return undefined;
  }
}

interface FileInRoot {
  /** Where it was found, all links resolved. */
  readonly path: string;
  readonly content: Uint8Array;
}

// Six times the kernel's own limit: more than any real tree has, and a loop ends.
const linksMax = 255;

/**
 * Reads a regular file of at most `sizeBytesMax` in a directory whose content belongs to others, as if the directory were
 * the root of all: `..` stops at it, an absolute link starts at it, and nothing outside can be reached, even while links are
 * being swapped. Every element is opened relative to the one before, so what was checked is what is read.
 */
export function readInRoot(root: string, path: string, sizeBytesMax: number): FileInRoot {
  const way: { readonly name: string; readonly descriptor: number }[] = [];
  try {
    way.push({ name: root, descriptor: openSync(root, openPathOnly | constants.O_DIRECTORY) });
    follow(way, path.split('/'));
    const found = join(...way.map(({ name }) => name));
    return { path: found, content: readRegular(way.at(-1)?.descriptor ?? -1, sizeBytesMax) };
  } catch (cause) {
    throw new DiskError('UnreadableFile', `Cannot read "${path}" in "${root}": ${messageOf(cause)}`, { cause });
  } finally {
    for (const { descriptor } of way) closeSync(descriptor);
  }
}

function follow(way: { name: string; descriptor: number }[], path: readonly string[]): void {
  const names = [...path];
  let linksLeft = linksMax;
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    if (name === '' || name === '.') continue;
    if (name === '..') {
      if (way.length > 1) closeSync(way.pop()?.descriptor ?? -1);
      continue;
    }
    const element = elementOf(way.at(-1)?.descriptor ?? -1, name);
    const descriptor = openSync(element, openPathOnly | constants.O_NOFOLLOW);
    way.push({ name, descriptor });
    if (!fstatSync(descriptor).isSymbolicLink()) continue;
    linksLeft -= 1;
    if (linksLeft < 0) throw new DiskError('UnreadableFile', 'too many links');
    // Read from the descriptor that was looked at: an empty path means the link itself.
    const target = readlinkSync(element);
    way.pop();
    closeSync(descriptor);
    if (target.startsWith('/')) for (const { descriptor: left } of way.splice(1)) closeSync(left);
    names.unshift(...target.split('/'));
  }
}

function readRegular(pathDescriptor: number, sizeBytesMax: number): Uint8Array {
  const stat = fstatSync(pathDescriptor);
  if (!stat.isFile()) throw new DiskError('UnreadableFile', 'it is not a regular file');
  if (stat.size > sizeBytesMax) throw new DiskError('UnreadableFile', `it is larger than ${sizeBytesMax} bytes`);
  const descriptor = openSync(`/proc/self/fd/${pathDescriptor}`, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

// Not following a link, and not blocking on a fifo, that took the file's place since it was looked at.
const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Opens a file of a volume whatever its mode: where an ordinary user may not read a file of their own (0000), adds u+r while opening. */
export function openToRead(path: string): number {
  try {
    return openSync(path, readFlags);
  } catch (thrown) {
    if (errorCode(thrown) !== 'EACCES') throw thrown;
  }
  const named = openSync(path, openPathOnly | constants.O_NOFOLLOW);
  const here = `/proc/self/fd/${named}`;
  try {
    const { mode } = fstatSync(named);
    chmodSync(here, (mode & 0o7777) | 0o400);
    try {
      return openSync(here, readFlags & ~constants.O_NOFOLLOW);
    } finally {
      chmodSync(here, mode & 0o7777);
    }
  } finally {
    closeSync(named);
  }
}
