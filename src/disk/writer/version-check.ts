/**
 * Answers whether a version on disk is exactly what a payload asks for: same files and directories, bytes, modes, owners
 * and group, and nothing else. Slowly by reading it, or fast by the identity of inodes that were read before.
 */
import { closeSync, constants, fstatSync, lstatSync, readSync, readdirSync } from 'node:fs';
import type { Stats } from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import type { Steps } from '../../base/turns.ts';
import { openToRead } from '../paths/open-to-read.ts';
import { setgid } from '../ownership.ts';
import type { PayloadFile, PayloadTree, TreePaths } from './payload.ts';
import { filesPerStep, modeOfDirectory, modeOfFile } from './version-directory.ts';

export interface WantedOwnership {
  readonly group: number | undefined;
  /** The system refused this group before: asking for it again would rewrite the volume for ever. */
  readonly groupRefused: boolean;
}

/** The inodes of a version: its directory, the directories below, the files; in the order of the tree they were read for. */
export type VersionInodes = readonly Stats[];

/**
 * Reads the version; its inodes when it is as wanted, undefined when anything differs. `ours` says that we wrote this very tree
 * into it: then a file that its own owner may not read (mode 0200, and we are not root) is believed by its attributes.
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
  // All that is wanted is looked for by name, so an equal number means that there is nothing else.
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
    // Looked at before it is read: a change made in between shows in the next look.
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

/** Undefined for what is missing, a link, or not ours to read; a pipe in its place must not make us wait. */
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
