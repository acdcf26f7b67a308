/**
 * What stands in a projected volume before a write: which version is live, whether it is what the payload asks for, which
 * first-level names are links of ours, and what a crash left behind. It changes nothing; the atomic writer acts on it.
 *
 * Between two writes it remembers the volume, so that an update need not list it and a check need not read it. The memory is
 * believed only while the inodes on disk are the ones remembered.
 */
import { readdirSync, readlinkSync, statSync, utimesSync } from 'node:fs';
import type { Stats } from 'node:fs';
import type { Steps } from '../../base/turns.ts';
import type { Payload, PayloadTree, TreePaths } from './payload.ts';
import { isUntouched, isVersionName, readVersion } from './version.ts';
import type { NameSource, VersionInodes, WantedOwnership } from './version.ts';

export const dataLink = '..data';
export const temporaryLink = '..data_tmp';

type FirstLevelEntry =
  /** `a -> ..data/a` */
  | 'link'
  /** Leads into `..data`, but to another name: ours, and wrong. */
  | 'misdirected'
  /** A link to somewhere else: replaced when the payload has the name, otherwise left alone. */
  | 'foreign'
  /** A real file or directory. It hides a file of the same name; the payload never replaces it. */
  | 'occupied';

/**
 * Ours are `..data`, `..data_tmp`, directories with a version's name, and first-level links that lead into `..data`.
 * Everything else belongs to others: mount points, directories made for a subPath, links a user made.
 */
interface VolumeListing {
  /** The version `..data` names, if that is a directory of this volume. */
  readonly live: string | undefined;
  /** `..data` is something else than a link; a directory has to go before a link can take its place. */
  readonly isBlocked: boolean;
  /** Kept up to date by the writer. */
  readonly firstLevel: Map<string, FirstLevelEntry>;
  /** Names that an interrupted write left. */
  readonly leftovers: readonly string[];
}

export interface Inspection extends VolumeListing {
  /** The volume's directory, inspected before its entries. */
  readonly root: Stats;
  /** It is another directory than at the inspection before. */
  readonly isOtherDirectory: boolean;
  /** Set when the live version is what the payload asks for; undefined asks for a new version. */
  readonly matching: VersionInodes | undefined;
  /** What the live version contains, where that is remembered. */
  readonly liveContent: RememberedTree | undefined;
  /** No name in the directory has changed since this group was given to all of them. */
  readonly linksHaveGroup: boolean;
}

export class VolumeInspector {
  readonly #directory: string;
  readonly #names: NameSource;
  #remembered: RememberedVolume | undefined;
  /** What was remembered before the write that is under way. */
  #before: RememberedVolume | undefined;
  /** The volume's directory at the last inspection; its name may come to mean another. */
  #root: Stats | undefined;

  constructor(directory: string, names: NameSource) {
    this.#directory = directory;
    this.#names = names;
  }

  get rememberedBytes(): number {
    return this.#remembered?.tree.content.length ?? 0;
  }

