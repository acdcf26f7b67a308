/**
 * One version of a volume's content: a directory `..2026_08_20_18_59_46.3049856227` with all files of a payload. A
 * version is complete before anyone can see it, never changed afterwards, and removed once the next one is live. Which
 * version is live is not known here.
 *
 * Whether a version is exactly what a payload asks for (files, directories, bytes, modes, owners and group, and nothing
 * else) is answered slowly by reading it, or fast by the identity of inodes that were read before.
 */
import {
  type Stats,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  readdirSync,
  rmdirSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { MountletError, errorCode } from '../../base/errors.ts';
import type { Steps } from '../../base/turns.ts';
import { systemErrorText } from '../../linux/system-call-error.ts';
import { directoryBits, fileBits, setgid } from '../paths/ownership.ts';
import { removal } from '../paths/remove-tree.ts';
import { openToRead } from '../paths/safe-open.ts';
import type { PayloadFile, PayloadTree, TreePaths } from './payload.ts';

const directoryMode = 0o755;
const nameAttemptsMax = 10_000; // the kubelet's; one is nearly always enough
const keepOwner = -1;
/** A yield costs half a microsecond, too much for each file; creating a file can cost a millisecond, so not many more. */
const filesPerStep = 4;

/** A name the writer could have made; only such names are ever taken for its leftovers. */
export function isVersionName(name: string): boolean {
  return /^\.\.\d{4}(?:_\d\d){5}\.\d{1,10}$/.test(name);
}

function versionName(nowMs: number, random: number): string {
  return `..${new Date(nowMs).toISOString().slice(0, 19).replace(/[-T:]/g, '_')}.${random}`;
}

export interface NameSource {
  /** Milliseconds since the epoch. */
  now(): number;
  /** An unsigned 32-bit number. */
  random(): number;
}

/** Makes an empty version directory and returns its bare name. */
export function makeVersion(volume: string, names: NameSource): string {
  for (let attempt = 1; ; attempt += 1) {
    const name = versionName(names.now(), names.random());
    try {
      mkdirSync(`${volume}/${name}`, 0o700);
      return name;
    } catch (error) {
      if (errorCode(error) !== 'EEXIST' || attempt === nameAttemptsMax) throw error;
    }
  }
}

/** The mode a directory of a version ends with: 0755 whatever the umask, so that it can be compared later. */
function modeOfDirectory(group: number | undefined): number {
  return group === undefined ? directoryMode : directoryMode | directoryBits('read-only');
}

/** The mode a file of a version ends with. */
function modeOfFile({ mode }: PayloadFile, group: number | undefined): number {
  return group === undefined ? mode & 0o777 : (mode & 0o777) | fileBits('read-only');
}

/**
 * Fills an empty version directory. With a group, everything gets it here, before anyone can see the version; where the
 * system refuses the group that is counted and not an error, as in the kubelet. Returns how often it was refused.
 */
export function* fillVersion(
  version: string,
  { files, directories }: PayloadTree,
  group: number | undefined,
): Steps<number> {
  const mode = modeOfDirectory(group);
  let refused = 0;
  let done = 0;
  for (const directory of directories) {
    mkdirSync(`${version}/${directory}`, 0o700);
    refused += finishDirectory(`${version}/${directory}`, mode, group);
    yield;
  }
  for (const [path, file] of files) {
    refused += writeFile(`${version}/${path}`, file, group);
    if (++done % filesPerStep === 0) yield;
  }
  // Opened last: no partial version is readable.
  return refused + finishDirectory(version, mode, group);
}

function finishDirectory(path: string, mode: number, group: number | undefined): number {
  let refused = 0;
  if (group !== undefined) {
    try {
      chownSync(path, keepOwner, group);
    } catch {
      refused = 1;
    }
  }
  chmodSync(path, mode);
  return refused;
}

/** Created with 0600: no other user can open the file before its owner, group and mode are right. */
function writeFile(path: string, file: PayloadFile, group: number | undefined): number {
  const { data, uid } = file;
  const descriptor = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
  try {
    for (let written = 0; written < data.length;) {
      written += writeSync(descriptor, data, written, data.length - written);
    }
    let refused = 0;
    if (uid !== undefined) giveTo(descriptor, path, uid);
    if (group !== undefined) {
      try {
        fchownSync(descriptor, keepOwner, group);
      } catch {
        refused = 1;
      }
    }
    fchmodSync(descriptor, modeOfFile(file, group));
    return refused;
  } catch (error) {
    throw error instanceof OwnerRefusedError ? error : new VolumeWriteError(error, path);
  } finally {
    closeSync(descriptor);
  }
}

function giveTo(descriptor: number, path: string, uid: number): void {
  try {
    fchownSync(descriptor, uid, -1);
  } catch (error) {
    throw errorCode(error) === 'EPERM' ? new OwnerRefusedError(path, uid, { cause: error }) : error;
  }
}

/**
 * Removes a version, or whatever else has its name. Where the content is known nothing has to be listed, unless others put
 * something into it.
 */
export function* removeVersion(version: string, content: TreePaths | undefined): Steps<void> {
  if (content === undefined) return yield* removal(version, noMountsBelow);
  let done = 0;
  try {
    for (const path of content.files.keys()) {
      unlinkSync(`${version}/${path}`);
      if (++done % filesPerStep === 0) yield;
    }
    for (const directory of content.directories.toReversed()) {
      rmdirSync(`${version}/${directory}`);
      yield;
    }
    rmdirSync(version);
  } catch {
    yield* removal(version, noMountsBelow);
  }
}

/** Reading the mount table costs more than the rest. What is mounted in a version is still found, and left alone. */
const noMountsBelow = (): readonly [] => [];

/** The size of all files below a directory. */
export function* bytesBelow(directory: string): Steps<number> {
  let bytes = 0;
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = `${directory}/${entry.name}`;
    bytes += entry.isDirectory() ? yield* bytesBelow(path) : (lstatSync(path, { throwIfNoEntry: false })?.size ?? 0);
    yield;
  }
  return bytes;
}

