/**
 * Replaces the whole content of a volume at one instant. Readers follow `a.conf -> ..data/a.conf` and `..data -> ..2026_…`,
 * so the one rename of `..data` flips every file together:
 *
 *   plan ─▶ look ──same──▶ repair links ─▶ done, nothing written
 *            │ different
 *            ▼
 *   make version ─▶ fill it ─▶ beforePublish ─▶ ..data_tmp ─▶ RENAME over ..data ─▶ links ─▶ beforeRemoval ─▶ remove
 *   └── a failure removes the new version; the old one was ─┘ └── a failure leaves the new version live; ──┘ or keep the
 *       live and complete all the time                            the next write does the rest               old version
 *
 * A reader that has followed `..data` and not yet opened its file finds nothing if the old version is removed right then.
 * `keepReplaced` leaves that version in place until the caller, who has a clock, calls `removeReplaced`.
 *
 * A crash at any point leaves one complete version live; the next write finds what was left over and removes it. Nothing is
 * synced to the medium: volumes are made again after a reboot.
 *
 * Every walk over all files yields after each of them, so that a large volume can be written in turns (`writing`), between
 * which others work. Two jobs on one directory must not overlap; the caller sees to that.
 */
import assert from 'node:assert';
import { type Stats, lchownSync, lstatSync, renameSync, statSync, symlinkSync, unlinkSync } from 'node:fs';
import { MountletError, errorCode } from '../../base/errors.ts';
import { type Steps, atOnce } from '../../base/turns.ts';
import { applyGroupAtOnce, applyGroupToEntry, hasGroupAccess } from '../paths/ownership.ts';
import {
  type FirstLevelEntry,
  type KnownTree,
  type KnownVolume,
  type VolumeLook,
  dataLink,
  isSettled,
  isUnchangedSince,
  lookAtVolume,
  markDirectory,
  remember,
  temporaryLink,
} from './inspection.ts';
import { type Payload, type PayloadTree, type TreePaths, planTree } from './payload.ts';
import {
  type NameSource,
  OwnerRefusedError,
  type VersionInodes,
  VolumeWriteError,
  bytesBelow,
  fillVersion,
  makeVersion,
  removeTree,
  removeVersion,
} from './version.ts';

export interface WriteOptions {
  /** fsGroup: every file, directory and link gets this group, and the bits to be read by it. */
  readonly group?: number;
  /**
   * Called once for each real write with the bare name of the complete, still unpublished version. What it throws is thrown
   * on, and nothing is published. A mode or owner it changes is taken for drift by the next write.
   */
  readonly beforePublish?: (name: string) => void;
  /**
   * Called when a new version is live, and before leftovers are removed: whoever still shows an earlier version turns to
   * the live one now. False leaves that to the next write, which asks again and removes it whatever is answered: old
   * versions do not pile up. Must not throw.
   */
  readonly beforeRemoval?: () => boolean;
  /**
   * Leaves the replaced version where it is until `removeReplaced`, so that a reader on its way into it arrives. At most
   * two versions and 2 MiB are kept, the newest of them, and none where the volume has no room for a new version.
   */
  readonly keepReplaced?: boolean;
}

export interface WriteOutcome {
  /** False: what is live was right already and not touched. */
  readonly changed: boolean;
  /** Bare name of the live version. */
  readonly version: string;
  /** Names of the payload that nobody can see, because a real file or directory of that name stands in the volume. */
  readonly hidden: readonly string[];
  readonly linksMade: number;
  readonly linksRemoved: number;
  /** What an interrupted write had left. */
  readonly leftoversRemoved: number;
  /** What should be removed and could not; the next write tries again. */
  readonly leftBehind: number;
  /** The directory is another than at the write before: what has that one mounted does not see this write. */
  readonly isOtherDirectory: boolean;
  /** The version that this write replaced and kept, for `removeReplaced`. */
  readonly replaced: string | undefined;
  /** Entries that did not get the group. Not an error, as in the kubelet: most files are readable without. */
  readonly groupsRefused: number;
}

