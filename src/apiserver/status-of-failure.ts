/** What a client is told when something failed that is not its fault: the store is busy, full or closed, or there is a bug. */
import { DamagedValueError, StoreBusyError, StoreClosedError, StoreFullError } from './store/store-errors.ts';
import type { StatusError } from './status.ts';
import { internalError, tooManyRequests, unavailable } from './status.ts';

export function statusOfFailure(error: unknown): StatusError {
  if (error instanceof StoreBusyError) return tooManyRequests('Too many requests, please try again later.', 1);
  if (error instanceof StoreClosedError) return unavailable();
  if (error instanceof StoreFullError || error instanceof DamagedValueError) return internalError(error.message);
  // The message of an unexpected error may quote what it was working on, and that may be a Secret.
  return internalError(error instanceof Error ? `unexpected ${error.name}` : 'unexpected failure');
}