export interface WantedOwnership {
  readonly group: number | undefined;
  /** The system refused this group before: asking for it again would rewrite the volume for ever. */
  readonly groupRefused: boolean;
}

/** The inodes of a version: its directory, the directories below, the files; in the order of the tree they were read for. */
export type VersionInodes = readonly Stats[];

/**
 * Reads the version: its inodes when it is as wanted, undefined when anything differs. `ours` means that we wrote this very
 * tree into it: then the attributes are enough for a file that its own owner may not read (mode 0200, and we are not root).
 */
export function* readVersion(
  version: string,
  tree: PayloadTree,
  owned: WantedOwnership,
  ours: boolean,
): Steps<VersionInodes | undefined> {
  const { files, directories } = tree;
  const inodes: Stats[] = [];
  let entries = 0;
  for (const path of [version, ...directories.map((directory) => `${version}/${directory}`)]) {
    const inode = lstatSync(path, { throwIfNoEntry: false });
    if (inode === undefined || !isDirectoryRight(inode, owned)) return undefined;
    inodes.push(inode);
    entries += readdirSync(path).length;
    yield;
  }
  // Every wanted entry is looked up by name below, so an equal number means that there is nothing else.
  if (entries !== files.size + directories.length) return undefined;
  for (const [path, file] of files) {
    const inode = readFile(`${version}/${path}`, file, owned, ours);
    if (inode === undefined) return undefined;
    inodes.push(inode);
    yield;
  }
  return inodes;
}

