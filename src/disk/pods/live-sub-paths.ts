/**
 * SubPaths that follow the updates of their volume, which the kubelet's do not: its bind stays on the inode of the first
 * version. Only for volumes whose content this program alone writes, through the atomic writer. Whether a mount is to
 * follow is decided elsewhere.
 *
 *   prepare   copies the live version to a place on a shared tmpfs: the base, which the runtime binds as a slave
 *   follow    the container has its mounts: from now on the base is covered by a mount of the live version
 *   refresh   `..data` was swapped: exchanges that mount, which the kernel repeats in the container, and touches what it
 *             hides: an inotify watch is set on an inode, and does not see mounts
 *
 * Why a copy: what is mounted in a container is mounted on what it bound, so that must stay. A file that is a mount point
 * cannot be deleted here, and deleting it elsewhere would unmount what it carries; a version's own file would be both. Why
 * not cover the base at once: a container that binds it then binds the cover, which is taken away by the next update.
 *
 * Everything known is in the mount table and in the names of files (live-sub-path-place.ts): after a crash at any step, the
 * next `refresh` or `prepare` goes on from there.
 */
import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  futimesSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  readdirSync,
  realpathSync,
  renameSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { MountletError } from '../../base/errors.ts';
import { SystemCallError, errnoOf, errnoText, systemCallError } from '../../linux/system-call-error.ts';
import { isWithin, openPathOnly, readMountsBelow } from '../mounts/mount-table.ts';
import type { Mounts } from '../mounts/mounts.ts';
import type { PlacedRestriction, ReplaceableMounts } from '../mounts/replaceable-mounts.ts';
import { removeTree } from '../paths/remove-tree.ts';
import { UnsafePathError, resolveLinks } from '../paths/safe-open.ts';
import { dataLink } from '../writer/inspection.ts';
import { isVersionName } from '../writer/version.ts';
import {
  type FoundPlace,
  type LiveRecord,
  LiveSubPathPlace,
  copyTree,
  findPlaces,
  transition,
} from './live-sub-path-place.ts';
import {
  type SubPathOwner,
  type SubPathRequest,
  liveSubPathsDirectory,
  openSubPath,
  subPathError,
  unmountAll,
  volumesWithSubPaths,
} from './sub-paths.ts';

export interface LiveSubPathRequest extends SubPathRequest {
  /** What the runtime restricts its own mount by; what comes to lie on that would allow it again. */
  readonly restrictions?: readonly PlacedRestriction[];
}

/** Names no subPath: it may have been made from a Secret. */
export interface SubPathNotice extends SubPathOwner {
  readonly kind: 'SubPathUpdated' | 'SubPathLost' | 'SubPathNotUpdated';
  readonly message: string;
}

interface LiveSubPathsDeps {
  readonly mounts: Mounts;
  readonly replaceable: ReplaceableMounts;
  readonly notify: (notice: SubPathNotice) => void;
}

export class LiveSubPaths {
  readonly #mounts: Mounts;
  readonly #replaceable: ReplaceableMounts;
  readonly #notify: (notice: SubPathNotice) => void;

  constructor({ mounts, replaceable, notify }: LiveSubPathsDeps) {
    this.#mounts = mounts;
    this.#replaceable = replaceable;
    this.#notify = notify;
  }

  /** Why no subPath can follow on this machine, or undefined. */
  get unavailable(): string | undefined {
    return this.#replaceable.unavailable;
  }

  /**
   * The host path that the runtime binds with slave propagation, with the content of now; for a container that is not
   * running. Undefined if there is nothing to follow: the subPath is missing, is not safe, or is none of the files that
   * are replaced (a directory made for a missing subPath, say). `prepareSubPath` has the answer then.
   */
  prepare(request: LiveSubPathRequest): string | undefined {
    const place = new LiveSubPathPlace(request);
    try {
      this.#takeAway(place);
      const source = openLive(request);
      if (source === undefined) return undefined;
      try {
        this.#makeDirectory(request);
        mkdirSync(place.directory, { recursive: true, mode: 0o750 });
        copyTree(`/proc/self/fd/${source.descriptor}`, place.draft);
        renameSync(place.draft, place.base);
        const { volumeDirectory, subPath, restrictions = [] } = request;
        place.write({ volumeDirectory, subPath, version: source.version, restrictions });
        return place.base;
      } finally {
        closeSync(source.descriptor);
      }
    } catch (thrown) {
      const cause = systemCallError(thrown, place.base);
      throw cause instanceof MountletError ? subPathError('SubPathNotPrepared', request, cause) : cause;
    }
  }

