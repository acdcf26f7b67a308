/** The look before a write: what stands in the volume, and whether it is what the payload asks for already. It changes nothing. */
import { type Stats, readdirSync, readlinkSync, statSync, utimesSync } from 'node:fs';
import type { Steps } from '../../base/turns.ts';
import type { Payload, PayloadTree, TreePaths } from './payload.ts';
import {
  type NameSource,
  type VersionInodes,
  type WantedOwnership,
  isUntouched,
  isVersionName,
  readVersion,
} from './version.ts';

export interface VolumeLook {
  /** The volume's directory, looked at before anything in it was. */
  readonly root: Stats;
  readonly listing: VolumeListing;
  /** The listing is remembered, and no name in the directory has changed since. */
  readonly remembered: boolean;
  /** The live version's, when it is as wanted; undefined asks for a new version. */
  readonly rightInodes: VersionInodes | undefined;
}

export function* lookAtVolume(
  directory: string,
  tree: PayloadTree,
  owned: WantedOwnership,
  known: KnownVolume | undefined,
): Steps<VolumeLook> {
  const root = statSync(directory);
  const same = known !== undefined && known.group === owned.group && isSamePayload(known.tree, tree.files);
  // After a write of our own the listing is what we made of it, which is good enough to replace it again. Before we
  // answer "unchanged", we have looked once.
  const remembered = isUnchangedSince(known?.rootModifiedMs, root) && (!same || known?.inodes !== undefined);
  const listing = remembered && known !== undefined ? known.listing : yield* listVolume(directory);
  const rightInodes = yield* inodesIfRight(directory, listing.live, tree, owned, known, same);
  return { root, listing, remembered, rightInodes };
}

function* inodesIfRight(
  directory: string,
  live: string | undefined,
  tree: PayloadTree,
  owned: WantedOwnership,
  known: KnownVolume | undefined,
  same: boolean,
): Steps<VersionInodes | undefined> {
  if (live === undefined) return undefined;
  const version = `${directory}/${live}`;
  if (known?.name === live) {
    if (!same) return undefined;
    if (known.inodes !== undefined && (yield* isUntouched(version, known.tree, known.inodes))) return known.inodes;
  }
  return yield* readVersion(version, tree, owned, known?.name === live);
}

/**
 * What stands in a projected volume's directory: which version is live, which first-level names are links of ours, and
 * what a crash left behind. It only looks; the atomic writer acts on it.
 *
 * Ours are `..data`, `..data_tmp`, directories with a version's name, and first-level links that lead into `..data`.
 * Everything else belongs to somebody: mount points, directories made for a subPath, links a user made.
 */
export const dataLink = '..data';
export const temporaryLink = '..data_tmp';

export type FirstLevelEntry =
  /** `a -> ..data/a` */
  | 'link'
  /** Leads into `..data`, but to another name: ours, and wrong. */
  | 'misdirected'
  /** A link to somewhere else: replaced when the payload has the name, otherwise left alone. */
  | 'foreign'
  /** A real file or directory. It hides a file of the same name; the payload never replaces it. */
  | 'occupied';

interface VolumeListing {
  /** The version `..data` names, if that is a directory of this volume. */
  readonly live: string | undefined;
  /** `..data` is something else than a link; a directory has to go before a link can take its place. */
  readonly isBlocked: boolean;
  readonly firstLevel: Map<string, FirstLevelEntry>;
  /** Names that an interrupted write left. */
  readonly leftovers: readonly string[];
}

function* listVolume(directory: string): Steps<VolumeListing> {
  const firstLevel = new Map<string, FirstLevelEntry>();
  const versions = new Set<string>();
  const leftovers: string[] = [];
  let target: string | undefined;
  let isBlocked = false;
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const { name } = entry;
    if (name === dataLink) {
      if (entry.isSymbolicLink()) target = readlinkSync(`${directory}/${name}`);
      else isBlocked = true;
    } else if (name === temporaryLink) leftovers.push(name);
    else if (isVersionName(name)) {
      if (entry.isDirectory()) versions.add(name);
    } else if (!name.startsWith('..')) {
      const kind = entry.isSymbolicLink() ? kindOfLink(name, readlinkSync(`${directory}/${name}`)) : 'occupied';
      firstLevel.set(name, kind);
      yield;
    }
  }
  // A `..data` that somebody turned elsewhere names no version: nothing there is read, compared or removed.
  const live = target !== undefined && versions.delete(target) ? target : undefined;
  return { live, isBlocked, firstLevel, leftovers: [...leftovers, ...versions] };
}

function kindOfLink(name: string, target: string): FirstLevelEntry {
  if (target === `${dataLink}/${name}`) return 'link';
  return target.startsWith(`${dataLink}/`) ? 'misdirected' : 'foreign';
}

/**
 * What a writer remembers of its volume between two writes, so that an update need not list the volume again and a check
 * need not read it again. It is never believed blindly: it holds for as long as the inodes on disk are the ones remembered.
 */
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

function isSamePayload({ files, content }: KnownTree, payload: Payload): boolean {
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
