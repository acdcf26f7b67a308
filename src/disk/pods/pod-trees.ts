/**
 * The directories of pods as they are on disk, also after a crash: what is in them, and how to remove what is left without
 * ever deleting a user's data.
 *
 * Nothing that is mounted is looked at: a server that is gone must stop neither a start nor a sweep, so the mount table
 * answers what a mount point is. Every directory is opened from the one above it, and no link is followed on the way.
 */
import { closeSync, constants, lstatSync, openSync, readdirSync, rmdirSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { MountletError } from '../../base/errors.ts';
import { SystemCallError, errnoOf, errnoText } from '../../linux/system-call-error.ts';
import { isWithin, mountIdOf, readMountsBelow } from '../mounts/mount-table.ts';
import { MountPointBelowError, removeTree } from '../paths/remove-tree.ts';

interface SkippedEntry {
  readonly path: string;
  readonly why: string;
}

interface PodListing {
  readonly names: readonly string[];
  readonly skipped: readonly SkippedEntry[];
}

interface VolumeEntry {
  /** As it is on disk: `kubernetes.io~configmap`. */
  readonly pluginDirectory: string;
  readonly name: string;
  readonly path: string;
}

interface PodTree {
  readonly podUid: string;
  /** Below `volumes`. */
  readonly volumes: readonly VolumeEntry[];
  /** Below `volumeDevices`. */
  readonly devices: readonly VolumeEntry[];
  readonly skipped: readonly SkippedEntry[];
}

interface SubPathEntry {
  readonly volumeName: string;
  readonly path: string;
}

export class PodTrees {
  readonly #podsDirectory: string;

  /** Absolute and without symbolic links, as the mount table has its paths. */
  constructor(podsDirectory: string) {
    this.#podsDirectory = podsDirectory;
  }

  /** Throws when the directory of all pods cannot be read; also when it is not there. */
  pods(): PodListing {
    const skipped: SkippedEntry[] = [];
    const names = usableNames(this.#podsDirectory, () => namesIn(this.#podsDirectory, []), skipped);
    const isDirectory = (name: string): boolean => kindOf(join(this.#podsDirectory, name)) === 'directory';
    return { names: names.filter((name) => keep(isDirectory(name), this.#podsDirectory, name, skipped)), skipped };
  }

  has(podUid: string, ...below: readonly string[]): boolean {
    return isPlainName(podUid) && kindOf(this.#pathOf(podUid, ...below)) === 'directory';
  }

  /** All that is there, pod by pod. Whatever cannot be read is skipped: the rest must be found. */
  *scan(): Iterable<PodTree> {
    const { names, skipped } = this.pods();
    if (skipped.length > 0) yield { podUid: '', volumes: [], devices: [], skipped };
    // Once: it takes 3 µs for each mount of the machine to read the table.
    const mounted = mountPointsBelow(this.#podsDirectory);
    for (const podUid of names) {
      const found: SkippedEntry[] = [];
      const volumes = this.#volumes(podUid, 'volumes', mounted, found);
      yield { podUid, volumes, devices: this.#volumes(podUid, 'volumeDevices', mounted, found), skipped: found };
    }
  }

  /** The directories of the pod's volumes. Throws when they cannot be read; without a directory there are none. */
  volumePaths(podUid: string): readonly string[] {
    const directory = this.#pathOf(podUid, 'volumes');
    return this.#listOrNone(podUid, ['volumes']).flatMap((plugin) => {
      const parent = join(directory, plugin);
      return namesIn(this.#pathOf(podUid), ['volumes', plugin]).map((name) => join(parent, String(name)));
    });
  }

  /** What is mounted at or below the pod's directory, by the mount table alone. */
  mountPoints(podUid: string): ReadonlySet<string> {
    return mountPointsBelow(this.#pathOf(podUid));
  }

  /** What subPath mounts were bound to: `volume-subpaths/<volume>/<container>/<index>`. Throws when it cannot be read. */
  subPaths(podUid: string): readonly SubPathEntry[] {
    const top = 'volume-subpaths';
    return this.#listOrNone(podUid, [top]).flatMap((volumeName) =>
      namesIn(this.#pathOf(podUid), [top, volumeName]).flatMap((container) =>
        namesIn(this.#pathOf(podUid), [top, volumeName, String(container)]).map((index) => ({
          volumeName,
          path: this.#pathOf(podUid, top, volumeName, String(container), String(index)),
        })),
      ),
    );
  }

  /** An empty directory and nothing else. */
  removeDirectory(path: string): void {
    attempt(() => rmdirSync(path), errnoText);
  }

  /** A file, or an empty directory. Not looked at first: it may still be mounted, and then neither can be removed. */
  removeSubPath(path: string): void {
    attempt(
      () => {
        try {
          rmdirSync(path);
        } catch (thrown) {
          if (errnoOf(thrown) !== 'ENOTDIR') throw thrown;
          unlinkSync(path);
        }
      },
      (code) => `remove ${path}: ${errnoText(code)}`,
    );
  }

  /** Every empty directory that can be removed goes, also when another cannot; then the first problem is thrown. */
  removeEmptyVolumes(podUid: string, mounted: ReadonlySet<string>): void {
    const directory = this.#pathOf(podUid);
    const problem = inside(directory, [], (pod) =>
      removeEmptyTree(pod, 'volumes', join(directory, 'volumes'), mounted),
    );
    if (problem !== undefined) throw problem;
  }

  entries(podUid: string): readonly string[] {
    return namesIn(this.#pathOf(podUid), []).map(String);
  }

  /** Recursively, and never across a mount. */
  removeEntry(podUid: string, name: string, mounted: ReadonlySet<string>): void {
    try {
      const path = this.#pathOf(podUid, name);
      const below = [...mounted].filter((mountPoint) => isWithin(path, mountPoint));
      removeTree(path, () => below.map((mountPoint) => ({ mountPoint })));
    } catch (thrown) {
      if (thrown instanceof MountPointBelowError) throw mountPointError(thrown.mountPoint);
      if (!(thrown instanceof SystemCallError)) throw thrown;
      throw new PodTreeError(`${thrown.call} ${thrown.path}: ${errnoText(thrown.code)}`, { cause: thrown });
    }
  }

  removePod(podUid: string): void {
    this.removeDirectory(this.#pathOf(podUid));
  }

  pathOf(podUid: string, name = ''): string {
    return this.#pathOf(podUid, ...(name === '' ? [] : [name]));
  }

  #volumes(
    podUid: string,
    below: 'volumes' | 'volumeDevices',
    mounted: ReadonlySet<string>,
    skipped: SkippedEntry[],
  ): readonly VolumeEntry[] {
    const directory = this.#pathOf(podUid, below);
    return this.#listIfThere(podUid, [below], skipped).flatMap((pluginDirectory) => {
      const parent = join(directory, pluginDirectory);
      return this.#listIfThere(podUid, [below, pluginDirectory], skipped)
        .map((name) => ({ pluginDirectory, name, path: join(parent, name) }))
        .filter(({ name, path }) =>
          keep(mounted.has(path) || isVolumeKind(kindOf(path), below), parent, name, skipped),
        );
    });
  }

  #listIfThere(podUid: string, names: readonly string[], skipped: SkippedEntry[]): readonly string[] {
    const directory = this.#pathOf(podUid, ...names);
    return usableNames(
      directory,
      () => {
        try {
          return namesIn(this.#pathOf(podUid), names);
        } catch (thrown) {
          if (!(thrown instanceof PodTreeError)) throw thrown;
          if (errnoOf(thrown.cause) !== 'ENOENT') skipped.push({ path: directory, why: thrown.message });
          return [];
        }
      },
      skipped,
    );
  }

  #listOrNone(podUid: string, names: readonly string[]): readonly string[] {
    try {
      return namesIn(this.#pathOf(podUid), names).map(String);
    } catch (thrown) {
      if (thrown instanceof PodTreeError && errnoOf(thrown.cause) === 'ENOENT') return [];
      throw thrown;
    }
  }

  /** A name must not lead out of the directory: the UIDs of a cluster's pods were not checked for that. */
  #pathOf(podUid: string, ...names: readonly string[]): string {
    const bad = [podUid, ...names].find((name) => !isPlainName(name));
    if (bad !== undefined) throw new PodTreeError(`invalid name of a directory: ${JSON.stringify(bad)}`);
    return join(this.#podsDirectory, podUid, ...names);
  }
}

function isPlainName(name: string): boolean {
  return !['', '.', '..'].includes(name) && !/[/\0]/.test(name);
}

type Kind = 'directory' | 'link' | 'other' | 'nothing';

function kindOf(path: string): Kind {
  try {
    const status = lstatSync(path, { throwIfNoEntry: false });
    if (status === undefined) return 'nothing';
    if (status.isDirectory()) return 'directory';
    return status.isSymbolicLink() ? 'link' : 'other';
  } catch {
    return 'nothing'; // gone, or out of reach: nothing that can be worked with
  }
}

/** Memory that cannot be mounted is linked to, and a raw device always is. */
function isVolumeKind(kind: Kind, below: 'volumes' | 'volumeDevices'): boolean {
  return kind === 'link' || kind === (below === 'volumes' ? 'directory' : 'other');
}

function keep(isGood: boolean, directory: string, name: string, skipped: SkippedEntry[]): boolean {
  if (!isGood) skipped.push({ path: join(directory, name), why: 'it is not what belongs there' });
  return isGood;
}

/** Names that are not UTF-8 cannot be those of an object; using them as text would name something else. */
function usableNames(directory: string, list: () => readonly Buffer[], skipped: SkippedEntry[]): readonly string[] {
  return list().flatMap((bytes) => {
    const name = bytes.toString();
    if (Buffer.from(name).equals(bytes)) return [name];
    skipped.push({ path: join(directory, name), why: 'its name is not UTF-8' });
    return [];
  });
}

function namesIn(directory: string, names: readonly string[]): readonly Buffer[] {
  return inside(directory, names, (descriptor) =>
    readdirSync(`/proc/self/fd/${descriptor}`, { encoding: 'buffer' }).toSorted((a, b) => a.compare(b)),
  );
}

/** Steps into one directory after another, and into nothing that a link leads to. */
function inside<Result>(directory: string, names: readonly string[], use: (descriptor: number) => Result): Result {
  const path = join(directory, ...names);
  return attempt(
    () => {
      let current = openDirectory(directory);
      try {
        for (const name of names) {
          const next = openDirectory(`/proc/self/fd/${current}/${name}`);
          closeSync(current);
          current = next;
        }
        return use(current);
      } finally {
        closeSync(current);
      }
    },
    (code) => `open ${path}: ${errnoText(code)}`,
  );
}

function mountPointsBelow(directory: string): ReadonlySet<string> {
  return new Set(readMountsBelow(directory).map(({ mountPoint }) => mountPoint));
}

/** The message is what the kernel said, in the words of Go where a path belongs to it. */
export class PodTreeError extends MountletError {
  readonly reason = 'PodDirectory';
}

/** What is mounted is in use, and never deleted. */
function mountPointError(path: string): PodTreeError {
  return new PodTreeError(`cannot delete directory ${path}: it is a mount point`);
}

/** Turns a failed system call into an error with these words. */
function attempt<Result>(act: () => Result, inWords: (code: string) => string): Result {
  try {
    return act();
  } catch (thrown) {
    const code = errnoOf(thrown);
    if (thrown instanceof PodTreeError || code === undefined) throw thrown;
    throw new PodTreeError(inWords(code), { cause: thrown });
  }
}

/** Deeper than any volume that only has empty directories in it; bounds the files that are open at once. */
const depthMax = 64;

/**
 * Removes `name` in the open directory `parent`: directories, and only directories, from the bottom up. Where a file is, or
 * something is mounted, the directories around it stay. Returns the first problem; undefined when all of it is gone.
 */
function removeEmptyTree(
  parent: number,
  name: string,
  path: string,
  mountPoints: ReadonlySet<string>,
): PodTreeError | undefined {
  return new EmptyRemoval(mountPoints).remove(parent, Buffer.from(name), path, 0);
}

/** Never what a link leads to. */
function openDirectory(path: string | Buffer): number {
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