  /**
   * The container has started, or was found running by a program that has just started: it has bound what it was given.
   * False if something of it could not be brought up to date.
   */
  follow({ podDirectory, containerName }: Pick<SubPathOwner, 'podDirectory' | 'containerName'>): boolean {
    const found = volumesWithSubPaths(podDirectory).flatMap((volumeName) =>
      findPlaces(podDirectory, volumeName, containerName),
    );
    return this.#updateAll(found.map((one) => (one.state === 'prepared' ? transition(one, 'followed') : one)));
  }

  /**
   * The volume's content was replaced: brings all that follows it up to date, of all containers. False if
   * something still shows the version before, which then should not be deleted. Costs one look where nothing follows.
   */
  refresh({ podDirectory, volumeName }: Pick<SubPathOwner, 'podDirectory' | 'volumeName'>): boolean {
    const found = findPlaces(podDirectory, volumeName);
    return this.#updateAll(found.filter(({ state }) => state !== 'prepared'));
  }

  #updateAll(found: readonly FoundPlace[]): boolean {
    let complete = true;
    for (const one of found) {
      try {
        this.#update(one);
      } catch (thrown) {
        if (!(thrown instanceof MountletError) && errnoOf(thrown) === undefined) throw thrown;
        complete = false;
        // What a path had in it stays in the error: a subPath may be secret.
        this.#emit(
          'SubPathNotUpdated',
          one.owner,
          `keeps its content: ${problemOf(thrown)}; the next update tries again`,
        );
      }
    }
    return complete;
  }

  #update(one: FoundPlace): void {
    const { place, state } = one;
    if (state === 'changing') this.#unstack(place);
    const record = place.read(state);
    const source = openLive(record);
    try {
      if (source === undefined || source.isDirectory !== place.isDirectory()) return this.#lose(one);
      const isCovered = this.#mounts.isMountPoint(place.base);
      const isCurrent = isCovered ? isSame(source.descriptor, place.base) : source.version === record.version;
      if (!isCurrent) {
        const changing = transition(one, 'changing');
        const exchange = isCovered ? 'replace' : 'place';
        this.#replaceable[exchange](source.descriptor, place.base, record.restrictions);
        this.#touchHidden(place, record, source);
        this.#emit('SubPathUpdated', one.owner, 'shows the new content');
        this.#settle(changing);
      } else if (state !== 'followed') this.#settle(one);
    } finally {
      if (source !== undefined) closeSync(source.descriptor);
    }
  }

  /**
   * The copy, which is never deleted, and earlier versions, which are deleted later: someone may be watching each of them.
   * A failure costs an event and no content.
   */
  #touchHidden({ base, directory }: LiveSubPathPlace, { volumeDirectory }: LiveRecord, source: LiveSource): void {
    try {
      for (const name of readdirSync(volumeDirectory)) {
        if (isVersionName(name) && name !== source.version)
          touchTree(join(volumeDirectory, name, source.pathInVersion));
      }
      const uncovered = this.#replaceable.openUncovered(dirname(directory));
      try {
        touchTree(join(`/proc/self/fd/${uncovered}`, basename(directory), basename(base)));
      } finally {
        closeSync(uncovered);
      }
    } catch (thrown) {
      if (errnoOf(thrown) === undefined) throw thrown;
    }
  }

  #settle(one: FoundPlace): void {
    removeIfThere(one.place.copy);
    transition(one, 'followed');
  }

  /** The last content stays. A file is kept by its mount, but the files of a directory go with their version. */
  #lose(one: FoundPlace): void {
    const { place, state } = one;
    if (state === 'lost') return;
    const changing = transition(one, 'changing');
    if (place.isDirectory() && this.#mounts.isMountPoint(place.base)) this.#showCopy(changing);
    transition(changing, 'lost');
    this.#emit(
      'SubPathLost',
      one.owner,
      'keeps the last content: its subPath is not in the volume any more, or of another kind',
    );
  }

  #showCopy({ place, state }: FoundPlace): void {
    if (place.hasCopy()) {
      const [copied, shown] = [lstatSync(place.copy, { bigint: true }), lstatSync(place.base, { bigint: true })];
      if (copied.ino === shown.ino && copied.dev === shown.dev) return; // before a crash
      removeIfThere(place.copy);
    }
    removeIfThere(place.draft);
    copyTree(place.base, place.draft);
    renameSync(place.draft, place.copy);
    const descriptor = openSync(place.copy, openPathOnly);
    try {
      this.#replaceable.replace(descriptor, place.base, place.read(state).restrictions);
    } finally {
      closeSync(descriptor);
    }
  }

  /** A crash came between the two steps of an exchange: the lower mount is the newer one. */
  #unstack({ base }: LiveSubPathPlace): void {
    const path = realpathSync(base);
    const stacked = readMountsBelow(path).filter(({ mountPoint }) => mountPoint === path);
    for (const _ of stacked.slice(1)) this.#replaceable.detach(base);
  }

  #makeDirectory({ podDirectory, volumeName }: SubPathOwner): void {
    const root = liveSubPathsDirectory(podDirectory, volumeName);
    mkdirSync(root, { recursive: true, mode: 0o750 });
    if (!this.#mounts.isMountPoint(root)) this.#mounts.mountTmpfs(root);
    chmodSync(root, 0o750);
    this.#replaceable.share(root);
  }

  #takeAway(place: LiveSubPathPlace): void {
    if (lstatSync(place.directory, { throwIfNoEntry: false }) === undefined) return;
    place.forget();
    unmountAll(place.base, this.#mounts, { lazy: true });
    for (const path of [place.base, place.copy, place.draft]) removeIfThere(path);
  }

  #emit(kind: SubPathNotice['kind'], owner: SubPathOwner, what: string): void {
    const { containerName, index, volumeName } = owner;
    this.#notify({
      ...owner,
      kind,
      message: `mount ${index} of container "${containerName}" (volume "${volumeName}") ${what}`,
    });
  }
}

