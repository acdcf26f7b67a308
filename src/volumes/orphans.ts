/**
 * Takes away the directories of pods that are gone: neither known to the node nor running on it. Only what is empty, or was
 * the node's own, is removed. The content of a volume is never deleted here; that is the plugins' part.
 */
import { CoalescingQueue } from '../base/coalescing-queue.ts';
import { MountletError, messageOf } from '../base/errors.ts';
import { goQuote } from '../kube/values/go-text.ts';
import type { ActualState } from './actual-state.ts';
import type { DesiredState } from './desired-state.ts';
import type { NotifyVolumes } from './notices.ts';
import type { SubPathCleaner } from './operation.ts';
import type { PodSource, PodStates } from './populator.ts';
import { type PodUid, asPodUid } from './volume-name.ts';

interface OrphanedPodsDeps {
  readonly disk: PodsOnDisk;
  readonly subPaths: SubPathCleaner;
  readonly pods: PodSource;
  readonly states: Pick<PodStates, 'shouldRuntimeBeRemoved'>;
  readonly desired: Pick<DesiredState, 'hasPod'>;
  readonly actual: Pick<ActualState, 'possiblyMountedOf'>;
  readonly notify: NotifyVolumes;
}

export interface OrphanSweep {
  /** `kubelet_orphan_pod_cleaned_volumes`. */
  readonly candidates: number;
  /** `kubelet_orphan_pod_cleaned_volumes_errors`. */
  readonly withProblems: number;
  /** Why directories that had no volumes left could not be removed; undefined when there was no such problem. */
  readonly error: string | undefined;
}

/** What went wrong with pods, apart by where: in their volumes, or after those were gone. */
interface Problems {
  readonly volumes: string[];
  readonly removal: string[];
}

export class OrphanedPods {
  readonly #deps: OrphanedPodsDeps;
  readonly #queue = new CoalescingQueue<PodUid | typeof everyPod>();

  constructor(deps: OrphanedPodsDeps) {
    this.#deps = deps;
  }

  /** Something of the pod is mounted, or may be: in what the node knows, or on disk. */
  podVolumesExist(podUid: PodUid): boolean {
    const { disk, actual, notify } = this.#deps;
    if (actual.possiblyMountedOf(podUid).length > 0) return true;
    try {
      const paths = disk.volumePaths(podUid);
      // The table of a machine with many mounts takes long to read, so it is read only if there is something to look for.
      const mounted = paths.length === 0 ? [] : [...disk.mountPoints(podUid)];
      // Some kinds of volumes are mounted one directory deeper.
      return paths.some((path) => mounted.some((point) => point === path || point.startsWith(`${path}/`)));
    } catch (error) {
      const why = mountletMessage(error);
      const message = `Pod found, but error occurred during checking mounted volumes from disk: ${why}`;
      notify({ kind: 'OrphanedPodKept', podUid, message });
      return true;
    }
  }

  /** The pod, or something of it, has gone. */
  touch(podUid: PodUid): void {
    this.#queue.add(podUid);
  }

  touchAll(): void {
    this.#queue.add(everyPod);
  }

  async run(signal: AbortSignal): Promise<void> {
    for await (const podUid of this.#queue.take(signal)) {
      if (podUid !== everyPod) await this.clean(podUid, signal);
      else {
        try {
          await this.sweep(signal);
        } catch (error) {
          this.#tell([mountletMessage(error)]);
        }
      }
    }
  }

