/**
 * Replaces the whole content of a volume at one instant. Readers follow `a.conf -> ..data/a.conf` and `..data -> ..2026_…`,
 * so the one rename of `..data` flips every file together:
 *
 *   plan ─▶ look ──same──▶ repair links ─▶ done, nothing written
 *            │ different
 *            ▼
 *   make version ─▶ fill it ─▶ beforePublish ─▶ ..data_tmp ─▶ RENAME over ..data ─▶ links ─▶ remove the old version
 *   └── a failure removes the new version; the old one was ─┘ └── a failure leaves the new version live; ─────────┘
 *       live and complete all the time                            the next write does the rest
 *
 * A crash at any point leaves one complete version live; the next write finds what was left over and removes it. Nothing is
 * synced to the medium: volumes are made again after a reboot. Two writes on one directory must not overlap; whoever calls
 * sees to that.
 */
import { chmodSync, chownSync, lstatSync, renameSync, statSync, symlinkSync, unlinkSync } from 'node:fs';
import type { Stats } from 'node:fs';
import { MountletError, errorCode } from '../base/errors.ts';
import { makeLinks, regroupLinks, removeStaleLinks } from './first-level-links.ts';
import type { LinkChanges } from './first-level-links.ts';
import { isSamePayload, isSettled, isUnchangedSince, markDirectory, remember } from './known-volume.ts';
import type { KnownVolume } from './known-volume.ts';
import { applyGroupAtOnce, directoryBits } from './ownership.ts';
import { planTree } from './payload.ts';
import type { Payload, PayloadTree, TreePaths } from './payload.ts';
import { isUntouched, readVersion } from './version-check.ts';
import type { VersionInodes } from './version-check.ts';
import { fillVersion, makeVersion, removeTree, removeVersion } from './version-directory.ts';
import type { NameSource } from './version-directory.ts';
import { dataLink, listVolume, temporaryLink } from './volume-listing.ts';
import type { VolumeListing } from './volume-listing.ts';
import { VolumeWriteError } from './volume-write-error.ts';

export interface WriteOptions {
  /** fsGroup: every file, directory and link gets this group, and the bits to be read by it. */
  readonly group?: number;
  /** Called once for each real write with the bare name of the complete, still unpublished version. What it throws is thrown on. */
  readonly beforePublish?: (name: string) => void;
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
  /** Entries that did not get the group. Not an error, as in the kubelet: most files are readable without. */
  readonly groupsRefused: number;
}

export class AtomicWriter {
  readonly #directory: string;
  readonly #names: NameSource;
  #known: KnownVolume | undefined;
  /** Set when the system refused this group: it is not asked for again, or each check would find it missing and rewrite. */
  #refusedGroup: number | undefined;

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

  /** Makes the volume's content exactly `payload`, all at once. */
  write(payload: Payload, options: WriteOptions = {}): WriteOutcome {
    const tree = planTree(payload); // throws before anything is touched
    const known = this.#known;
    this.#known = undefined; // a write that fails leaves nothing certain
    try {
      const look = this.#look(tree, options.group, known);
      const changes = { ...noChanges, leftovers: 0, hidden: [] };
      this.#removeLeftovers(look.listing.leftovers, changes);
      return look.inodes === undefined
        ? this.#replace(tree, options, look, known, changes)
        : this.#keep(tree, options.group, look, look.inodes, known, changes);
    } catch (error) {
      if (error instanceof CallbackError) throw error.cause;
      throw error instanceof MountletError ? error : new VolumeWriteError(error);
    }
  }

