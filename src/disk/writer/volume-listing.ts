/**
 * What stands in a projected volume's directory: which version is live, which first-level names are links of ours, and
 * what a crash left behind. It only looks; the atomic writer acts on it.
 *
 * Ours are `..data`, `..data_tmp`, directories with a version's name, and first-level links that lead into `..data`.
 * Everything else belongs to somebody: mount points, directories made for a subPath, links a user made.
 */
import { readdirSync, readlinkSync } from 'node:fs';
import type { Steps } from '../../base/turns.ts';
import { isVersionName } from './version-directory.ts';

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

export interface VolumeListing {
  /** The version `..data` names, if that is a directory of this volume. */
  readonly live: string | undefined;
  /** `..data` is something else than a link; a directory has to go before a link can take its place. */
  readonly isBlocked: boolean;
  readonly firstLevel: Map<string, FirstLevelEntry>;
  /** Names that an interrupted write left. */
  readonly leftovers: readonly string[];
}

export function* listVolume(directory: string): Steps<VolumeListing> {
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