  /** Undefined until every source of pods was read. Throws when the directory of all pods cannot be read. */
  async sweep(signal: AbortSignal): Promise<OrphanSweep | undefined> {
    const { disk, pods, notify } = this.#deps;
    if (!pods.areSourcesReady()) return undefined;
    const problems: Problems = { volumes: [], removal: [] };
    let [candidates, withProblems] = [0, 0];
    for (const podUid of disk.pods().names.map(asPodUid)) {
      if (signal.aborted) break;
      if (!this.#isOrphan(podUid)) continue;
      candidates += 1;
      if (!(await this.#remove(podUid, problems, signal))) withProblems += 1;
    }
    this.#tell(problems.volumes);
    this.#tell(problems.removal);
    notify({ kind: 'OrphansSwept', candidates, withProblems });
    return { candidates, withProblems, error: aggregate(problems.removal) };
  }

  /** One pod, as soon as it has gone. */
  async clean(podUid: PodUid, signal: AbortSignal): Promise<void> {
    const { disk, pods } = this.#deps;
    if (!pods.areSourcesReady() || !this.#isOrphan(podUid) || !disk.has(podUid)) return;
    const problems: Problems = { volumes: [], removal: [] };
    await this.#remove(podUid, problems, signal);
    this.#tell(problems.volumes);
    this.#tell(problems.removal);
  }

  #isOrphan(podUid: PodUid): boolean {
    const { pods, states, desired } = this.#deps;
    return pods.pod(podUid) === undefined && states.shouldRuntimeBeRemoved(podUid) && !desired.hasPod(podUid);
  }

  /** False when something of it stays. */
  async #remove(podUid: PodUid, problems: Problems, signal: AbortSignal): Promise<boolean> {
    const { disk, notify } = this.#deps;
    if (this.podVolumesExist(podUid)) {
      notify({ kind: 'OrphanedPodKept', podUid, message: 'Orphaned pod found, but volumes are not cleaned up' });
      return false;
    }
    const before = problems.volumes.length + problems.removal.length;
    await this.#unmountSubPaths(podUid, problems.volumes, signal);
    // While that went on the pod may have come, and with it its volumes.
    if (!this.#isOrphan(podUid) || this.podVolumesExist(podUid)) return false;
    const mounted = disk.mountPoints(podUid);
    this.#removeVolumes(podUid, mounted, problems.volumes);
    if (problems.volumes.length + problems.removal.length > before) return false;
    const isGone = this.#removeRest(podUid, mounted, problems.removal);
    if (isGone) notify({ kind: 'OrphanedPodRemoved', podUid, path: disk.pathOf(podUid) });
    return isGone;
  }

  /** Of kinds that have no directory, a hostPath say, they are all that a restart finds. */
  async #unmountSubPaths(podUid: PodUid, errors: string[], signal: AbortSignal): Promise<void> {
    const { disk, subPaths } = this.#deps;
    const top = `${disk.pathOf(podUid, 'volume-subpaths')}/`;
    if (!disk.has(podUid, 'volume-subpaths')) return;
    const mounted = [...disk.mountPoints(podUid)].filter((path) => path.startsWith(top));
    for (const volumeName of new Set(mounted.map((path) => path.slice(top.length).split('/')[0] ?? ''))) {
      try {
        await subPaths.clean(podUid, volumeName, signal);
      } catch (error) {
        const path = `${top}${volumeName}`;
        errors.push(`${found(podUid)} failed to remove subpath at path ${path}: ${mountletMessage(error)}`);
      }
    }
  }

  /** With rmdir alone, so that nothing is lost that was in use a moment ago. */
  #removeVolumes(podUid: PodUid, mounted: ReadonlySet<string>, errors: string[]): void {
    const { disk } = this.#deps;
    const failed = (what: string, act: () => void): boolean => {
      const problem = problemOf(act);
      if (problem !== undefined) errors.push(`${found(podUid)} ${what}: ${problem}`);
      return problem !== undefined;
    };
    let volumePaths: readonly string[] = [];
    const listing = 'error occurred during reading volume dir from disk';
    if (failed(listing, () => (volumePaths = disk.volumePaths(podUid)))) return;
    for (const path of volumePaths) {
      failed(`failed to rmdir() volume at path ${path}`, () => disk.removeDirectory(path));
    }
    let subPaths: readonly { readonly path: string }[] = [];
    const listingSubPaths = 'error occurred during reading of volume-subpaths dir from disk';
    if (failed(listingSubPaths, () => (subPaths = disk.subPaths(podUid)))) return;
    for (const { path } of subPaths) {
      failed(`failed to remove subpath at path ${path}`, () => disk.removeSubPath(path));
    }
    failed('error occurred when trying to remove the volumes dir', () => disk.removeEmptyVolumes(podUid, mounted));
  }

  #removeRest(podUid: PodUid, mounted: ReadonlySet<string>, errors: string[]): boolean {
    const { disk, notify } = this.#deps;
    let entries: readonly string[] = [];
    const unread = problemOf(() => (entries = disk.entries(podUid)));
    if (unread !== undefined) {
      errors.push(`${found(podUid)} error occurred during reading the pod dir from disk: ${unread}`);
      return false;
    }
    let isClean = true;
    for (const name of entries) {
      // It was made again a moment ago, so it is in use.
      if (name === 'volumes') {
        notify({ kind: 'OrphanedPodKept', podUid, message: 'volumes subdir was found after it was removed' });
        isClean = false;
        continue;
      }
      const problem = problemOf(() => disk.removeEntry(podUid, name, mounted));
      if (problem === undefined) continue;
      isClean = false;
      const path = goQuote(disk.pathOf(podUid, name));
      errors.push(`${found(podUid)} error occurred when trying to remove subdir ${path}: ${problem}`);
    }
    const kept = problemOf(() => disk.removePod(podUid));
    if (kept === undefined) return isClean;
    errors.push(`${found(podUid)} error occurred when trying to remove the pod directory: ${kept}`);
    return false;
  }

