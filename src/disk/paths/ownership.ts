/**
 * Gives a volume to a group (fsGroup): every entry gets the group, and enough permission bits for it. Bits are added,
 * never taken away. It walks whatever is below the directory, other file systems mounted there included, as the kubelet
 * does; which volumes need it, and what users see when it takes long, is decided elsewhere.
 *
 * Containers may be running in the volume and changing it meanwhile, so no path is looked up twice: each entry is opened
 * once without following links (O_PATH) and then read and changed through that descriptor. A file swapped for a link to
 * something outside is thus never changed through the link.
 */
import {
  type Stats,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  statSync,
} from 'node:fs';
import { type Steps, type Turns, atOnce } from '../../base/turns.ts';
import { openPathOnly } from '../mounts/mount-table.ts';

type VolumeAccess = 'read-only' | 'read-write';

/** On a directory: what is made in it inherits its group. */
export const setgid = 0o2000;

/** Bits every file gets. */
export function fileBits(access: VolumeAccess): number {
  return access === 'read-only' ? 0o440 : 0o660;
}

/** Bits every directory gets. */
export function directoryBits(access: VolumeAccess): number {
  return fileBits(access) | 0o110 | setgid;
}

export interface GroupChange {
  readonly group: number;
  readonly readOnly: boolean;
  /** `OnRootMismatch` trusts a root directory that is right already and leaves its children as they are. */
  readonly policy?: 'OnRootMismatch' | 'Always';
}

interface GroupOutcome {
  /** The policy found nothing to do. */
  readonly skipped: boolean;
  /** Entries visited. */
  readonly processed: number;
  /** Changes the system refused; the walk goes on, because a wrong group is better than no volume. */
  readonly refused: number;
}

interface GroupProgress {
  readonly processed: number;
  readonly path: string;
  readonly elapsedMs: number;
}

export interface GroupReporting {
  now(): number;
  /** Called after 30 s and then every 60 s, for as long as the walk takes. */
  readonly progress: (progress: GroupProgress) => void;
}

const firstReportMs = 30_000;
const nextReportMs = 60_000;
/** About a millisecond of system calls. */
const entriesPerStep = 128;
const keepOwner = -1;

/** Throws only when the tree cannot be walked, or when `signal` aborts. */
export async function applyGroup(
  turns: Turns,
  directory: string,
  change: GroupChange,
  reporting?: GroupReporting,
  signal?: AbortSignal,
): Promise<GroupOutcome> {
  if (change.policy === 'OnRootMismatch' && isRootRight(directory, change)) {
    return { skipped: true, processed: 0, refused: 0 };
  }
  return turns.run(regrouping(directory, change, reporting), signal);
}

function* regrouping(directory: string, change: GroupChange, reporting?: GroupReporting): Steps<GroupOutcome> {
  const startedMs = reporting?.now() ?? 0;
  let reportAtMs = startedMs + firstReportMs;
  const tally = { processed: 0, refused: 0 };
  for (const path of regroup(directory, directory, change, tally)) {
    if (tally.processed % entriesPerStep !== 0) continue;
    yield;
    const nowMs = reporting?.now() ?? 0;
    if (reporting === undefined || nowMs < reportAtMs) continue;
    reporting.progress({ processed: tally.processed, path, elapsedMs: nowMs - startedMs });
    reportAtMs = nowMs + nextReportMs;
  }
  return { skipped: false, ...tally };
}

/** The same in one go, for trees known to be small. Returns how many changes were refused. */
export function applyGroupAtOnce(directory: string, change: GroupChange): number {
  return atOnce(regrouping(directory, change)).refused;
}

/** Any doubt means no: doing the change once more is harmless. */
function isRootRight(directory: string, change: GroupChange): boolean {
  try {
    const root = statSync(directory);
    return root.isDirectory() && hasGroupAccess(root, change);
  } catch {
    return false;
  }
}

/** Whether a directory has the group and all bits already. */
export function hasGroupAccess({ mode, gid }: Stats, { group, readOnly }: GroupChange): boolean {
  const bits = directoryBits(readOnly ? 'read-only' : 'read-write');
  return gid === group && (mode & bits) === bits;
}

interface Tally {
  processed: number;
  refused: number;
}

/** Children before their directory, in the order the file system lists them. Yields the path of each entry done. */
function* regroup(reachedBy: string, path: string, change: GroupChange, tally: Tally): Generator<string, void> {
  const descriptor = openSync(reachedBy, openPathOnly | constants.O_NOFOLLOW);
  try {
    const entry = fstatSync(descriptor);
    const self = `/proc/self/fd/${descriptor}`;
    if (entry.isDirectory()) {
      for (const name of readdirSync(self)) yield* regroup(`${self}/${name}`, `${path}/${name}`, change, tally);
    }
    tally.processed += 1;
    tally.refused += applyGroupToEntry(self, entry, change);
  } finally {
    closeSync(descriptor);
  }
  yield path;
}

/** Changes one entry; on a link only its group. Returns how many of the two changes were refused. */
export function applyGroupToEntry(path: string, entry: Stats, { group, readOnly }: GroupChange): number {
  const access = readOnly ? 'read-only' : 'read-write';
  const bits = entry.isDirectory() ? directoryBits(access) : fileBits(access);
  let refused = 0;
  try {
    chownSync(path, keepOwner, group);
  } catch {
    refused += 1;
  }
  if (entry.isSymbolicLink()) return refused;
  try {
    chmodSync(path, (entry.mode & 0o7777) | bits);
  } catch {
    refused += 1;
  }
  return refused;
}
