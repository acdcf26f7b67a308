/** What a store refuses or cannot do. Keys are named in the messages, values never. */
import { dirname } from 'node:path';
import { MountletError } from '../../base/errors.ts';

/** What callers do not tell apart by class; `reason` says what it is. */
export class StoreError extends MountletError {
  readonly reason: StoreProblem;

  constructor(reason: StoreProblem, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

type StoreProblem =
  | 'BackupFailed'
  | 'CommitFailed'
  | 'DamagedValue'
  | 'InvalidKey'
  | 'RestoreFailed'
  | 'StoreDamaged'
  | 'StoreFormat'
  | 'StoreLost'
  | 'StoreStopped';

/** The change log no longer reaches back that far. A client lists again and goes on from there. */
export class CompactedError extends MountletError {
  readonly reason = 'Compacted';
  readonly revision: number;
  readonly compactedRevision: number;

  constructor(revision: number, compactedRevision: number) {
    super(
      `Cannot go back to revision ${revision}: changes up to ${compactedRevision} are no longer kept; list the objects again`,
    );
    this.revision = revision;
    this.compactedRevision = compactedRevision;
  }
}

export class FutureRevisionError extends MountletError {
  readonly reason = 'FutureRevision';
  readonly revision: number;
  readonly currentRevision: number;

  constructor(revision: number, currentRevision: number) {
    super(`Cannot show revision ${revision}: the store is at ${currentRevision}; ask again later`);
    this.revision = revision;
    this.currentRevision = currentRevision;
  }
}

export function damagedValue(key: string, why: string): StoreError {
  return new StoreError(
    'DamagedValue',
    `Cannot read "${key}" from the store: ${why}; give the key it was encrypted with, or restore a backup`,
  );
}

/** Names the first few of what could not be read; a lost key would name thousands. */
export function storeDamaged(
  directory: string,
  damaged: readonly { readonly key: string; readonly reason: string }[],
): StoreError {
  const named = damaged.slice(0, namedMax).map(({ key, reason }) => `"${key}": ${reason}`);
  const more = damaged.length > namedMax ? `; and ${damaged.length - namedMax} more` : '';
  return new StoreError(
    'StoreDamaged',
    `Cannot read all of "${directory}", the rest is served: ${named.join('; ')}${more}; ` +
      'stop and give the keys it was encrypted with, or restore a backup: mountlet apiserver restore FILE --data DIR',
  );
}

const namedMax = 5;

/** A commit did not reach the disk. None of its writes happened. */
export function commitFailed(why: string, options?: ErrorOptions): StoreError {
  return new StoreError(
    'CommitFailed',
    `Cannot write to the store: ${why}; nothing was changed, check the disk and try again`,
    options,
  );
}

/** Deletions are still taken: they have a reserve. */
export class DiskFullError extends MountletError {
  readonly reason = 'DiskFull';

  constructor(options?: ErrorOptions) {
    super(
      "the disk of the API server's store is full: nothing was changed; free some room on it and try again (deleting objects still works)",
      options,
    );
  }
}

/** It is unknown what is on disk, so nothing more is built on it. */
export function storeStopped(options?: ErrorOptions): StoreError {
  return new StoreError(
    'StoreStopped',
    'Cannot write to the store: a failed write may have reached the disk in part; check the disk and restart',
    options,
  );
}

export class StoreClosedError extends MountletError {
  readonly reason = 'StoreClosed';

  constructor() {
    super('Cannot write to the store: it is closed');
  }
}

export class StoreFullError extends MountletError {
  readonly reason = 'StoreFull';

  constructor(key: string, bytesMax: number) {
    super(
      `Cannot store "${key}": the store holds its maximum of ${bytesMax} bytes; delete objects, or raise the limit`,
    );
  }
}

export class StoreBusyError extends MountletError {
  readonly reason = 'StoreBusy';

  constructor(waiting: number) {
    super(`Cannot take another write: ${waiting} wait for the disk already; try again later`);
  }
}

export function invalidKey(key: string, why: string): StoreError {
  return new StoreError('InvalidKey', `Cannot use "${key.slice(0, 100)}" as a key of the store: ${why}`);
}

export function unreadableStore(directory: string, why: string, options?: ErrorOptions): StoreError {
  return new StoreError(
    'StoreFormat',
    `Cannot open the store in "${directory}": ${why}; ${restoreAdvice(directory)}`,
    options,
  );
}

/** The store is sound, but has been further than it is now. */
export function storeLost(directory: string, marker: string, revision: number, reached: number): StoreError {
  const what = revision === 0 ? 'it is empty' : `it ends at revision ${revision}`;
  return new StoreError(
    'StoreLost',
    `Cannot open the store in "${directory}": ${what}, and has been at revision ${reached}; ${restoreAdvice(directory)}; ` +
      `or remove "${marker}" to go on without what is missing`,
  );
}

function restoreAdvice(directory: string): string {
  return `move it away and restore a backup: mountlet apiserver restore FILE --data "${dirname(directory)}"`;
}

export function restoreFailed(target: string, why: string, options?: ErrorOptions): StoreError {
  return new StoreError('RestoreFailed', `Cannot restore a backup to "${target}": ${why}`, options);
}

export function backupFailed(directory: string, why: string, options?: ErrorOptions): StoreError {
  return new StoreError('BackupFailed', `Cannot back up "${directory}": ${why}`, options);
}
