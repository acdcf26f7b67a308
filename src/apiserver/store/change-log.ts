/**
 * The committed changes that are still kept, oldest first. Every write has the next revision, so the place of a change is
 * known from its revision. What may go is decided here; that it goes, and when, is the store's business.
 */
import { CompactedError } from './store-errors.ts';
import type { Change } from './store.ts';

export interface LoggedChange extends Change {
  /** Of the write that made `previous` what it is; 0 when there was nothing. */
  readonly previousRevision: number;
  /** Milliseconds since the epoch. */
  readonly time: number;
}

/**
 * A change goes when there are more than `changesMax` or `bytesMax`, or when it is older than `ageMsMin` and more than
 * `changesMin` are left. Age alone removes nothing: a client that watches a quiet kind comes back with the same old revision
 * again and again, and is told nothing of writes to other kinds.
 */
export interface ChangeLogLimits {
  readonly changesMin: number;
  readonly ageMsMin: number;
  readonly changesMax: number;
  readonly bytesMax: number;
}

export const changeLogDefaults: ChangeLogLimits = {
  // Ten times what upstream keeps of one kind at least; a few megabytes of ordinary objects.
  changesMin: 10_000,
  // Clients come back after 30 s (Node) to 10 min (Go, with bookmarks every minute); upstream keeps 75 s.
  ageMsMin: 5 * 60_000,
  // Bounds the time to open a store, which reads the whole log, to about a second.
  changesMax: 200_000,
  // The log is in memory too. A value that one change has after it and the next before it is there once and counted once.
  bytesMax: 128 * 1024 * 1024,
};

export class ChangeLog {
  readonly #limits: ChangeLogLimits;
  #changes: LoggedChange[];
  /** Where the oldest kept change is in the array; what lies before it is cut off now and then, not each time. */
  #start = 0;
  #bytes = 0;
  #compactedRevision: number;

  /** `changes` begin right after `compactedRevision`, without a gap. */
  constructor(limits: ChangeLogLimits, compactedRevision: number, changes: readonly LoggedChange[] = []) {
    this.#limits = limits;
    this.#compactedRevision = compactedRevision;
    this.#changes = [...changes];
    for (const change of changes) this.#bytes += bytesOf(change);
  }

  get compactedRevision(): number {
    return this.#compactedRevision;
  }

  get length(): number {
    return this.#changes.length - this.#start;
  }

  /** A change by its revision, or undefined when it is not kept. */
  at(revision: number): LoggedChange | undefined {
    const index = revision - this.#compactedRevision - 1;
    return index < 0 ? undefined : this.#changes[this.#start + index];
  }

  append(changes: readonly LoggedChange[]): void {
    for (const change of changes) {
      this.#changes.push(change);
      this.#bytes += bytesOf(change);
    }
  }

  /** Up to which revision the log could be cut if `coming` were appended, by at most `countMax` changes. */
  cutFor(coming: readonly LoggedChange[], now: number, countMax: number): number {
    const { changesMin, ageMsMin, changesMax, bytesMax } = this.#limits;
    let count = this.length + coming.length;
    let bytes = coming.reduce((sum, change) => sum + bytesOf(change), this.#bytes);
    let revision = this.#compactedRevision;
    for (let cut = 0; cut < countMax; cut += 1) {
      const oldest = this.at(revision + 1);
      if (oldest === undefined) break;
      const isOld = count > changesMin && now - oldest.time > ageMsMin;
      if (count <= changesMax && bytes <= bytesMax && !isOld) break;
      count -= 1;
      bytes -= bytesOf(oldest);
      revision += 1;
    }
    return revision;
  }

  /** Forgets the changes up to and including this revision. */
  cut(revision: number): void {
    for (; this.#compactedRevision < revision; this.#compactedRevision += 1) {
      const oldest = this.#changes[this.#start];
      if (oldest !== undefined) this.#bytes -= bytesOf(oldest);
      this.#start += 1;
    }
    if (this.#start * 2 > this.#changes.length) {
      this.#changes = this.#changes.slice(this.#start);
      this.#start = 0;
    }
  }

  /** Changes with a greater revision, oldest first. */
  after(revision: number): readonly LoggedChange[] {
    if (revision < this.#compactedRevision) throw new CompactedError(revision, this.#compactedRevision);
    return this.#changes.slice(this.#start + revision - this.#compactedRevision);
  }
}

/** JavaScript keeps a string in as many bytes as it has units, or twice that; the order of magnitude is what counts. */
function bytesOf({ key, value }: LoggedChange): number {
  return key.length + value.length;
}
