/**
 * The part of a volume that a container mounts by `subPath`. A container that can write to the volume chooses what is at
 * that path, and may change it at any time: so it is opened without ever following a link, and the open descriptor is
 * bound to a place below the pod's directory that no container can reach. The runtime gets that place.
 *
 *   <pod directory>/volume-subpaths/<volume>/<container>/<index>
 */
import {
  type Dirent,
  type Stats,
  closeSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmdirSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { MountletError } from '../../base/errors.ts';
import { errnoOf, guarded } from '../../linux/system-call-error.ts';
import { isWithin } from '../mounts/mount-table.ts';
import type { Mounts } from '../mounts/mounts.ts';
import { UnsafePathError, resolveLinks, safeMakeDirectory, safeOpen, textOf } from '../paths/safe-open.ts';
import { DiskError } from '../mounts/disk-error.ts';

export interface SubPathRequest {
  readonly podDirectory: string;
  readonly volumeDirectory: string;
  /** The name of the volume's directory: of a claim, the name of its PersistentVolume. */
  readonly volumeName: string;
  /** The name in the pod, for messages. */
  readonly volumeMountName: string;
  readonly containerName: string;
  /** Which of the container's volumeMounts this is. */
  readonly index: number;
  /** Relative, not empty. */
  readonly subPath: string;
}

/** Says no more than the kubelet does: details of the host's file system stay in `cause`, away from the pod's owner. */
export function subPathError(
  reason: 'SubPathNotCreated' | 'SubPathNotPrepared',
  { volumeMountName, containerName }: SubPathRequest,
  cause: unknown,
): DiskError {
  const failed = reason === 'SubPathNotCreated' ? 'create subPath directory' : 'prepare subPath';
  const where = `volumeMount ${JSON.stringify(volumeMountName)} of container ${JSON.stringify(containerName)}`;
  return new DiskError(reason, `failed to ${failed} for ${where}`, { cause });
}

/**
 * The host path to give to the runtime. A missing subPath is made, as a directory with the mode of the volume's.
 *
 * Where nothing can be mounted it is the path with all links resolved, after the same checks. That is safe when it is
 * returned, but a container that goes on changing the volume can change what it leads to; there, container and agent run as
 * the same ordinary user, who gains nothing by that.
 */
export function prepareSubPath(request: SubPathRequest, mounts: Mounts): string {
  createIfMissing(request);
  try {
    return withOpenSubPath(request, (descriptor, path) =>
      mounts.unavailable === undefined ? bindSubPath(request, descriptor, path, mounts) : path,
    );
  } catch (thrown) {
    throw thrown instanceof MountletError ? subPathError('SubPathNotPrepared', request, thrown) : thrown;
  }
}

function createIfMissing(request: SubPathRequest): void {
  const { volumeDirectory, subPath } = request;
  if (!isMissing(join(volumeDirectory, subPath))) return;
  const mode = modeOf(volumeDirectory);
  try {
    safeMakeDirectory(volumeDirectory, subPath, mode);
  } catch (thrown) {
    if (!(thrown instanceof UnsafePathError)) throw thrown;
    if (thrown.code === 'EEXIST') return; // made by another meanwhile, or a dangling link: the next step will show
    throw subPathError('SubPathNotCreated', request, thrown);
  }
}

/**
 * A path that cannot be inspected is not missing: making it would not help. `throwIfNoEntry` is of no use: from Node 22 on
 * it takes a path through a file for a missing one.
 */
function isMissing(path: string): boolean {
  try {
    statSync(path);
    return false;
  } catch (thrown) {
    if (errnoOf(thrown) === undefined) throw thrown;
    return errnoOf(thrown) === 'ENOENT';
  }
}

function modeOf(directory: string): number {
  return guarded(directory, () => statSync(directory).mode & 0o7777);
}

function withOpenSubPath(request: SubPathRequest, use: (descriptor: number, path: string) => string): string {
  const { descriptor, path } = openSubPath(request);
  try {
    return use(descriptor, path);
  } finally {
    closeSync(descriptor);
  }
}

interface OpenSubPath {
  /** O_PATH; the caller closes it. */
  readonly descriptor: number;
  /** Both without links. */
  readonly path: string;
  readonly volumePath: string;
}

/** Opens what is at a subPath now, never outside of the volume. Throws an UnsafePathError, also for what is missing. */
export function openSubPath({
  volumeDirectory,
  subPath,
}: Pick<SubPathRequest, 'volumeDirectory' | 'subPath'>): OpenSubPath {
  const wanted = join(volumeDirectory, subPath);
  const volumePath = resolveLinks(volumeDirectory, JSON.stringify(volumeDirectory));
  const path = resolveLinks(wanted, JSON.stringify(wanted));
  if (!isWithin(volumePath, path)) {
    throw new UnsafePathError(`subpath ${JSON.stringify(path)} not within volume path ${JSON.stringify(volumePath)}`);
  }
  try {
    return { descriptor: safeOpen(volumePath, path), path, volumePath };
  } catch (thrown) {
    if (!(thrown instanceof UnsafePathError)) throw thrown;
    throw new UnsafePathError(`error opening subpath ${path}: ${thrown.message}`, { cause: thrown });
  }
}

function bindSubPath(request: SubPathRequest, descriptor: number, path: string, mounts: Mounts): string {
  const target = join(subPathDirectory(request), String(request.index));
  if (hasBind(target, descriptor, mounts)) return target;
  makeBindTarget(target, fstatSync(descriptor).isDirectory());
  try {
    mounts.bindFileDescriptor(descriptor, target);
  } catch (thrown) {
    cleanSubPath(request, mounts);
    throw new UnsafePathError(`error mounting ${path}: ${messageOfCause(thrown)}`, { cause: thrown });
  }
  return target;
}

/**
 * Whether this very file is bound there already. Any other is taken away lazily: a normal unmount could wait for ever on
 * a dead file server. That is also how a restarted container gets new content: the inode is another after an update.
 */
function hasBind(target: string, descriptor: number, mounts: Mounts): boolean {
  if (!hasWorkingMount(target, mounts)) return false;
  const [wanted, bound] = [fstatSync(descriptor, { bigint: true }), lstatOf(target)];
  if (wanted.ino === bound.ino && wanted.dev === bound.dev) return true;
  try {
    mounts.unmount(target, { lazy: true });
  } catch (thrown) {
    throw new UnsafePathError(`error lazy-unmounting stale subpath mount ${target}: ${messageOfCause(thrown)}`, {
      cause: thrown,
    });
  }
  return false;
}

function hasWorkingMount(target: string, mounts: Mounts): boolean {
  try {
    return mounts.isMountPoint(target);
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return false;
    if (!isBrokenMount(thrown)) {
      throw new UnsafePathError(`error checking path ${target} for mount: ${messageOfCause(thrown)}`, {
        cause: thrown,
      });
    }
  }
  try {
    mounts.unmount(target);
    return false;
  } catch (thrown) {
    throw new UnsafePathError(`error unmounting corrupted mount ${target}: ${messageOfCause(thrown)}`, {
      cause: thrown,
    });
  }
}

/** A directory is bound onto a directory, anything else onto a file. A target of the other kind, left over, makes way. */
function makeBindTarget(target: string, asDirectory: boolean): void {
  try {
    mkdirSync(dirname(target), { recursive: true, mode: 0o750 });
    const present = lstatSync(target, { throwIfNoEntry: false });
    if (present !== undefined && present.isDirectory() !== asDirectory) {
      if (present.isDirectory()) rmdirSync(target);
      else unlinkSync(target);
    }
    if (!asDirectory) writeFileSync(target, '', { mode: 0o640 });
    else if (!present?.isDirectory()) mkdirSync(target, { mode: 0o750 });
  } catch (thrown) {
    const kind = asDirectory ? 'directory' : 'file';
    throw new UnsafePathError(`error creating ${kind} ${target}: ${textOf(thrown)}`, { cause: thrown });
  }
}

function lstatOf(path: string): { ino: bigint; dev: bigint } {
  return guarded(path, () => lstatSync(path, { bigint: true }));
}

function messageOfCause(thrown: unknown): string {
  if (!(thrown instanceof MountletError)) throw thrown;
  return thrown.message;
}

/** Takes away the binds that sub-path.ts made, when a volume or its pod goes. */
const directoryName = 'volume-subpaths';

export interface SubPathOwner {
  readonly podDirectory: string;
  readonly volumeName: string;
  readonly containerName: string;
  readonly index: number;
}

/** Where the binds of one volume are, of all containers of the pod. */
export function subPathsDirectory(podDirectory: string, volumeName: string): string {
  return join(podDirectory, directoryName, requireName(volumeName));
}

function subPathDirectory({ podDirectory, volumeName, containerName }: SubPathOwner): string {
  return join(subPathsDirectory(podDirectory, volumeName), requireName(containerName));
}

/** No container can have this name, so it stands beside those of the containers. */
const liveName = '..live';

/** Where the subPaths of a volume are that follow its updates: a mount of its own, made by live-sub-paths.ts. */
export function liveSubPathsDirectory(podDirectory: string, volumeName: string): string {
  return join(subPathsDirectory(podDirectory, volumeName), liveName);
}

/** The volumes of a pod that have subPaths, following or not. */
export function volumesWithSubPaths(podDirectory: string): string[] {
  return (entriesOf(join(podDirectory, directoryName)) ?? [])
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

/** Validation has seen to it already, unless someone went around it; then the name must not become a way out. */
export function requireName(name: string): string {
  if (['', '.', '..', liveName].includes(name) || /[/\0]/.test(name)) {
    throw new UnsafePathError(`invalid name of a volume or container: ${JSON.stringify(name)}`);
  }
  return name;
}

const brokenMountCodes = new Set(['ENOTCONN', 'ESTALE', 'EIO', 'EACCES', 'EHOSTDOWN', 'EAGAIN', 'ENODEV']);

/** Whether an error says that a mount is there whose file system is gone (a dead server, a crashed FUSE program). */
function isBrokenMount(thrown: unknown): boolean {
  return brokenMountCodes.has(errnoOf(thrown) ?? '');
}

/**
 * Unmounts and removes all binds of a volume of a pod, of all its containers. Missing ones are fine. What is below a
 * bind is never looked at: it is the volume's.
 */
export function cleanSubPaths(podDirectory: string, volumeName: string, mounts: Mounts): void {
  const directory = subPathsDirectory(podDirectory, volumeName);
  if (entriesOf(directory) === undefined) return;
  cleanLiveSubPaths(join(directory, liveName), mounts);
  for (const container of entriesOf(directory) ?? []) {
    if (!container.isDirectory()) continue; // not ours: it stays, and removing the directory below fails by it
    const containerDirectory = join(directory, container.name);
    for (const { name } of entriesOf(containerDirectory) ?? []) {
      try {
        cleanMountPoint(join(containerDirectory, name), mounts);
      } catch (thrown) {
        throw cleaningError(`error processing ${containerDirectory}`, thrown);
      }
    }
    removeDirectory(containerDirectory);
  }
  removeDirectory(directory);
  removeDirectory(join(podDirectory, directoryName), ['ENOTEMPTY', 'EEXIST']); // other volumes may have binds
}

/** Lazily, and with it goes all that is mounted below it. What it holds is in memory and goes with its last user. */
function cleanLiveSubPaths(directory: string, mounts: Mounts): void {
  try {
    unmountAll(directory, mounts, { lazy: true });
    remove(directory);
  } catch (thrown) {
    throw cleaningError(`error cleaning subpath mount ${directory}`, thrown);
  }
}

/** Undoes one bind, after it failed: also what was made for it, as far as it is empty. Its failure is not the news. */
function cleanSubPath(owner: SubPathOwner, mounts: Mounts): void {
  try {
    const containerDirectory = subPathDirectory(owner);
    cleanMountPoint(join(containerDirectory, String(owner.index)), mounts);
    removeEmptyDirectories(owner.podDirectory, containerDirectory);
  } catch (thrown) {
    if (!(thrown instanceof MountletError)) throw thrown;
  }
}

/** Removes directories from `end` upwards until one that is not empty, never `base` itself. Missing ones are skipped. */
export function removeEmptyDirectories(base: string, end: string): void {
  if (!isWithin(base, end)) {
    throw new DiskError(
      'SubPathNotCleaned',
      `endDir ${JSON.stringify(end)} is not within baseDir ${JSON.stringify(base)}`,
    );
  }
  for (let current = end; current !== base; current = dirname(current)) {
    const status = statOf(current);
    if (status === undefined) continue;
    if (!status.isDirectory())
      throw new DiskError('SubPathNotCleaned', `path ${JSON.stringify(current)} not a directory`);
    try {
      rmdirSync(current);
    } catch (thrown) {
      if (errnoOf(thrown) === 'ENOTEMPTY' || errnoOf(thrown) === 'EEXIST') return;
      throw cleaningError(`error removing directory ${JSON.stringify(current)}`, thrown);
    }
  }
}

/** A place bound twice by mistake needs two unmounts; a place that needs more than this was not bound by us. */
const unmountsMax = 8;

function cleanMountPoint(path: string, mounts: Mounts): void {
  try {
    unmountAll(path, mounts);
    remove(path);
  } catch (thrown) {
    throw cleaningError(`error cleaning subpath mount ${path}`, thrown);
  }
}

/** Takes off all that is mounted on a place. */
export function unmountAll(path: string, mounts: Mounts, options: { readonly lazy?: boolean } = {}): void {
  for (let count = 0; isMounted(path, mounts); count += 1) {
    if (count === unmountsMax) throw new DiskError('SubPathNotCleaned', `failed to cleanup mount point ${path}`);
    mounts.unmount(path, options);
  }
}

function isMounted(path: string, mounts: Mounts): boolean {
  try {
    return mounts.isMountPoint(path);
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return false;
    if (isBrokenMount(thrown)) return true;
    throw thrown;
  }
}

function remove(path: string): void {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined) return;
  if (status.isDirectory()) rmdirSync(path);
  else unlinkSync(path);
}

function removeDirectory(path: string, tolerated: readonly (string | undefined)[] = []): void {
  try {
    rmdirSync(path);
  } catch (thrown) {
    if (!tolerated.includes(errnoOf(thrown))) throw cleaningError(`error deleting ${path}`, thrown);
  }
}

function entriesOf(directory: string): Dirent[] | undefined {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return undefined;
    throw cleaningError(`error reading ${directory}`, thrown);
  }
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return undefined;
    throw cleaningError(`error stat ${JSON.stringify(path)}`, thrown);
  }
}

function cleaningError(failure: string, thrown: unknown): DiskError {
  const detail = thrown instanceof MountletError ? thrown.message : textOf(thrown);
  return new DiskError('SubPathNotCleaned', `${failure}: ${detail}`, { cause: thrown });
}
