/**
 * One version of a volume's content: a directory `..2026_08_20_18_59_46.3049856227` with all files of a payload. A
 * version is complete before anyone can see it, never changed afterwards, and removed once the next one is live. Which
 * version is live is not known here.
 */
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmdirSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import type { Steps } from '../../base/turns.ts';
import { directoryBits, fileBits } from '../ownership.ts';
import type { PayloadFile, PayloadTree, TreePaths } from './payload.ts';
import { OwnerRefusedError, VolumeWriteError } from './volume-write-error.ts';

const directoryMode = 0o755;
const nameAttemptsMax = 10_000; // the kubelet's; one is nearly always enough
const keepOwner = -1;
/** A yield costs half a microsecond, too much for each file; creating a file can cost a millisecond, so not many more. */
export const filesPerStep = 4;

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
export function modeOfDirectory(group: number | undefined): number {
  return group === undefined ? directoryMode : directoryMode | directoryBits('read-only');
}

/** The mode a file of a version ends with. */
export function modeOfFile({ mode }: PayloadFile, group: number | undefined): number {
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
  // Last: until here the version is 0700 and its half is nobody else's to read.
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

/** Nobody else can open the file before its owner, group and mode are right: it is created with 0600. */
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

/** Removes a version whose content is known: no listing is needed unless somebody else put something into it. */
export function* removeVersion(version: string, { files, directories }: TreePaths): Steps<void> {
  let done = 0;
  try {
    for (const path of files.keys()) {
      unlinkSync(`${version}/${path}`);
      if (++done % filesPerStep === 0) yield;
    }
    for (const directory of directories.toReversed()) {
      rmdirSync(`${version}/${directory}`);
      yield;
    }
    rmdirSync(version);
  } catch {
    yield* removeTree(version);
  }
}

/** Removes a directory and all below it. Links are removed and never followed; nothing there is nothing to do. */
export function removeTree(directory: string): Steps<void> {
  return removeDirectory(Buffer.from(directory));
}

// Paths are bytes: somebody else's file name need not be UTF-8.
function* removeDirectory(directory: Buffer): Steps<void> {
  try {
    for (const entry of readdirSync(directory, { withFileTypes: true, encoding: 'buffer' })) {
      const path = Buffer.concat([directory, Buffer.from('/'), entry.name]);
      if (entry.isDirectory()) yield* removeDirectory(path);
      else unlinkSync(path);
      yield;
    }
    rmdirSync(directory);
  } catch (error) {
    if (lstatSync(directory, { throwIfNoEntry: false }) !== undefined) throw error;
  }
}

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
