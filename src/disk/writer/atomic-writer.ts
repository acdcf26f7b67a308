/**
 * Replaces the whole content of a volume at one instant. Readers follow `a.conf -> ..data/a.conf` and `..data -> ..2026_…`,
 * so the one rename of `..data` flips every file together:
 *
 *   plan ─▶ inspect ──same──▶ repair links ─▶ done, nothing written
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
 * Every walk over all files yields after a few of them, so that a large volume can be written in turns (`writing`), between
 * which others work. Two jobs on one directory must not overlap; the caller sees to that.
 */
import assert from 'node:assert';
import { lchownSync, lstatSync, renameSync, statSync, symlinkSync, unlinkSync } from 'node:fs';
import { MountletError, errorCode } from '../../base/errors.ts';
import { atOnce } from '../../base/turns.ts';
import type { Steps } from '../../base/turns.ts';
import { errnoOf } from '../../linux/system-call-error.ts';
import { applyGroupAtOnce, applyGroupToEntry, hasGroupAccess } from '../paths/ownership.ts';
import { VolumeInspector, dataLink, temporaryLink } from './inspection.ts';
import type { Inspection } from './inspection.ts';
import { planTree } from './payload.ts';
import type { Payload, PayloadTree, TreePaths } from './payload.ts';
import { OwnerRefusedError, VolumeWriteError, bytesBelow, fillVersion, makeVersion, removeVersion } from './version.ts';
import type { NameSource, VersionInodes } from './version.ts';

export interface WriteOptions {
  /** fsGroup: every file, directory and link gets this group, and the bits to be read by it. */
  readonly group?: number;
  /**
   * Called once for each real write with the bare name of the complete, still unpublished version. If it throws, nothing is
   * published and the error is passed on. A mode or owner it changes is taken for drift by the next write.
   */
  readonly beforePublish?: (name: string) => void;
  /**
   * Called when a new version is live, and before leftovers are removed: whatever still shows an earlier version switches to
   * the live one now. False leaves the old version to the next write, which asks again and removes it whatever the answer:
   * old versions do not pile up. Must not throw.
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
  /** Names of the payload that cannot be seen, because a real file or directory of that name stands in the volume. */
  readonly hidden: readonly string[];
  /** How many versions and links should be removed and could not be; the next write tries again. */
  readonly leftBehind: number;
  /** The directory is another than at the write before: what has that one mounted does not see this write. */
  readonly isOtherDirectory: boolean;
  /** The version that this write replaced and kept, for `removeReplaced`. */
  readonly replaced: string | undefined;
  /** Entries that did not get the group. Not an error, as in the kubelet: most files are readable without. */
  readonly groupsRefused: number;
}

/** One call of `write`: what is wanted, what was found, and what went wrong so far without being an error. */
interface Write {
  readonly tree: PayloadTree;
  readonly options: WriteOptions;
  readonly volume: Inspection;
  readonly hidden: string[];
  leftBehind: number;
  groupsRefused: number;
  /** Links or leftovers were made or removed. */
  repaired: boolean;
}

/** A version that is not live any more and stays until `removeReplaced`. */
interface ReplacedVersion {
  readonly name: string;
  readonly bytes: number;
  readonly content: TreePaths | undefined;
}

/** Enough for a reader that an update overtakes twice; a volume that is replaced all the time must not grow by it. */
const replacedMax = 2;
const replacedBytesMax = 2 * 1024 * 1024;
const fullCodes: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT']);

export class AtomicWriter {
  readonly #directory: string;
  readonly #names: NameSource;
  readonly #inspector: VolumeInspector;
  /** Set when the system refused this group: it is not tried again, or each check would find it missing and rewrite. */
  #refusedGroup: number | undefined;
  /** The newest last. */
  #replaced: ReplacedVersion[] = [];
  #isBusy = false;
  /** What `beforePublish` threw. It is passed on as it is, also when it is a system error. */
  #refusal: unknown;

  /** The directory must exist. Only ENOENT is an error here; a write reports everything else. */
  constructor(directory: string, names: NameSource = { now: () => Date.now(), random: randomUint32 }) {
    this.#directory = directory;
    this.#names = names;
    this.#inspector = new VolumeInspector(directory, names);
    try {
      statSync(directory);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') throw new VolumeWriteError(error);
    }
  }

  /** What it keeps of the volume's content between two writes; changes with each. */
  get rememberedBytes(): number {
    return this.#inspector.rememberedBytes;
  }

  /** Makes the volume's content exactly `payload`, all at once. */
  write(payload: Payload, options: WriteOptions = {}): WriteOutcome {
    return atOnce(this.writing(payload, options));
  }

