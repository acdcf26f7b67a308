/** The look before a write: what stands in the volume, and whether it is what the payload asks for already. It changes nothing. */
import { statSync } from 'node:fs';
import type { Stats } from 'node:fs';
import type { Steps } from '../../base/turns.ts';
import { isSamePayload, isUnchangedSince } from './known-volume.ts';
import type { KnownVolume } from './known-volume.ts';
import type { PayloadTree } from './payload.ts';
import { isUntouched, readVersion } from './version-check.ts';
import type { VersionInodes, WantedOwnership } from './version-check.ts';
import { listVolume } from './volume-listing.ts';
import type { VolumeListing } from './volume-listing.ts';

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
