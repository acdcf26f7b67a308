/** What a store refuses or cannot do. Keys are named in the messages, values never. */
import { dirname } from 'node:path';
import { MountletError } from '../../base/errors.ts';

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

export class DamagedValueError extends MountletError {
  readonly reason = 'DamagedValue';
  readonly key: string;

  constructor(key: string, why: string) {
    super(`Cannot read "${key}" from the store: ${why}; give the key it was encrypted with, or restore a backup`);
    this.key = key;
  }
}

/** Names the first few of what could not be read; a lost key would name thousands. */
export class StoreDamagedError extends MountletError {
  readonly reason = 'StoreDamaged';

  constructor(directory: string, damaged: readonly { readonly key: string; readonly reason: string }[]) {
    const named = damaged.slice(0, namedMax).map(({ key, reason }) => `"${key}": ${reason}`);
    const more = damaged.length > namedMax ? `; and ${damaged.length - namedMax} more` : '';
    super(
      `Cannot read all of "${directory}", the rest is served: ${named.join('; ')}${more}; ` +
        'stop and give the keys it was encrypted with, or restore a backup: mountlet apiserver restore FILE --data DIR',
    );
  }
}

const namedMax = 5;

/** A commit did not reach the disk. None of its writes happened. */
export class CommitError extends MountletError {
  readonly reason = 'CommitFailed';

  constructor(why: string, options?: ErrorOptions) {
    super(`Cannot write to the store: ${why}; nothing was changed, check the disk and try again`, options);
  }
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
export class StoreStoppedError extends MountletError {
  readonly reason = 'StoreStopped';

  constructor(options?: ErrorOptions) {
    super(
      'Cannot write to the store: a failed write may have reached the disk in part; check the disk and restart',
      options,
    );
  }
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

export class InvalidKeyError extends MountletError {
  readonly reason = 'InvalidKey';

  constructor(key: string, why: string) {
    super(`Cannot use "${key.slice(0, 100)}" as a key of the store: ${why}`);
  }
}

export class StoreFormatError extends MountletError {
  readonly reason = 'StoreFormat';

  constructor(directory: string, why: string, options?: ErrorOptions) {
    super(`Cannot open the store in "${directory}": ${why}; ${restoreAdvice(directory)}`, options);
  }
}

/** The store is sound, but has been further than it is now. */
export class StoreLostError extends MountletError {
  readonly reason = 'StoreLost';

  constructor(directory: string, marker: string, revision: number, reached: number) {
    const what = revision === 0 ? 'it is empty' : `it ends at revision ${revision}`;
    super(
      `Cannot open the store in "${directory}": ${what}, and has been at revision ${reached}; ${restoreAdvice(directory)}; ` +
        `or remove "${marker}" to go on without what is missing`,
    );
  }
}

function restoreAdvice(directory: string): string {
  return `move it away and restore a backup: mountlet apiserver restore FILE --data "${dirname(directory)}"`;
}

export class RestoreError extends MountletError {
  readonly reason = 'RestoreFailed';

  constructor(target: string, why: string, options?: ErrorOptions) {
    super(`Cannot restore a backup to "${target}": ${why}`, options);
  }
}

export class BackupError extends MountletError {
  readonly reason = 'BackupFailed';

  constructor(directory: string, why: string, options?: ErrorOptions) {
    super(`Cannot back up "${directory}": ${why}`, options);
  }
}
