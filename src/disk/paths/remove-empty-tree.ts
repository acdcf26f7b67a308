/**
 * Removes directories, and only directories, from the bottom up. Where a file is, or something is mounted, the directories
 * around it stay.
 */
import { closeSync, constants, openSync, readdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { mountIdOf } from '../mounts/mount-point.ts';
import { PodTreeError, attempt, mountPointError } from '../pod-tree-error.ts';
import { errnoOf, errnoText } from '../system-call-error.ts';

/** Deeper than any volume that only has empty directories in it; bounds the files that are open at once. */
const depthMax = 64;

/** What `name` is in the open directory `parent`. The first problem; undefined when all of it is gone. */
export function removeEmptyTree(
  parent: number,
  name: string,
  path: string,
  mountPoints: ReadonlySet<string>,
): PodTreeError | undefined {
  return new EmptyRemoval(mountPoints).remove(parent, Buffer.from(name), path, 0);
}

/** Never what a link leads to. */
export function openDirectory(path: string | Buffer): number {
  return openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
}

class EmptyRemoval {
  readonly #mountPoints: ReadonlySet<string>;

  constructor(mountPoints: ReadonlySet<string>) {
    this.#mountPoints = mountPoints;
  }

  /** The first problem; undefined when all of it is gone. */
  remove(parent: number, name: Buffer, path: string, depth: number): PodTreeError | undefined {
    const target = Buffer.concat([Buffer.from(`/proc/self/fd/${parent}/`), name]);
    const left = problemOf(() => rmdirSync(target));
    if (left === undefined || errnoOf(left.cause) === 'ENOENT') return undefined;
    if (this.#mountPoints.has(path)) return mountPointError(path);
    if (errnoOf(left.cause) !== 'ENOTEMPTY' && errnoOf(left.cause) !== 'EEXIST') return left;
    if (depth >= depthMax) return new PodTreeError(`cannot delete directory ${path}: it is too deep`);
    const first = problemOf(() => this.#removeBelow(parent, target, path, depth));
    const still = problemOf(() => rmdirSync(target));
    return still === undefined ? undefined : (first ?? still);
  }

  #removeBelow(parent: number, target: Buffer, path: string, depth: number): void {
    const directory = openDirectory(target);
    try {
      // Mounted since the table was read.
      if (mountIdOf(directory) !== mountIdOf(parent)) throw mountPointError(path);
      let first: PodTreeError | undefined;
      for (const name of readdirSync(`/proc/self/fd/${directory}`, { encoding: 'buffer' })) {
        const problem = this.remove(directory, name, join(path, name.toString()), depth + 1);
        first ??= problem;
      }
      if (first !== undefined) throw first;
    } finally {
      closeSync(directory);
    }
  }
}

function problemOf(act: () => void): PodTreeError | undefined {
  try {
    attempt(act, errnoText);
    return undefined;
  } catch (thrown) {
    if (thrown instanceof PodTreeError) return thrown;
    throw thrown;
  }
}
