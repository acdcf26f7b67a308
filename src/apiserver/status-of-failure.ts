/** What a client is told when something failed that is not its fault: the store is busy, full or closed, or there is a bug. */
import { messageOf } from '../base/errors.ts';
import {
  CommitError,
  DamagedValueError,
  DiskFullError,
  StoreBusyError,
  StoreClosedError,
  StoreFullError,
  StoreStoppedError,
} from './store/store-errors.ts';
import { StatusError, internalError, tooManyRequests, unavailable } from './status.ts';

export function statusOfFailure(error: unknown): StatusError {
  if (error instanceof StoreBusyError) return tooManyRequests('Too many requests, please try again later.', 1);
  if (error instanceof StoreClosedError) return unavailable();
  if (error instanceof DiskFullError || error instanceof StoreFullError) {
    return new StatusError(507, 'InsufficientStorage', error.message);
  }
  if ([CommitError, DamagedValueError, StoreStoppedError].some((known) => error instanceof known)) {
    return internalError(messageOf(error));
  }
  // The message of an unexpected error may quote what it was working on, and that may be a Secret.
  return internalError(error instanceof Error ? `unexpected ${error.name}` : 'unexpected failure');
}