  /** The first step of a write. Nothing is remembered until its last, since a write that fails leaves nothing certain. */
  *inspect(tree: PayloadTree, owned: WantedOwnership): Steps<Inspection> {
    const before = this.#remembered;
    this.#before = before;
    this.#remembered = undefined;
    const root = statSync(this.#directory);
    const isSame = before !== undefined && before.group === owned.group && isSamePayload(before.tree, tree.files);
    // After a write of our own the listing is what we made of it, which is good enough to replace it again. "Unchanged" is
    // answered only after the volume was read once.
    const isListed = isUnchangedSince(before?.rootModifiedMs, root) && (!isSame || before?.inodes !== undefined);
    const listing = isListed && before !== undefined ? before.listing : yield* listVolume(this.#directory);
    const { live, isBlocked, firstLevel, leftovers } = listing;
    const matching = live === undefined ? undefined : yield* this.#matchingInodes(live, tree, owned, isSame);
    // Written out: a spread takes microseconds here, as long as a system call.
    return {
      live,
      isBlocked,
      firstLevel,
      leftovers,
      root,
      isOtherDirectory: this.#isOtherDirectory(root),
      matching,
      liveContent: live !== undefined && before?.name === live ? before.tree : undefined,
      linksHaveGroup: isListed && before?.group === owned.group,
    };
  }

  /** The last step of a write that changed nothing but, if `repaired`, what stands around the live version. */
  rememberUnchanged(
    { live, isBlocked, firstLevel, root }: Inspection,
    inodes: VersionInodes,
    tree: PayloadTree,
    group: number | undefined,
    repaired: boolean,
  ): void {
    const before = this.#before;
    const wasRead = inodes !== before?.inodes;
    const isUnchanged = isUnchangedSince(before?.rootModifiedMs, root);
    if (!wasRead && isUnchanged && !repaired) {
      this.#remembered = before;
      return;
    }
    const nowMs = this.#names.now();
    const remembered = wasRead ? remember(tree) : before?.tree;
    if (remembered === undefined || live === undefined) return;
    this.#remembered = {
      name: live,
      tree: remembered,
      group,
      listing: { live, isBlocked, firstLevel, leftovers: [] },
      rootModifiedMs: !repaired && (isUnchanged || isSettled(root, nowMs)) ? root.mtimeMs : undefined,
      inodes: inodes.every((inode) => isSettled(inode, nowMs)) ? inodes : undefined,
    };
  }

  /** The last step of a write that made `name` live. `isComplete`: nothing was left behind in the directory. */
  rememberWritten(
    name: string,
    tree: PayloadTree,
    group: number | undefined,
    { firstLevel }: Inspection,
    isComplete: boolean,
  ): void {
    const remembered = remember(tree, this.#before?.tree);
    if (remembered === undefined) return;
    this.#remembered = {
      name,
      tree: remembered,
      group,
      listing: { live: name, isBlocked: false, firstLevel, leftovers: [] },
      rootModifiedMs: isComplete ? markDirectory(this.#directory, this.#names) : undefined,
      inodes: undefined,
    };
  }

  /** Whether the directory's entries are those remembered. */
  isListed(): boolean {
    try {
      return isUnchangedSince(this.#remembered?.rootModifiedMs, statSync(this.#directory));
    } catch {
      return false;
    }
  }

  /**
   * A version that was kept has been removed from a directory whose entries were those remembered, which has moved the
   * directory's time. Others may have changed something at the same time: without inodes the next check reads the volume.
   */
  rememberRemoval(isComplete: boolean): void {
    if (this.#remembered === undefined) return;
    const rootModifiedMs = isComplete ? markDirectory(this.#directory, this.#names) : undefined;
    this.#remembered = { ...this.#remembered, rootModifiedMs, inodes: undefined };
  }

  *#matchingInodes(
    live: string,
    tree: PayloadTree,
    owned: WantedOwnership,
    isSame: boolean,
  ): Steps<VersionInodes | undefined> {
    const before = this.#before;
    const version = `${this.#directory}/${live}`;
    const isOurs = before?.name === live;
    if (isOurs) {
      if (!isSame) return undefined;
      if (before.inodes !== undefined && (yield* isUntouched(version, before.tree, before.inodes)))
        return before.inodes;
    }
    return yield* readVersion(version, tree, owned, isOurs);
  }

  #isOtherDirectory(root: Stats): boolean {
    const before = this.#root;
    this.#root = root;
    return before !== undefined && (before.ino !== root.ino || before.dev !== root.dev);
  }
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
  // A `..data` that leads elsewhere names no version: nothing there is read, compared or removed.
  const live = target !== undefined && versions.delete(target) ? target : undefined;
  return { live, isBlocked, firstLevel, leftovers: [...leftovers, ...versions] };
}

function kindOfLink(name: string, target: string): FirstLevelEntry {
  if (target === `${dataLink}/${name}`) return 'link';
  return target.startsWith(`${dataLink}/`) ? 'misdirected' : 'foreign';
}

interface RememberedVolume {
  /** The bare name of the live version, and what was written into it. */
  readonly name: string;
  readonly tree: RememberedTree;
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
interface RememberedFile {
  readonly mode: number;
  readonly uid: number | undefined;
  readonly start: number;
  readonly end: number;
}

interface RememberedTree extends TreePaths {
  readonly files: ReadonlyMap<string, RememberedFile>;
  readonly content: Buffer;
}

/**
 * The tree with a copy of every byte, since callers may reuse their buffers; undefined when that is too much to keep. The
 * copy takes the memory of `reusable` where it fits: allocating it costs as much as several system calls.
 */
function remember({ files, directories }: PayloadTree, reusable?: RememberedTree): RememberedTree | undefined {
  let bytes = 0;
  for (const { data } of files.values()) bytes += data.length;
  if (bytes > rememberedBytesMax) return undefined;
  const remembered = new Map<string, RememberedFile>();
  const spare = reusable?.content;
  const content = spare !== undefined && spare.length >= bytes ? spare : Buffer.allocUnsafeSlow(bytes);
  let start = 0;
  for (const [path, { data, mode, uid }] of files) {
    content.set(data, start);
    remembered.set(path, { mode, uid, start, end: start + data.length });
    start += data.length;
  }
  return { files: remembered, directories, content };
}

function isSamePayload({ files, content }: RememberedTree, payload: Payload): boolean {
  if (files.size !== payload.size) return false;
  for (const [path, { data, mode, uid }] of payload) {
    const file = files.get(path);
    if (file === undefined || file.mode !== mode || file.uid !== uid) return false;
    if (content.compare(data, 0, data.length, file.start, file.end) !== 0) return false;
  }
  return true;
}

const settlingMs = 100; // ten times the longest tick, that of CONFIG_HZ=100

/**
 * File systems stamp inodes with a clock that moves only every few milliseconds, so a change right after an inspection may
 * leave the time as it was. Only a time well before the inspection proves that nothing has changed since.
 */
function isSettled({ ctimeMs }: Stats, nowMs: number): boolean {
  return ctimeMs < nowMs - settlingMs;
}

const microsecondsPerSecond = 1_000_000;

/**
 * The volume's directory has the same problem right after a write of our own. It is solved by a mark: a modification time
 * that no clock gave, which any added, removed or renamed entry moves. Undefined where we may not set it.
 */
function markDirectory(directory: string, names: NameSource): number | undefined {
  const markMs = names.now() - (names.random() % microsecondsPerSecond) / 1000;
  try {
    utimesSync(directory, markMs / 1000, markMs / 1000);
    return markMs;
  } catch {
    return undefined;
  }
}

/** Tolerant by a microsecond, because times pass through floating point on their way to the disk and back. */
function isUnchangedSince(modifiedMs: number | undefined, root: Stats): boolean {
  return modifiedMs !== undefined && Math.abs(root.mtimeMs - modifiedMs) < 0.002;
}
