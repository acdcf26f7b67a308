/**
 * Makes a directory below another that a container may write to, so that nothing is ever made outside: the container may
 * replace any part of the way by a link while we are at it.
 */
import { closeSync, constants, fchmodSync, mkdirSync, openSync, readlinkSync, statSync, type Stats } from 'node:fs';
import { join } from 'node:path';
import { openPathOnly } from '../mounts/mount-point.ts';
import { isWithin } from './path-within.ts';
import { UnsafePathError, elementOf, elementsOf, resolveLinks, safeOpen, textOf } from './safe-open.ts';
import { errnoOf } from '../system-call-error.ts';

/**
 * Makes `below` (relative) in `base` with all missing levels, each with exactly `mode`, setuid, setgid and sticky bits
 * included and whatever the umask. Links that stay inside of `base` are followed. What exists already is left as it is,
 * even if links lead outside: making nothing harms nothing, and who uses the directory has to look anyway.
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
