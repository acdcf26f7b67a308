/**
 * What the store needs of a disk: everything back when it is opened, and commits that are whole or absent. The store holds
 * all of it in memory and never reads again, so that readers see exactly what was published to them.
 */
import type { LoggedChange } from './change-log.ts';
import type { ValueSeal } from './encryption.ts';
import { type LogRecord, type Row, openRow } from './row.ts';
import type { Snapshot, StoreState } from './snapshot.ts';
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

/**
 * From rows to the content of a store. What cannot be read is named and left out: an object as damaged, the changes up to and
 * including a damaged one as if they had been compacted, so that clients list again instead of missing something.
 */
export async function load(
  snapshot: Snapshot | undefined,
  records: readonly LogRecord[],
  { revision, compactedRevision }: StoreState,
  seal: ValueSeal,
): Promise<JournalContent> {
  const objects = new Map<string, StoredObject>();
  const damaged = new Map<string, string>();
  let changes: LoggedChange[] = [];
  let lost: { readonly revision: number; readonly reason: string } | undefined;

  const apply = (row: Row, opened: ReturnType<typeof openRow>): void => {
    const { type, key } = row;
    const previous = objects.get(key);
    const damage = 'damage' in opened ? opened.damage : damaged.get(key);
    const value = 'damage' in opened ? undefined : opened.value;
    if (type !== 'mark' && row.revision > compactedRevision) {
      if (damage === undefined && value !== undefined) {
        changes.push({
          type,
          key,
          revision: row.revision,
          time: row.time,
          value,
          previous: previous?.value,
          previousRevision: previous?.revision ?? 0,
        });
      } else {
        changes = [];
        lost = damage === undefined ? undefined : { revision: row.revision, reason: damage };
      }
    }
    objects.delete(key);
    damaged.delete(key);
    if (type === 'delete') return;
    if ('damage' in opened) damaged.set(key, opened.damage);
    else if (value !== undefined) objects.set(key, { key, value, revision: row.revision });
  };

  const early: (() => void)[] = [];
  for await (const { part, rows } of snapshot?.rows() ?? []) {
    for (const row of rows) {
      const opened = openRow(row, seal);
      // The changes come first, and need the objects that they changed.
      if (part === 'objects') apply(row, opened);
      else {
        const { type, key, revision: at, time } = row;
        early.push(() => apply({ type, key, revision: at, time, bytes: nothing }, opened));
      }
    }
  }
  for (const applyChange of early) applyChange();
  for (const { rows } of records) for (const row of rows) apply(row, openRow(row, seal));
  const named = [...damaged].map(([key, reason]) => ({ key, reason }));
  if (lost !== undefined) {
    named.push({ key: `change ${lost.revision}`, reason: `${lost.reason}; changes up to it are not kept` });
  }
  return {
    revision,
    compactedRevision: revision - changes.length,
    objects: [...objects.values()],
    changes,
    damaged: named,
  };
}

const nothing = Buffer.alloc(0);
