/**
 * Where one subPath that follows its volume is kept, and what is remembered of it. All of it lies on a tmpfs of its own,
 * so it lives exactly as long as the mounts it describes, and nothing of a Secret reaches a disk.
 *
 *   <pod directory>/volume-subpaths/<volume>/..live/<container>/
 *     <index>             what the runtime binds: a copy of the first version, covered by a mount of each later one
 *     <index>.<state>     what to show there
 *     <index>.copy        the last content of a directory that is gone from the volume
 *     <index>.draft       of an interrupted `prepare`
 */
import {
  type Stats,
  chmodSync,
  chownSync,
  closeSync,
  fchmodSync,
  fchownSync,
  futimesSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { errnoOf } from '../../linux/system-call-error.ts';
import type { PlacedRestriction } from '../mounts/replaceable-mounts.ts';
import { type SubPathOwner, liveSubPathsDirectory, requireName } from './sub-paths.ts';

/**
 *   prepared ──follow──▶ followed ──change──▶ changing ──changed──▶ followed
 *                            ▲                    └───────lost────▶ lost ──change──▶ changing
 *
 * `changing` survives only a crash: the old mount may then stand on the new one. The state is the end of a file's name,
 * so every arrow is one rename.
 */
const liveStates = ['prepared', 'followed', 'changing', 'lost'] as const;
type LiveState = (typeof liveStates)[number];

export interface LiveRecord {
  readonly volumeDirectory: string;
  readonly subPath: string;
  /** The name of the version that the copy is of. */
  readonly version: string;
  readonly restrictions: readonly PlacedRestriction[];
}

export class LiveSubPathPlace {
  /** What the runtime binds. */
  readonly base: string;

  constructor(owner: SubPathOwner) {
    const { podDirectory, volumeName, containerName, index } = owner;
    const root = liveSubPathsDirectory(podDirectory, volumeName);
    this.base = join(root, requireName(containerName), String(index));
  }

  get directory(): string {
    return dirname(this.base);
  }

  get copy(): string {
    return `${this.base}.copy`;
  }

  get draft(): string {
    return `${this.base}.draft`;
  }

  hasCopy(): boolean {
    return lstatSync(this.copy, { throwIfNoEntry: false }) !== undefined;
  }

  isDirectory(): boolean {
    return lstatSync(this.base).isDirectory();
  }

  read(state: LiveState): LiveRecord {
    return JSON.parse(readFileSync(this.#record(state), 'utf8')) as LiveRecord;
  }

  /** Complete or not there. */
  write(record: LiveRecord): void {
    writeFileSync(this.draft, JSON.stringify(record), { mode: 0o600 });
    renameSync(this.draft, this.#record('prepared'));
  }

  transition(from: LiveState, to: LiveState): void {
    renameSync(this.#record(from), this.#record(to));
  }

  forget(): void {
    for (const state of liveStates) {
      try {
        unlinkSync(this.#record(state));
      } catch (thrown) {
        if (errnoOf(thrown) !== 'ENOENT') throw thrown;
      }
    }
  }

  #record(state: LiveState): string {
    return `${this.base}.${state}`;
  }
}

export interface FoundPlace {
  readonly place: LiveSubPathPlace;
  readonly owner: SubPathOwner;
  readonly state: LiveState;
}

/** The same place in another state; on disk first. */
export function transition(found: FoundPlace, state: LiveState): FoundPlace {
  if (found.state !== state) found.place.transition(found.state, state);
  return { ...found, state };
}

/** Of all containers, or of one. */
export function findPlaces(podDirectory: string, volumeName: string, containerName?: string): FoundPlace[] {
  const root = liveSubPathsDirectory(podDirectory, volumeName);
  const containers = containerName === undefined ? namesIn(root) : [requireName(containerName)];
  return containers.flatMap((container) =>
    namesIn(join(root, container)).flatMap((name) => {
      const [, digits, state] = recordName.exec(name) ?? [];
      if (digits === undefined || state === undefined) return [];
      const owner = { podDirectory, volumeName, containerName: container, index: Number(digits) };
      return [{ place: new LiveSubPathPlace(owner), owner, state: state as LiveState }];
    }),
  );
}

const recordName = new RegExp(`^(\\d+)\\.(${liveStates.join('|')})$`);

/** Called at every update of every volume, mostly for a missing directory: throwing an error takes ten times as long as lstat. */
function namesIn(directory: string): string[] {
  return lstatSync(directory, { throwIfNoEntry: false }) === undefined ? [] : readdirSync(directory);
}

/**
 * An exact copy of files that this program wrote itself: bytes, modes, owners and times. Not for trees that others can
 * change: it goes by paths, and reads every file whole. `source` may be `/proc/self/fd/<descriptor>`; `target` must not exist.
 * Throws the system's error.
 */
export function copyTree(source: string, target: string): void {
  const status = statSync(source);
  if (!status.isDirectory()) return copyFile(source, status, target);
  mkdirSync(target, { mode: 0o700 }); // closed until it has its owner
  for (const entry of readdirSync(source, { withFileTypes: true })) {
    const [from, to] = [join(source, entry.name), join(target, entry.name)];
    // A version of a volume has nothing else, and a device or a fifo could not be read.
    if (entry.isDirectory() || entry.isFile()) copyTree(from, to);
  }
  chownSync(target, status.uid, status.gid);
  chmodSync(target, status.mode & 0o7777);
  utimesSync(target, status.atime, status.mtime);
}

function copyFile(source: string, { uid, gid, mode, atime, mtime }: Stats, target: string): void {
  const descriptor = openSync(target, 'wx', 0o600);
  try {
    writeFileSync(descriptor, readFileSync(source));
    fchownSync(descriptor, uid, gid);
    fchmodSync(descriptor, mode & 0o7777);
    futimesSync(descriptor, atime, mtime);
  } finally {
    closeSync(descriptor);
  }
}
