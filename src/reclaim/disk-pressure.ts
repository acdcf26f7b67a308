/**
 * Whether the disks of this node are short, from what is observed now and what was observed before. No effects: the eviction loop
 * observes and acts.
 *
 *   fine ──a threshold is met──▶ pressure, reported at once ──met for its grace──▶ due: space is reclaimed
 *     ▲                              │
 *     └──no threshold was met, minimum reclaim included, for the transition period
 */
import { type Signal, type Threshold, amountOf } from './thresholds.ts';

/** What is left of a file system. */
export interface FilesystemUsage {
  readonly availableBytes: number;
  readonly capacityBytes: number;
  readonly inodesFree: number;
  readonly inodes: number;
}

export interface Filesystems {
  /** Where pods live. */
  readonly node: FilesystemUsage;
  /** Where images and what containers write are kept; undefined where containers need no images. */
  readonly image: FilesystemUsage | undefined;
  /** Images have a file system of their own. */
  readonly isImageDedicated: boolean;
}

interface Observation {
  readonly available: number;
  readonly capacity: number;
}

export type StarvedResource = 'ephemeral-storage' | 'inodes';

export function resourceOf(signal: Signal): StarvedResource {
  return signal.endsWith('.available') ? 'ephemeral-storage' : 'inodes';
}

export function observe({ node, image }: Filesystems, signal: Signal): Observation | undefined {
  const usage = signal.startsWith('nodefs.') ? node : image;
  if (usage === undefined) return undefined;
  return resourceOf(signal) === 'inodes'
    ? { available: usage.inodesFree, capacity: usage.inodes }
    : { available: usage.availableBytes, capacity: usage.capacityBytes };
}

/** With `reclaimed`, one that was met counts until its minimum reclaim is there too. */
function isMet(threshold: Threshold, filesystems: Filesystems, reclaimed: boolean): boolean {
  const observed = observe(filesystems, threshold.signal);
  if (observed === undefined) return false;
  const beyond = reclaimed ? amountOf(threshold.minimumReclaim, observed.capacity) : 0;
  return observed.available < amountOf(threshold.below, observed.capacity) + beyond;
}

export class DiskPressure {
  readonly #thresholds: readonly Threshold[];
  readonly #transitionMs: number;
  /** Since when each is met. */
  #since = new Map<Threshold, number>();
  /** Those that were due at the last look and are not resolved. */
  #due: readonly Threshold[] = [];
  #lastMetAt: number | undefined;
  #isUnderPressure = false;

  constructor(thresholds: readonly Threshold[], transitionMs: number) {
    this.#thresholds = thresholds;
    this.#transitionMs = transitionMs;
  }

  /** There are thresholds to look at. */
  get isWatched(): boolean {
    return this.#thresholds.length > 0;
  }

  /** As of the last look. */
  get isUnderPressure(): boolean {
    return this.#isUnderPressure;
  }

  /** Returns the thresholds for which space has to be reclaimed now. */
  look(filesystems: Filesystems, nowMs: number): readonly Threshold[] {
    const met = this.#thresholds.filter(
      (threshold) =>
        isMet(threshold, filesystems, false) || (this.#due.includes(threshold) && isMet(threshold, filesystems, true)),
    );
    this.#since = new Map(met.map((threshold) => [threshold, this.#since.get(threshold) ?? nowMs]));
    if (met.length > 0) this.#lastMetAt = nowMs;
    this.#isUnderPressure = this.#lastMetAt !== undefined && nowMs - this.#lastMetAt < this.#transitionMs;
    this.#due = met.filter((threshold) => nowMs - (this.#since.get(threshold) ?? nowMs) >= threshold.graceMs);
    return this.#due;
  }

  /** Whether every threshold is out of reach, with its minimum reclaim. */
  isResolved(filesystems: Filesystems): boolean {
    return !this.#thresholds.some((threshold) => isMet(threshold, filesystems, true));
  }
}