  #tell(errors: readonly string[]): void {
    const [first] = errors;
    if (first === undefined) return;
    this.#deps.notify({ kind: 'OrphanedPodErrors', first, count: errors.length });
  }
}

/** Stands in the queue for a sweep of everything. */
const everyPod = Symbol('every pod');

function found(podUid: PodUid): string {
  return `orphaned pod ${goQuote(podUid)} found, but`;
}

/** As the kubelet prints several errors: `[first, second]`; equal ones once. */
function aggregate(errors: readonly string[]): string | undefined {
  const different = [...new Set(errors)];
  return different.length < 2 ? different[0] : `[${different.join(', ')}]`;
}

function problemOf(act: () => void): string | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    return mountletMessage(error);
  }
}

/** Any other error is a bug and is thrown on. */
function mountletMessage(error: unknown): string {
  if (!(error instanceof MountletError)) throw error;
  return messageOf(error);
}

// What this room asks of the directories of pods: to find what an earlier process left, and to take away what is left of
// pods that are gone. Nothing in it follows a link, waits for what is mounted, or deletes the content of a volume.

export interface SkippedEntry {
  readonly path: string;
  readonly why: string;
}

export interface VolumeOnDisk {
  /** The plugin's name as a directory: `kubernetes.io~configmap`. */
  readonly pluginDirectory: string;
  readonly name: string;
  readonly path: string;
}

export interface PodOnDisk {
  /** Empty for what was skipped beside the pods. */
  readonly podUid: string;
  /** Below `volumes`: file systems. */
  readonly volumes: readonly VolumeOnDisk[];
  /** Below `volumeDevices`: raw devices. */
  readonly devices: readonly VolumeOnDisk[];
  readonly skipped: readonly SkippedEntry[];
}

/** Failures are MountletErrors whose message is what the kernel said. */
export interface PodsOnDisk {
  /** Throws when the directory of all pods cannot be read. */
  pods(): { readonly names: readonly string[]; readonly skipped: readonly SkippedEntry[] };
  /** A directory of it, or the pod's own. False also for a name that no directory can have. */
  has(podUid: string, ...below: readonly string[]): boolean;
  /** By name only: what is mounted there may hang. Throws as `pods` does; whatever else cannot be read is skipped. */
  scan(): Iterable<PodOnDisk>;
  /** The directories of the pod's volumes. */
  volumePaths(podUid: string): readonly string[];
  /** What is mounted at or below the pod's directory. */
  mountPoints(podUid: string): ReadonlySet<string>;
  subPaths(podUid: string): readonly { readonly volumeName: string; readonly path: string }[];
  /** Only an empty one. */
  removeDirectory(path: string): void;
  /** A file, or an empty directory. */
  removeSubPath(path: string): void;
  /** The directory `volumes` as far as it has empty directories and nothing else in it. */
  removeEmptyVolumes(podUid: string, mounted: ReadonlySet<string>): void;
  /** What is directly in the pod's directory. */
  entries(podUid: string): readonly string[];
  /** Recursively, and never across a mount. */
  removeEntry(podUid: string, name: string, mounted: ReadonlySet<string>): void;
  /** Only when it is empty. */
  removePod(podUid: string): void;
  pathOf(podUid: string, name?: string): string;
}
