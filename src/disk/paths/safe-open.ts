/**
 * Opens a path below a directory that others may change at any time, without ever leaving it. Every element is opened
 * relative to the descriptor of the one before and links are refused, so a directory swapped for a link between a check
 * and its use leads to an error and nowhere else.
 *
 * `/proc/self/fd/<descriptor>/<name>` is openat(2) for Node: the kernel starts from the open directory itself, whatever
 * its path has become, so no native code is needed here.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, realpathSync } from 'node:fs';
import { join, relative } from 'node:path';
import { MountletError } from '../../base/errors.ts';
import { openPathOnly } from '../mounts/mount-point.ts';
import { isWithin } from './path-within.ts';
import { errnoOf, errnoText } from '../system-call-error.ts';

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
export function elementOf(directory: number, name: string): string {
  return `/proc/self/fd/${directory}/${name}`;
}

/** The names on the way from one path to another below it; none if they are the same. */
export function elementsOf(base: string, path: string): string[] {
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
    // Not a directory, or not there: opening it tells.
  }
}