  #look(tree: PayloadTree, group: number | undefined, known: KnownVolume | undefined): Look {
    const root = statSync(this.#directory);
    const same = known !== undefined && known.group === group && isSamePayload(known.tree, tree.files);
    // After a write of our own the listing is what we made of it, which is good enough to replace it again. Before we
    // answer "unchanged", we have looked once.
    const trusted = isUnchangedSince(known?.rootModifiedMs, root) && (!same || known?.inodes !== undefined);
    const listing = trusted && known !== undefined ? known.listing : listVolume(this.#directory);
    return { root, listing, trusted, inodes: this.#inodesIfRight(tree, group, listing.live, known, same) };
  }

  #inodesIfRight(
    tree: PayloadTree,
    group: number | undefined,
    live: string | undefined,
    known: KnownVolume | undefined,
    same: boolean,
  ): VersionInodes | undefined {
    if (live === undefined) return undefined;
    const version = `${this.#directory}/${live}`;
    if (known?.name === live) {
      if (!same) return undefined;
      if (known.inodes !== undefined && isUntouched(version, known.tree, known.inodes)) return known.inodes;
    }
    return readVersion(version, tree, { group, groupRefused: group !== undefined && group === this.#refusedGroup });
  }

  /** The live version is right: repairs what stands around it, which usually is nothing. */
  #keep(
    tree: PayloadTree,
    group: number | undefined,
    { root, listing, trusted }: Look,
    inodes: VersionInodes,
    known: KnownVolume | undefined,
    changes: Changes,
  ): WriteOutcome {
    const { live: name = '', firstLevel } = listing;
    let regrouped = false;
    if (group !== undefined && group !== this.#refusedGroup) {
      regrouped = this.#groupRoot(root, group, changes);
      if (!trusted) changes.groupsRefused += regroupLinks(this.#directory, tree, group, firstLevel);
      if (changes.groupsRefused > 0) this.#refusedGroup = group;
    }
    makeLinks(this.#directory, tree, group, firstLevel, changes);
    removeStaleLinks(this.#directory, tree, firstLevel, changes);

    const repaired = regrouped || changes.made + changes.removed + changes.leftovers + changes.leftBehind > 0;
    if (trusted && !repaired && inodes === known?.inodes) {
      this.#known = known;
    } else {
      const nowMs = this.#names.now();
      const remembered = inodes === known?.inodes ? known.tree : remember(tree);
      const rootSettled = isUnchangedSince(known?.rootModifiedMs, root) || isSettled(root, nowMs);
      this.#known = remembered && {
        name,
        tree: remembered,
        group,
        listing: { ...listing, leftovers: [] },
        rootModifiedMs: !repaired && rootSettled ? root.mtimeMs : undefined,
        inodes: inodes.every((inode) => isSettled(inode, nowMs)) ? inodes : undefined,
      };
    }
    return outcome(false, name, changes);
  }

  #replace(
    tree: PayloadTree,
    { group, beforePublish }: WriteOptions,
    { root, listing, trusted }: Look,
    known: KnownVolume | undefined,
    changes: Changes,
  ): WriteOutcome {
    const { live, firstLevel } = listing;
    const name = makeVersion(this.#directory, this.#names);
    try {
      changes.groupsRefused += fillVersion(`${this.#directory}/${name}`, tree, group);
      if (group !== undefined) {
        this.#groupRoot(root, group, changes);
        this.#groupOccupied(firstLevel, group, changes);
        if (!trusted || known?.group !== group)
          changes.groupsRefused += regroupLinks(this.#directory, tree, group, firstLevel);
      }
      if (beforePublish !== undefined) callBack(beforePublish, name);
      this.#publish(name);
    } catch (error) {
      this.#remove(name, tree);
      throw error;
    }
    try {
      makeLinks(this.#directory, tree, group, firstLevel, changes);
    } finally {
      // Also when a link could not be made: the disk may be full, and this frees some of it.
      removeStaleLinks(this.#directory, tree, firstLevel, changes);
      const content = known?.name === live ? known?.tree : undefined;
      if (live !== undefined && !this.#remove(live, content)) changes.leftBehind += 1;
    }
    this.#refusedGroup = changes.groupsRefused > 0 ? group : undefined;

    const remembered = remember(tree, known?.tree);
    this.#known = remembered && {
      name,
      tree: remembered,
      group,
      listing: { live: name, firstLevel, leftovers: [] },
      rootModifiedMs: changes.leftBehind === 0 ? markDirectory(this.#directory, this.#names) : undefined,
      inodes: undefined,
    };
    return outcome(true, name, changes);
  }

  #publish(name: string): void {
    const temporary = `${this.#directory}/${temporaryLink}`;
    symlinkSync(name, temporary);
    try {
      renameSync(temporary, `${this.#directory}/${dataLink}`);
    } catch (error) {
      this.#remove(temporaryLink);
      throw error;
    }
  }

  /** Returns whether the volume's directory was changed. */
  #groupRoot({ mode, gid }: Stats, group: number, changes: Changes): boolean {
    const bits = directoryBits('read-only');
    if (gid === group && (mode & bits) === bits) return false;
    try {
      chownSync(this.#directory, -1, group);
      chmodSync(this.#directory, (mode & 0o7777) | bits);
    } catch {
      changes.groupsRefused += 1;
    }
    return true;
  }

  /** Mount points and subPath directories in the volume get the group too. */
  #groupOccupied(firstLevel: VolumeListing['firstLevel'], group: number, changes: Changes): void {
    for (const [name, kind] of firstLevel) {
      if (kind !== 'occupied') continue;
      changes.groupsRefused += applyGroupAtOnce(`${this.#directory}/${name}`, { group, readOnly: true });
    }
  }

  #removeLeftovers(names: readonly string[], changes: Changes): void {
    for (const name of names) {
      if (this.#remove(name)) changes.leftovers += 1;
      else changes.leftBehind += 1;
    }
  }

  /** Removes one of the writer's own names; never throws, since what cannot go now is found by the next write. */
  #remove(name: string, content?: TreePaths): boolean {
    const path = `${this.#directory}/${name}`;
    try {
      if (content !== undefined) removeVersion(path, content);
      else if (name !== temporaryLink || lstatSync(path).isDirectory()) removeTree(path);
      else unlinkSync(path);
      return true;
    } catch {
      return false;
    }
  }
}

interface Look {
  readonly root: Stats;
  readonly listing: VolumeListing;
  /** The listing is remembered, and nothing in the directory has changed since. */
  readonly trusted: boolean;
  /** Those of the live version when it is as wanted. */
  readonly inodes: VersionInodes | undefined;
}

interface Changes extends LinkChanges {
  leftovers: number;
}

const noChanges = { made: 0, removed: 0, leftBehind: 0, groupsRefused: 0 };

function outcome(changed: boolean, version: string, changes: Changes): WriteOutcome {
  return {
    changed,
    version,
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
