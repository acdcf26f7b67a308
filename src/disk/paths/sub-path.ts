/**
 * The part of a volume that a container mounts by `subPath`. A container that can write to the volume chooses what is at
 * that path, and may change it at any time: so it is opened without ever following a link, and the open descriptor is
 * bound to a place below the pod's directory that no container can reach. The runtime gets that place.
 *
 *   <pod directory>/volume-subpaths/<volume>/<container>/<index>
 */
import { closeSync, fstatSync, lstatSync, mkdirSync, rmdirSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { MountletError } from '../../base/errors.ts';
import type { Mounts } from '../mounts/mounts.ts';
import { isWithin } from './path-within.ts';
import { safeMakeDirectory } from './safe-make-directory.ts';
import { UnsafePathError, resolveLinks, safeOpen, textOf } from './safe-open.ts';
import { cleanSubPath, isBrokenMount, subPathDirectory } from './sub-path-cleaning.ts';
import { errnoOf, systemCallError } from '../system-call-error.ts';

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
export class SubPathError extends MountletError {
  readonly reason: 'SubPathNotCreated' | 'SubPathNotPrepared';

  constructor(reason: SubPathError['reason'], { volumeMountName, containerName }: SubPathRequest, cause: unknown) {
    const failed = reason === 'SubPathNotCreated' ? 'create subPath directory' : 'prepare subPath';
    const where = `volumeMount ${JSON.stringify(volumeMountName)} of container ${JSON.stringify(containerName)}`;
    super(`failed to ${failed} for ${where}`, { cause });
    this.reason = reason;
  }
}

/** The host path to give to the runtime. A missing subPath is made, as a directory with the mode of the volume's. */
export function prepareSubPath(request: SubPathRequest, mounts: Mounts): string {
  if (mounts.unavailable !== undefined) return resolveSubPath(request);
  createIfMissing(request);
  try {
    return withOpenSubPath(request, (descriptor, path) => bindSubPath(request, descriptor, path, mounts));
  } catch (thrown) {
    throw preparing(request, thrown);
  }
}

/**
 * The same checks without a bind: the path with all links resolved. Only where nothing can be mounted. The path is safe
 * when it is returned, but a container that goes on changing the volume can change what it leads to; there, container
 * and agent run as the same ordinary user, who gains nothing by that.
 */
export function resolveSubPath(request: SubPathRequest): string {
  createIfMissing(request);
  try {
    return withOpenSubPath(request, (_descriptor, path) => path);
  } catch (thrown) {
    throw preparing(request, thrown);
  }
}

function preparing(request: SubPathRequest, thrown: unknown): unknown {
  return thrown instanceof MountletError ? new SubPathError('SubPathNotPrepared', request, thrown) : thrown;
}

function createIfMissing(request: SubPathRequest): void {
  const { volumeDirectory, subPath } = request;
  if (!isMissing(join(volumeDirectory, subPath))) return;
  const mode = modeOf(volumeDirectory);
  try {
    safeMakeDirectory(volumeDirectory, subPath, mode);
  } catch (thrown) {
    if (!(thrown instanceof UnsafePathError)) throw thrown;
    if (thrown.code === 'EEXIST') return; // made by another meanwhile, or a dangling link: the next step tells
    throw new SubPathError('SubPathNotCreated', request, thrown);
  }
}

/**
 * A path that cannot be looked at is not missing: making it would not help. `throwIfNoEntry` does not tell: from Node 22 on
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
  try {
    return statSync(directory).mode & 0o7777;
  } catch (thrown) {
    throw systemCallError(thrown, directory);
  }
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
  if (!isMounted(target, mounts)) return false;
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

function isMounted(target: string, mounts: Mounts): boolean {
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
  try {
    return lstatSync(path, { bigint: true });
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}

function messageOfCause(thrown: unknown): string {
  if (!(thrown instanceof MountletError)) throw thrown;
  return thrown.message;
}