export class AtomicWriter {
  readonly #directory: string;
  readonly #names: NameSource;
  #known: KnownVolume | undefined;
  /** Set when the system refused this group: it is not asked for again, or each check would find it missing and rewrite. */
  #refusedGroup: number | undefined;
  /** The newest last. */
  #replaced: ReplacedVersion[] = [];
  #isBusy = false;
  /** The volume's directory itself; its name may come to mean another. */
  #root: string | undefined;

  /** The directory must exist. Only that is checked here, and only "not found" counts: a write will tell the rest. */
  constructor(directory: string, names: NameSource = { now: () => Date.now(), random: randomUint32 }) {
    this.#directory = directory;
    this.#names = names;
    try {
      statSync(directory);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') throw new VolumeWriteError(error);
    }
  }

  /** What it keeps of the volume's content between two writes; changes with each. */
  get rememberedBytes(): number {
    return this.#known?.tree.content.length ?? 0;
  }

  /** Makes the volume's content exactly `payload`, all at once. */
  write(payload: Payload, options: WriteOptions = {}): WriteOutcome {
    return atOnce(this.writing(payload, options));
  }

  /** The same as a job in steps; `payload` must not change before its end. */
  *writing(
    payload: Payload,
    { group, beforePublish, beforeRemoval = always, keepReplaced = false }: WriteOptions = {},
  ): Steps<WriteOutcome> {
    const tree = planTree(payload); // throws before anything is touched
    const known = this.#known;
    this.#begin();
    this.#known = undefined; // a write that fails leaves nothing certain
    try {
      const groupRefused = group !== undefined && group === this.#refusedGroup;
      const look = yield* lookAtVolume(this.#directory, tree, { group, groupRefused }, known);
      const changes = {
        made: 0,
        removed: 0,
        leftovers: 0,
        leftBehind: 0,
        groupsRefused: 0,
        hidden: [],
        isOtherDirectory: this.#isOther(look.root),
      };
      const job = { tree, group, known, look, changes, beforeRemoval, keepReplaced };
      yield* this.#removeLeftovers(job);
      if (look.rightInodes === undefined) return yield* this.#replace(job, beforePublish);
      return yield* this.#keep(job, look.rightInodes);
    } catch (error) {
      if (error instanceof CallbackError) throw error.cause;
      throw error instanceof MountletError ? error : new VolumeWriteError(error);
    } finally {
      this.#isBusy = false;
    }
  }

  /** Removes a replaced version that was kept, or all of them. Never throws: the next write finds what is left. */
  removeReplaced(name?: string): void {
    atOnce(this.removingReplaced(name));
  }

  *removingReplaced(name?: string): Steps<void> {
    this.#begin();
    try {
      yield* this.#removeReplaced(name);
    } finally {
      this.#isBusy = false;
    }
  }

  #begin(): void {
    assert(!this.#isBusy, `two jobs at once on the volume "${this.#directory}"`);
    this.#isBusy = true;
  }

  *#removeReplaced(name?: string): Steps<void> {
    const due = this.#replaced.filter((version) => name === undefined || version.name === name);
    if (due.length === 0) return;
    this.#replaced = this.#replaced.filter((version) => !due.includes(version));
    const known = this.#known;
    const isListed = this.#isListed(known);
    let removed = 0;
    for (const version of due) if (yield* this.#remove(version.name, version.content)) removed += 1;
    if (known === undefined || !isListed) return;
    // The removal has moved the directory's time, and the listing is what we know it to be, unless someone changed it at
    // the same time: without inodes the next check looks.
    const rootModifiedMs = removed === due.length ? markDirectory(this.#directory, this.#names) : undefined;
    this.#known = { ...known, rootModifiedMs, inodes: undefined };
  }

  #isOther({ dev, ino }: Stats): boolean {
    const before = this.#root;
    this.#root = `${dev} ${ino}`;
    return before !== undefined && before !== this.#root;
  }

  #isListed(known: KnownVolume | undefined): boolean {
    try {
      return isUnchangedSince(known?.rootModifiedMs, statSync(this.#directory));
    } catch {
      return false;
    }
  }

  /** The live version is right: repairs what stands around it, which usually is nothing. */
  *#keep(job: WriteJob, inodes: VersionInodes): Steps<WriteOutcome> {
    const { tree, group, known, look, changes } = job;
    const { live: name = '', firstLevel } = look.listing;
    if (group !== undefined && group !== this.#refusedGroup) {
      this.#groupRoot(job, group);
      if (!look.remembered) changes.groupsRefused += yield* regroupLinks(this.#directory, tree, group, firstLevel);
      if (changes.groupsRefused > 0) this.#refusedGroup = group;
    }
    yield* makeLinks(this.#directory, tree, group, firstLevel, changes);
    yield* removeStaleLinks(this.#directory, tree, firstLevel, changes);

    const wasRead = inodes !== known?.inodes;
    this.#known = look.remembered && !wasRead ? known : this.#rememberLook(job, inodes, wasRead ? undefined : known);
    return outcome(false, name, changes);
  }

  /** Keeps of a look what will hold until somebody changes something, and no more. */
  #rememberLook(
    { tree, group, known, look, changes }: WriteJob,
    inodes: VersionInodes,
    unread?: KnownVolume,
  ): KnownVolume | undefined {
    const { root, listing } = look;
    const nowMs = this.#names.now();
    const knownTree = unread?.tree ?? remember(tree);
    if (knownTree === undefined || listing.live === undefined) return undefined;
    const repaired = changes.made + changes.removed + changes.leftovers + changes.leftBehind > 0;
    const settled = isUnchangedSince(known?.rootModifiedMs, root) || isSettled(root, nowMs);
    return {
      name: listing.live,
      tree: knownTree,
      group,
      listing: { ...listing, leftovers: [] },
      rootModifiedMs: settled && !repaired ? root.mtimeMs : undefined,
      inodes: inodes.every((inode) => isSettled(inode, nowMs)) ? inodes : undefined,
    };
  }

  *#replace(job: WriteJob, beforePublish: WriteOptions['beforePublish']): Steps<WriteOutcome> {
    const { tree, group, known, look, changes, beforeRemoval } = job;
    const { live, firstLevel } = look.listing;
    const name = yield* this.#makeLive(job, beforePublish);
    let replaced: string | undefined;
    let keepReplaced = false;
    try {
      yield* makeLinks(this.#directory, tree, group, firstLevel, changes);
      keepReplaced = job.keepReplaced;
    } finally {
      // Also when a link could not be made: the disk may be full, and this frees some of it.
      yield* removeStaleLinks(this.#directory, tree, firstLevel, changes);
      // Also where no version was live: someone may have deleted it, and containers still have it mounted.
      const isUnused = beforeRemoval();
      if (live !== undefined) {
        const content = known?.name === live ? known?.tree : undefined;
        if (!isUnused) changes.leftBehind += 1;
        else if (keepReplaced && (yield* this.#keepReplaced(live, content, changes))) replaced = live;
        else if (!(yield* this.#remove(live, content))) changes.leftBehind += 1;
      }
    }
    this.#refusedGroup = changes.groupsRefused > 0 ? group : undefined;

    const knownTree = remember(tree, known?.tree);
    this.#known = knownTree && {
      name,
      tree: knownTree,
      group,
      listing: { live: name, isBlocked: false, firstLevel, leftovers: [] },
      rootModifiedMs: changes.leftBehind === 0 ? markDirectory(this.#directory, this.#names) : undefined,
      inodes: undefined,
    };
    return outcome(true, name, changes, replaced);
  }

  /** Returns the name of the new version. */
  *#makeLive(job: WriteJob, beforePublish: WriteOptions['beforePublish']): Steps<string> {
    const { tree, group, changes } = job;
    let name: string | undefined;
    try {
      name = makeVersion(this.#directory, this.#names);
      changes.groupsRefused += yield* fillVersion(`${this.#directory}/${name}`, tree, group);
      if (group !== undefined) yield* this.#groupSurroundings(job, group);
      if (beforePublish !== undefined) callBack(beforePublish, name);
      yield* this.#publish(name, job.look.listing.isBlocked);
      return name;
    } catch (error) {
      if (name !== undefined) yield* this.#remove(name, tree);
      if (this.#replaced.length === 0 || !fullCodes.has(errorCode(error))) throw error;
    }
    yield* this.#removeReplaced(); // a new version needs the room more than late readers need the old ones
    return yield* this.#makeLive(job, beforePublish);
  }

  /** False: it is too large to be kept. Of those that were kept before, the oldest make room for it. */
  *#keepReplaced(name: string, known: KnownTree | undefined, changes: Changes): Steps<boolean> {
    const bytes = known?.content.length ?? (yield* this.#bytesOf(name));
    // Without the bytes, which the next version may take over.
    this.#replaced.push({ name, bytes, content: known && { files: known.files, directories: known.directories } });
    const isExceeded = (): boolean =>
      this.#replaced.length > replacedMax || this.#replaced.reduce((sum, one) => sum + one.bytes, 0) > replacedBytesMax;
    for (let [oldest] = this.#replaced; oldest !== undefined && isExceeded(); [oldest] = this.#replaced) {
      this.#replaced.shift();
      if (oldest.name === name) return false;
      if (!(yield* this.#remove(oldest.name, oldest.content))) changes.leftBehind += 1;
    }
    return true;
  }

  *#bytesOf(name: string): Steps<number> {
    try {
      return yield* bytesBelow(`${this.#directory}/${name}`);
    } catch {
      return Infinity; // what cannot be looked at is not kept
    }
  }

  *#publish(name: string, isBlocked: boolean): Steps<void> {
    const temporary = `${this.#directory}/${temporaryLink}`;
    symlinkSync(name, temporary);
    try {
      if (isBlocked) yield* this.#remove(dataLink);
      renameSync(temporary, `${this.#directory}/${dataLink}`);
    } catch (error) {
      yield* this.#remove(temporaryLink);
      throw error;
    }
  }

  /** Not only the new version: the volume's directory, mount points and subPath directories in it, and links that stand already. */
  *#groupSurroundings(job: WriteJob, group: number): Steps<void> {
    const { tree, known, look, changes } = job;
    const { firstLevel } = look.listing;
    this.#groupRoot(job, group);
    for (const [name, kind] of firstLevel) {
      if (kind !== 'occupied') continue;
      changes.groupsRefused += applyGroupAtOnce(`${this.#directory}/${name}`, { group, readOnly: true });
    }
    if (!look.remembered || known?.group !== group)
      changes.groupsRefused += yield* regroupLinks(this.#directory, tree, group, firstLevel);
  }

  #groupRoot({ look: { root }, changes }: WriteJob, group: number): void {
    const change = { group, readOnly: true };
    if (!hasGroupAccess(root, change)) changes.groupsRefused += applyGroupToEntry(this.#directory, root, change);
  }

  *#removeLeftovers({ look, changes, beforeRemoval }: WriteJob): Steps<void> {
    const leftovers = look.listing.leftovers.filter((name) => !this.#replaced.some((kept) => kept.name === name));
    // One of them may have been live until a crash came between the rename and its removal.
    if (leftovers.some((name) => name !== temporaryLink)) beforeRemoval();
    for (const name of leftovers) {
      if (yield* this.#remove(name)) changes.leftovers += 1;
      else changes.leftBehind += 1;
    }
  }

  /** Removes one of the writer's own names; never throws, since what cannot go now is found by the next write. */
  *#remove(name: string, content?: TreePaths): Steps<boolean> {
    const path = `${this.#directory}/${name}`;
    try {
      if (content !== undefined) yield* removeVersion(path, content);
      else if (name !== temporaryLink || lstatSync(path).isDirectory()) yield* removeTree(path);
      else unlinkSync(path);
      return true;
    } catch {
      return false;
    }
  }
}

/** One call of `write`: what is wanted, what was found, and what has been done about it so far. */
interface WriteJob {
  readonly tree: PayloadTree;
  readonly group: number | undefined;
  readonly known: KnownVolume | undefined;
  readonly look: VolumeLook;
  readonly changes: Changes;
  readonly beforeRemoval: () => boolean;
  readonly keepReplaced: boolean;
}

interface ReplacedVersion {
  readonly name: string;
  readonly bytes: number;
  readonly content: TreePaths | undefined;
}

/** Enough for a reader that an update overtakes twice; a volume that is replaced all the time must not grow by it. */
const replacedMax = 2;
const replacedBytesMax = 2 * 1024 * 1024;
const fullCodes: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT']);

interface Changes extends LinkChanges {
  leftovers: number;
  readonly isOtherDirectory: boolean;
}

function outcome(changed: boolean, version: string, changes: Changes, replaced?: string): WriteOutcome {
  return {
    changed,
    version,
    replaced,
    isOtherDirectory: changes.isOtherDirectory,
    hidden: changes.hidden,
    linksMade: changes.made,
    linksRemoved: changes.removed,
    leftoversRemoved: changes.leftovers,
    leftBehind: changes.leftBehind,
    groupsRefused: changes.groupsRefused,
  };
}

/** Carries what a callback threw past the wrapping of system errors, which are ours alone. */
class CallbackError extends Error {}

const always = (): boolean => true;

function callBack(callback: (name: string) => void, name: string): void {
  try {
    callback(name);
  } catch (cause) {
    throw new CallbackError('', { cause });
  }
}

function randomUint32(): number {
  return Math.floor(Math.random() * 2 ** 32);
}

/** Keeps the names users see, `a.conf -> ..data/a.conf`, in step with a payload. Content is not its business. */
interface LinkChanges {
  made: number;
  removed: number;
  /** Links that could not be removed; a later write tries again. */
  leftBehind: number;
  groupsRefused: number;
  /** Names that a real file or directory hides. */
  hidden: string[];
}

/** Makes what is missing and replaces what leads elsewhere. `firstLevel` is brought up to date. */
function* makeLinks(
  directory: string,
  { links }: PayloadTree,
  group: number | undefined,
  firstLevel: Map<string, FirstLevelEntry>,
  changes: LinkChanges,
): Steps<void> {
  for (const [name, uid] of links) {
    const present = firstLevel.get(name);
    if (present === 'link') continue;
    if (present === 'occupied') {
      changes.hidden.push(name);
      continue;
    }
    changes.groupsRefused += makeLink(directory, name, uid, group, present !== undefined);
    firstLevel.set(name, 'link');
    changes.made += 1;
    yield;
  }
}

/** A wrong link is replaced in one step, so that the name is never missing. Returns 1 when the group was refused. */
function makeLink(
  directory: string,
  name: string,
  uid: number | undefined,
  group: number | undefined,
  replace: boolean,
): number {
  const path = `${directory}/${name}`;
  const made = replace ? `${directory}/${temporaryLink}` : path;
  symlinkSync(`${dataLink}/${name}`, made);
  try {
    const refused = own(made, uid, group);
    if (replace) renameSync(made, path);
    return refused;
  } catch (error) {
    unlinkSync(made);
    throw error;
  }
}

/** Removes our links whose names the payload no longer has. Failures are counted: the content is right without them. */
function* removeStaleLinks(
  directory: string,
  { links }: PayloadTree,
  firstLevel: Map<string, FirstLevelEntry>,
  changes: LinkChanges,
): Steps<void> {
  for (const [name, present] of firstLevel) {
    if (links.has(name) || present === 'occupied' || present === 'foreign') continue;
    try {
      unlinkSync(`${directory}/${name}`);
      firstLevel.delete(name);
      changes.removed += 1;
    } catch {
      changes.leftBehind += 1;
    }
    yield;
  }
}

/** Gives the links that stand already to the group. Returns how many were refused. */
function* regroupLinks(
  directory: string,
  { links }: PayloadTree,
  group: number,
  firstLevel: ReadonlyMap<string, FirstLevelEntry>,
): Steps<number> {
  let refused = 0;
  for (const name of links.keys()) {
    if (firstLevel.get(name) !== 'link') continue;
    const path = `${directory}/${name}`;
    if (lstatSync(path).gid !== group) refused += own(path, undefined, group);
    yield;
  }
  return refused;
}

function own(path: string, uid: number | undefined, group: number | undefined): number {
  if (uid !== undefined) {
    try {
      lchownSync(path, uid, -1);
    } catch (error) {
      throw errorCode(error) === 'EPERM' ? new OwnerRefusedError(path, uid, { cause: error }) : error;
    }
  }
  if (group === undefined) return 0;
  try {
    lchownSync(path, -1, group);
    return 0;
  } catch {
    return 1;
  }
}