interface LiveSource {
  /** O_PATH; the caller closes it. */
  readonly descriptor: number;
  /** The name of the live version. */
  readonly version: string;
  readonly pathInVersion: string;
  readonly isDirectory: boolean;
}

/** Without a code it leads out of the volume. */
const missingCodes: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', undefined]);

/** What a subPath leads to in the live version; undefined if it leads to nothing there. */
function openLive(wanted: Pick<LiveRecord, 'volumeDirectory' | 'subPath'>): LiveSource | undefined {
  try {
    const version = resolveLinks(join(wanted.volumeDirectory, dataLink), dataLink);
    const { descriptor, path } = openSubPath(wanted);
    const status = fstatSync(descriptor);
    if (isWithin(version, path) && (status.isFile() || status.isDirectory())) {
      const pathInVersion = relative(version, path);
      return { descriptor, version: basename(version), pathInVersion, isDirectory: status.isDirectory() };
    }
    closeSync(descriptor);
    return undefined;
  } catch (thrown) {
    const isMissing = thrown instanceof UnsafePathError && missingCodes.has(thrown.code);
    if (!isMissing) throw thrown;
    return undefined;
  }
}

/**
 * Makes inotify report a change of every file without changing any: the first byte is written over itself, so that who is
 * reading the file still reads what it began with.
 */
function touchTree(path: string): void {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status?.isDirectory() === true) {
    for (const name of readdirSync(path)) touchTree(join(path, name));
  }
  if (status?.isFile() !== true) return;
  const descriptor = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW);
  try {
    const first = Buffer.alloc(1);
    if (readSync(descriptor, first, 0, 1, 0) === 1) writeSync(descriptor, first, 0, 1, 0);
    else futimesSync(descriptor, status.atime, status.mtime);
  } finally {
    closeSync(descriptor);
  }
}

/** A mount holds its inode, so that no other file can have got its number. */
function isSame(descriptor: number, path: string): boolean {
  const [wanted, shown] = [fstatSync(descriptor, { bigint: true }), lstatSync(path, { bigint: true })];
  return wanted.ino === shown.ino && wanted.dev === shown.dev;
}

/** Nothing is mounted on these; should something be below them all the same, it is left alone. */
function removeIfThere(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) removeTree(path, () => []);
}

/** Without a path. */
function problemOf(thrown: unknown): string {
  if (thrown instanceof SystemCallError) return `${thrown.call} failed, ${thrown.problem}`;
  const code = errnoOf(thrown);
  return code === undefined ? 'it cannot be reached safely' : errnoText(code);
}
