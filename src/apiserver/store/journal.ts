/**
 * What the store needs of a disk: everything back when it is opened, and commits that are whole or absent. The store holds
 * all of it in memory and never reads again, so that readers see exactly what was published to them.
 */
import type { LoggedChange } from './change-log.ts';
import type { DamagedValue, StoredObject } from './store.ts';

export interface JournalContent {
  readonly revision: number;
  readonly compactedRevision: number;
  readonly objects: readonly StoredObject[];
  /** All changes after `compactedRevision`, without a gap. */
  readonly changes: readonly LoggedChange[];
  readonly damaged: readonly DamagedValue[];
}

/** Written as one: all of it or nothing. */
export interface JournalCommit {
  /** Of the last change. */
  readonly revision: number;
  /** Changes up to and including this one may be removed, now or later. */
  readonly compactedRevision: number;
  readonly changes: readonly LoggedChange[];
}

export interface Journal {
  /** Resolves when it is on disk. Called again only after the last one has settled. Rejects with a DiskFullError for lack of room. */
  commit(commit: JournalCommit): Promise<void>;
  /** Then only deletions may be committed. Asking looks for room again, for the next call. Absent: it never is. */
  isFull?(): boolean;
  /** Called after a failed commit: what a restart would find. Throws when even that is unknown. */
  revisionOnDisk(): number;
  /** Encrypts again what is on disk in clear or with an old key. Resolves to the number of keys that it concerned. */
  reseal(): Promise<number>;
  backup(file: string): Promise<void>;
  close(): Promise<void>;
}