  /** The same as a job in steps; `payload` must not change before its end. */
  *writing(payload: Payload, options: WriteOptions = {}): Steps<WriteOutcome> {
    const { group, keepReplaced = false } = options;
    const tree = planTree(payload); // 1. A bad path is refused before anything is touched.
    this.#begin();
    try {
      const groupRefused = group !== undefined && group === this.#refusedGroup;
      const volume = yield* this.#inspector.inspect(tree, { group, groupRefused }); // 2. Live version, links, leftovers.
      const write = { tree, options, volume, hidden: [], leftBehind: 0, groupsRefused: 0, repaired: false };
      yield* this.#removeLeftovers(write); // 3. Of an interrupted write.
      if (volume.matching !== undefined) return yield* this.#repair(write, volume.matching); // 4. Nothing to write.
      const version = yield* this.#makeLive(write); // 5 to 8. Readers switch.
      let replaced: string | undefined;
      let isLinked = false;
      try {
        yield* this.#makeLinks(write); // 9. Names that readers did not have before.
        isLinked = true;
      } finally {
        // Also when a link could not be made: the disk may be full, and this frees some of it.
        yield* this.#removeStaleLinks(write);
        replaced = yield* this.#retire(write, keepReplaced && isLinked); // 10. The version that was live.
      }
      this.#refusedGroup = write.groupsRefused > 0 ? group : undefined;
      this.#inspector.rememberWritten(version, tree, group, volume, write.leftBehind === 0);
      return outcome(write, true, version, replaced);
    } catch (error) {
      const isOwn = error instanceof MountletError || error === this.#refusal;
      throw isOwn || errnoOf(error) === undefined ? error : new VolumeWriteError(error);
    } finally {
      this.#refusal = undefined;
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

  *#removeLeftovers(write: Write): Steps<void> {
    const { volume, options } = write;
    const leftovers = volume.leftovers.filter((name) => !this.#replaced.some((kept) => kept.name === name));
    if (leftovers.length === 0) return;
    write.repaired = true;
    // One of them may have been live until a crash came between the rename and its removal.
    if (leftovers.some((name) => name !== temporaryLink)) options.beforeRemoval?.();
    for (const name of leftovers) if (!(yield* this.#remove(name))) write.leftBehind += 1;
  }

  /** The live version is right: repairs what stands around it, which usually is nothing. */
  *#repair(write: Write, inodes: VersionInodes): Steps<WriteOutcome> {
    const { tree, volume, options } = write;
    const { group } = options;
    if (group !== undefined && group !== this.#refusedGroup) {
      this.#regroupRoot(write, group);
      if (!volume.linksHaveGroup) yield* this.#regroupLinks(write, group);
      if (write.groupsRefused > 0) this.#refusedGroup = group;
    }
    yield* this.#makeLinks(write);
    yield* this.#removeStaleLinks(write);
    this.#inspector.rememberUnchanged(volume, inodes, tree, group, write.repaired || write.leftBehind > 0);
    return outcome(write, false, volume.live ?? '');
  }

  /** Steps 5 to 8. Returns the name of the new version. */
  *#makeLive(write: Write): Steps<string> {
    const { tree, options, volume } = write;
    const { group, beforePublish } = options;
    let name: string | undefined;
    try {
      name = makeVersion(this.#directory, this.#names); // 5. Mode 0700.
      write.groupsRefused += yield* fillVersion(`${this.#directory}/${name}`, tree, group); // 6. 0755 comes last.
      if (group !== undefined) yield* this.#regroupSurroundings(write, group);
      this.#callBeforePublish(beforePublish, name);
      const temporary = `${this.#directory}/${temporaryLink}`;
      symlinkSync(name, temporary); // 7.
      if (volume.isBlocked) yield* this.#remove(dataLink);
      renameSync(temporary, `${this.#directory}/${dataLink}`); // 8. Readers switch.
      return name;
    } catch (error) {
      yield* this.#remove(temporaryLink);
      if (name !== undefined) yield* this.#remove(name, tree);
      if (this.#replaced.length === 0 || !fullCodes.has(errorCode(error))) throw error;
    }
    yield* this.#removeReplaced(); // a new version needs the room more than late readers need the old ones
    return yield* this.#makeLive(write);
  }

  #callBeforePublish(beforePublish: WriteOptions['beforePublish'], name: string): void {
    try {
      beforePublish?.(name);
    } catch (error) {
      this.#refusal = error;
      throw error;
    }
  }

  /** Step 10: keeps or removes the version that was live. Returns its name if it is kept. */
  *#retire(write: Write, keepReplaced: boolean): Steps<string | undefined> {
    const { live, liveContent } = write.volume;
    // Also where no version was live: it may have been deleted while containers still have it mounted.
    const isUnused = write.options.beforeRemoval?.() ?? true;
    if (live === undefined) return undefined;
    if (!isUnused) write.leftBehind += 1;
    else if (keepReplaced && (yield* this.#keepReplaced(write, live))) return live;
    else if (!(yield* this.#remove(live, liveContent))) write.leftBehind += 1;
    return undefined;
  }

  /** False: it is too large to be kept. Of those that were kept before, the oldest make room for it. */
  *#keepReplaced(write: Write, name: string): Steps<boolean> {
    const { liveContent: known } = write.volume;
    const bytes = known?.content.length ?? (yield* this.#bytesOf(name));
    // Without the bytes, whose memory the next version may reuse.
    this.#replaced.push({ name, bytes, content: known && { files: known.files, directories: known.directories } });
    const isExceeded = (): boolean =>
      this.#replaced.length > replacedMax || this.#replaced.reduce((sum, one) => sum + one.bytes, 0) > replacedBytesMax;
    for (let [oldest] = this.#replaced; oldest !== undefined && isExceeded(); [oldest] = this.#replaced) {
      this.#replaced.shift();
      if (oldest.name === name) return false;
      if (!(yield* this.#remove(oldest.name, oldest.content))) write.leftBehind += 1;
    }
    return true;
  }

  *#bytesOf(name: string): Steps<number> {
    try {
      return yield* bytesBelow(`${this.#directory}/${name}`);
    } catch {
      return Infinity; // what cannot be read is not kept
    }
  }

  *#removeReplaced(name?: string): Steps<void> {
    const due = this.#replaced.filter((version) => name === undefined || version.name === name);
    if (due.length === 0) return;
    this.#replaced = this.#replaced.filter((version) => !due.includes(version));
    const isListed = this.#inspector.isListed();
    let removed = 0;
    for (const version of due) if (yield* this.#remove(version.name, version.content)) removed += 1;
    if (isListed) this.#inspector.rememberRemoval(removed === due.length);
  }

  /** Removes one of the writer's own names; never throws, since what cannot go now is found by the next write. */
  *#remove(name: string, content?: TreePaths): Steps<boolean> {
    try {
      yield* removeVersion(`${this.#directory}/${name}`, content);
      return true;
    } catch {
      return false;
    }
  }

  /** Makes the names users see, `a.conf -> ..data/a.conf`, where they are missing or lead elsewhere. */
  *#makeLinks(write: Write): Steps<void> {
    const { firstLevel } = write.volume;
    for (const [name, uid] of write.tree.links) {
      const present = firstLevel.get(name);
      if (present === 'link') continue;
      if (present === 'occupied') {
        write.hidden.push(name);
        continue;
      }
      write.groupsRefused += this.#makeLink(name, uid, write.options.group, present !== undefined);
      firstLevel.set(name, 'link');
      write.repaired = true;
      yield;
    }
  }

  /** A wrong link is replaced in one step, so that the name is never missing. Returns 1 when the group was refused. */
  #makeLink(name: string, uid: number | undefined, group: number | undefined, replace: boolean): number {
    const path = `${this.#directory}/${name}`;
    const made = replace ? `${this.#directory}/${temporaryLink}` : path;
    symlinkSync(`${dataLink}/${name}`, made);
    try {
      const refused = ownLink(made, uid, group);
      if (replace) renameSync(made, path);
      return refused;
    } catch (error) {
      unlinkSync(made);
      throw error;
    }
  }

  /** Removes our links whose names the payload no longer has. Failures are counted: the content is right without them. */
  *#removeStaleLinks(write: Write): Steps<void> {
    const { firstLevel } = write.volume;
    for (const [name, present] of firstLevel) {
      if (write.tree.links.has(name) || present === 'occupied' || present === 'foreign') continue;
      try {
        unlinkSync(`${this.#directory}/${name}`);
        firstLevel.delete(name);
        write.repaired = true;
      } catch {
        write.leftBehind += 1;
      }
      yield;
    }
  }

  /** Not only the new version: the volume's directory, mount points and subPath directories in it, and existing links. */
  *#regroupSurroundings(write: Write, group: number): Steps<void> {
    this.#regroupRoot(write, group);
    for (const [name, kind] of write.volume.firstLevel) {
      if (kind !== 'occupied') continue;
      write.groupsRefused += applyGroupAtOnce(`${this.#directory}/${name}`, { group, readOnly: true });
    }
    if (!write.volume.linksHaveGroup) yield* this.#regroupLinks(write, group);
  }

  #regroupRoot(write: Write, group: number): void {
    const { root } = write.volume;
    const change = { group, readOnly: true };
    if (!hasGroupAccess(root, change)) write.groupsRefused += applyGroupToEntry(this.#directory, root, change);
  }

  *#regroupLinks(write: Write, group: number): Steps<void> {
    for (const name of write.tree.links.keys()) {
      if (write.volume.firstLevel.get(name) !== 'link') continue;
      const path = `${this.#directory}/${name}`;
      if (lstatSync(path).gid !== group) write.groupsRefused += ownLink(path, undefined, group);
      yield;
    }
  }
}

function outcome(write: Write, changed: boolean, version: string, replaced?: string): WriteOutcome {
  const { hidden, leftBehind, groupsRefused, volume } = write;
  return { changed, version, hidden, leftBehind, isOtherDirectory: volume.isOtherDirectory, replaced, groupsRefused };
}

/** Returns 1 when the group was refused. */
function ownLink(path: string, uid: number | undefined, group: number | undefined): number {
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

function randomUint32(): number {
  return Math.floor(Math.random() * 2 ** 32);
}
