/** The kind of a path of the host, and the check of a hostPath volume's type, with the kubelet's words. */
import { type Stats, closeSync, constants, mkdirSync, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { MountletError } from '../../base/errors.ts';
import { errnoOf, errnoText } from '../../linux/system-call-error.ts';
import { DiskError } from '../mounts/disk-error.ts';

type HostKind = 'Directory' | 'File' | 'Socket' | 'CharDevice' | 'BlockDevice';

/** Follows links. Throws a DiskError for a missing path and for anything that has none of these kinds (a fifo). */
export function hostKindOf(path: string): HostKind {
  let status: Stats;
  try {
    status = statSync(path);
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT')
      throw new DiskError('HostPathCheckFailed', `path ${JSON.stringify(path)} does not exist`, { cause: thrown });
    throw asGoWrites('stat', path, thrown);
  }
  if (status.isDirectory()) return 'Directory';
  if (status.isFile()) return 'File';
  if (status.isSocket()) return 'Socket';
  if (status.isCharacterDevice()) return 'CharDevice';
  if (status.isBlockDevice()) return 'BlockDevice';
  throw new DiskError(
    'HostPathCheckFailed',
    'only recognise file, directory, socket, block device and character device',
  );
}

const words: Readonly<Record<HostKind, string>> = {
  Directory: 'directory',
  File: 'file',
  Socket: 'socket file',
  CharDevice: 'character device',
  BlockDevice: 'block device',
};

/**
 * Checks that the path is what a hostPath volume's `type` says, and makes it for the types that ask for that. An empty
 * type checks nothing. Throws a DiskError with the kubelet's message.
 */
export function checkHostPath(path: string, type: string): void {
  if (path.split('/').includes('..'))
    throw new DiskError('HostPathCheckFailed', `invalid HostPath \`${path}\`: must not contain '..'`);
  switch (type) {
    case '':
      return;
    case 'DirectoryOrCreate':
      if (!isPresent(path)) return makeDirectory(path);
      return requireKind(path, 'Directory');
    case 'FileOrCreate':
      if (!isPresent(path)) return makeFile(path);
      return requireKind(path, 'File');
    case 'Directory':
    case 'File':
    case 'Socket':
    case 'CharDevice':
    case 'BlockDevice':
      return requireKind(path, type);
    default:
      throw new DiskError('HostPathCheckFailed', `${type} is an invalid volume type`);
  }
}

function requireKind(path: string, wanted: HostKind): void {
  let found: HostKind;
  try {
    found = hostKindOf(path);
  } catch (thrown) {
    if (!(thrown instanceof DiskError)) throw thrown;
    const what = `hostPath type check failed, ${path} is not a ${words[wanted]}`;
    throw new DiskError('HostPathCheckFailed', `${what}, unable to determine its type: ${thrown.message}`, {
      cause: thrown,
    });
  }
  if (found !== wanted) {
    throw new DiskError(
      'HostPathCheckFailed',
      `hostPath type check failed: ${path} is not a ${words[wanted]}, it's a ${found}`,
    );
  }
}

/** A path that cannot be looked at counts as missing: making it then fails with the reason. */
function isPresent(path: string): boolean {
  try {
    statSync(path);
    return true;
  } catch {
    return false;
  }
}

/**
 * As `mkdir -p`. A dangling link counts as missing, yet nothing can be made in its place (EEXIST): the kubelet takes
 * that for a success, and so does everyone's manifest by now.
 */
function makeDirectory(path: string): void {
  try {
    makeWithParents(path);
  } catch (thrown) {
    if (errnoOf(thrown) !== 'EEXIST') throw asGoWrites('mkdir', path, thrown);
  }
}

function makeWithParents(path: string): void {
  try {
    return mkdirSync(path, { mode: 0o755 });
  } catch (thrown) {
    const code = errnoOf(thrown);
    if (code === 'EEXIST') return requireDirectory(path, thrown);
    if ((code !== 'ENOENT' && code !== 'ENOTDIR') || dirname(path) === path) throw thrown;
  }
  makeWithParents(dirname(path));
  makeWithParents(path);
}

function requireDirectory(path: string, exists: unknown): void {
  const status = statSync(path, { throwIfNoEntry: false });
  if (status === undefined) throw exists;
  if (!status.isDirectory())
    throw new DiskError('HostPathCheckFailed', `mkdir ${path}: ${errnoText('ENOTDIR')}`, { cause: exists });
}

function makeFile(path: string): void {
  try {
    closeSync(openSync(path, constants.O_RDONLY | constants.O_CREAT, 0o644));
  } catch (thrown) {
    if (errnoOf(thrown) !== 'EEXIST') throw asGoWrites('open', path, thrown);
  }
}

function asGoWrites(call: string, path: string, thrown: unknown): unknown {
  const code = errnoOf(thrown);
  return thrown instanceof MountletError || code === undefined
    ? thrown
    : new DiskError('HostPathCheckFailed', `${call} ${path}: ${errnoText(code)}`, { cause: thrown });
}