/** Whether a version that was read before still has the very inodes it had then. `tree` is the one it was read for. */
export function* isUntouched(
  version: string,
  { files, directories }: TreePaths,
  inodes: VersionInodes,
): Steps<boolean> {
  if (!isSameInode(inodes[0], lstatSync(version, { throwIfNoEntry: false }))) return false;
  let index = 1;
  for (const directory of directories) {
    if (!isSameInode(inodes[index++], lstatSync(`${version}/${directory}`, { throwIfNoEntry: false }))) return false;
    yield;
  }
  for (const path of files.keys()) {
    if (!isSameInode(inodes[index++], lstatSync(`${version}/${path}`, { throwIfNoEntry: false }))) return false;
    if (index % filesPerStep === 0) yield;
  }
  return true;
}

/** Every change of content or attributes moves the change time, which no program can set. */
function isSameInode(before: Stats | undefined, now: Stats | undefined): boolean {
  return (
    before !== undefined &&
    now !== undefined &&
    before.ctimeMs === now.ctimeMs &&
    before.ino === now.ino &&
    before.size === now.size &&
    before.mode === now.mode &&
    before.uid === now.uid &&
    before.gid === now.gid
  );
}

function isDirectoryRight({ mode, gid }: Stats, { group, groupRefused }: WantedOwnership): boolean {
  // A directory may not keep setgid for a group that its owner is not in.
  const ignored = groupRefused ? setgid : 0;
  const wanted = constants.S_IFDIR | modeOfDirectory(group);
  return (mode & ~ignored) === (wanted & ~ignored) && hasGroup(gid, group, groupRefused);
}

function hasGroup(gid: number, group: number | undefined, refused: boolean): boolean {
  return group === undefined || refused || gid === group;
}

function readFile(path: string, file: PayloadFile, owned: WantedOwnership, ours: boolean): Stats | undefined {
  const descriptor = openIfFile(path);
  if (descriptor === undefined) {
    const inode =
      ours && (file.mode & constants.S_IRUSR) === 0 ? lstatSync(path, { throwIfNoEntry: false }) : undefined;
    return inode !== undefined && isFileRight(inode, file, owned) ? inode : undefined;
  }
  try {
    // Before it is read: a change made in between shows in the next inspection.
    const inode = fstatSync(descriptor);
    return isFileRight(inode, file, owned) && hasContent(descriptor, file.data) ? inode : undefined;
  } finally {
    closeSync(descriptor);
  }
}

function isFileRight(inode: Stats, file: PayloadFile, { group, groupRefused }: WantedOwnership): boolean {
  return (
    inode.mode === (constants.S_IFREG | modeOfFile(file, group)) &&
    inode.uid === (file.uid ?? process.geteuid?.()) &&
    inode.size === file.data.length &&
    hasGroup(inode.gid, group, groupRefused)
  );
}

/** Undefined for what is missing, a link, or not ours to read. Does not block on a pipe in its place. */
function openIfFile(path: string): number | undefined {
  try {
    return openToRead(path);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EACCES', 'EPERM'].includes(errorCode(error) ?? '')) return undefined;
    throw error;
  }
}

function hasContent(descriptor: number, data: Uint8Array): boolean {
  const content = Buffer.allocUnsafe(data.length);
  for (let read = 0; read < data.length;) {
    const count = readSync(descriptor, content, read, data.length - read, null);
    if (count === 0) return false;
    read += count;
  }
  return content.equals(data);
}

/** A system call that failed during a write, with the text a kubelet prints for the same failure. */
export class VolumeWriteError extends MountletError {
  readonly reason = 'VolumeWriteFailed';
  /** `ENOSPC`, where the cause was a system error. */
  readonly code: string | undefined;

  /** `path` is for calls on a descriptor, whose errors do not know it. */
  constructor(cause: unknown, path?: string) {
    super(systemErrorText(cause, path), { cause });
    this.code = errorCode(cause);
  }
}

/** A file was to get an owner that this process may not give it. */
export class OwnerRefusedError extends MountletError {
  readonly reason = 'OwnerRefused';
  readonly path: string;
  readonly uid: number;

  constructor(path: string, uid: number, options?: ErrorOptions) {
    super(`Cannot give "${path}" to user ${uid}: run as root, or leave the owner out of the volume`, options);
    this.path = path;
    this.uid = uid;
  }
}
