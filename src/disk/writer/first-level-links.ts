/** Keeps the names users see, `a.conf -> ..data/a.conf`, in step with a payload. Content is not its business. */
import { lchownSync, lstatSync, renameSync, symlinkSync, unlinkSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import type { Steps } from '../../base/turns.ts';
import type { PayloadTree } from './payload.ts';
import { OwnerRefusedError } from './volume-write-error.ts';
import { dataLink, temporaryLink } from './volume-listing.ts';
import type { FirstLevelEntry } from './volume-listing.ts';

export interface LinkChanges {
  made: number;
  removed: number;
  /** Links that could not be removed; a later write tries again. */
  leftBehind: number;
  groupsRefused: number;
  /** Names that a real file or directory hides. */
  hidden: string[];
}

/** Makes what is missing and replaces what leads elsewhere. `firstLevel` is brought up to date. */
export function* makeLinks(
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
export function* removeStaleLinks(
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
export function* regroupLinks(
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
