/**
 * What a writer remembers of its volume between two writes, so that an update need not list the volume again and a check
 * need not read it again. It is never believed blindly: it holds for as long as the inodes on disk are the ones remembered.
 */
import { utimesSync } from 'node:fs';
import type { Stats } from 'node:fs';
import type { Payload, PayloadTree, TreePaths } from './payload.ts';
import type { VersionInodes } from './version-check.ts';
import type { NameSource } from './version-directory.ts';
import type { VolumeListing } from './volume-listing.ts';

export interface KnownVolume {
  /** The bare name of the live version, and what was written into it. */
  readonly name: string;
  readonly tree: KnownTree;
  readonly group: number | undefined;
  readonly listing: VolumeListing;
  /** Modification time of the volume's directory when `listing` was right; while it has not moved, no name in it has changed. */
  readonly rootModifiedMs: number | undefined;
  /** Set by a check that read the version from disk; a write does not set it. */
  readonly inodes: VersionInodes | undefined;
}

/** Larger payloads are read from disk instead: ten thousand volumes of usual size stay within tens of megabytes. */
const rememberedBytesMax = 256 * 1024;

/** A file as it was written; its bytes are a piece of the tree's content. */
interface KnownFile {
  readonly mode: number;
  readonly uid: number | undefined;
  readonly start: number;
  readonly end: number;
}

export interface KnownTree extends TreePaths {
  readonly files: ReadonlyMap<string, KnownFile>;
  readonly content: Buffer;
}

/**
 * The tree with a copy of every byte, since callers may reuse their buffers; undefined when that is too much to keep. The
 * copy takes the memory of `forgotten` where it fits: allocating it anew costs as much as several system calls.
 */
export function remember({ files, directories }: PayloadTree, forgotten?: KnownTree): KnownTree | undefined {
  let bytes = 0;
  for (const { data } of files.values()) bytes += data.length;
  if (bytes > rememberedBytesMax) return undefined;
  const known = new Map<string, KnownFile>();
  const spare = forgotten?.content;
  const content = spare !== undefined && spare.length >= bytes ? spare : Buffer.allocUnsafeSlow(bytes);
  let start = 0;
  for (const [path, { data, mode, uid }] of files) {
    content.set(data, start);
    known.set(path, { mode, uid, start, end: start + data.length });
    start += data.length;
  }
  return { files: known, directories, content };
}

export function isSamePayload({ files, content }: KnownTree, payload: Payload): boolean {
  if (files.size !== payload.size) return false;
  for (const [path, { data, mode, uid }] of payload) {
    const file = files.get(path);
    if (file === undefined || file.mode !== mode || file.uid !== uid) return false;
    if (content.compare(data, 0, data.length, file.start, file.end) !== 0) return false;
  }
  return true;
}

/**
 * File systems stamp inodes with a clock that moves only every few milliseconds, so a change right after our look may leave
 * the time as it was. Only a time well in the past when we looked tells that nothing has changed since.
 */
export function isSettled({ ctimeMs }: Stats, nowMs: number): boolean {
  return ctimeMs < nowMs - settlingMs;
}

const settlingMs = 100; // ten times the longest tick, that of CONFIG_HZ=100

/**
 * The same trouble with the volume's directory right after a write of our own is solved by a mark: a modification time that
 * no clock gave. Whoever adds, removes or renames an entry moves it. Undefined where the directory is not ours to mark.
 */
export function markDirectory(directory: string, names: NameSource): number | undefined {
  const markMs = names.now() - (names.random() % microsecondsPerSecond) / 1000;
  try {
    utimesSync(directory, markMs / 1000, markMs / 1000);
    return markMs;
  } catch {
    return undefined;
  }
}

const microsecondsPerSecond = 1_000_000;

/** Tolerant by a microsecond, because times pass through floating point on their way to the disk and back. */
export function isUnchangedSince(modifiedMs: number | undefined, root: Stats): boolean {
  return modifiedMs !== undefined && Math.abs(root.mtimeMs - modifiedMs) < 0.002;
}
