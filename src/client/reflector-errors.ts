/** Why a reflector begins again, in the words of the kubelet where it has some. */
import { MountletError, messageOf } from '../base/errors.ts';
import { ExpiredError, TooManyRequestsError, isVersionTooLarge } from './api-errors.ts';
import { ConnectionFailedError, ConnectionLostError } from './transport-errors.ts';
import { WatchCutError, WatchOverflowError, WatchStalledError } from './watch-stream.ts';

export class ListFailedError extends MountletError {
  readonly reason = 'ListFailed';
  constructor(what: string, cause: unknown) {
    super(`failed to list ${what}: ${messageOf(cause)}`, { cause });
  }
}

/** A watch that ends sooner without a word is no watch: a server that does this is asked again only after a while. */
export const veryShortMs = 1_000;

export class VeryShortWatchError extends MountletError {
  readonly reason = 'VeryShortWatch';
  constructor(what: string) {
    super(`very short watch: ${what}: Unexpected watch close - watch lasted less than a second and no items received`);
  }
}

export class InitialEventsMissingError extends MountletError {
  readonly reason = 'InitialEventsMissing';
  constructor(what: string, silentMs: number, hasEvents: boolean) {
    const seconds = `${silentMs / 1000}s`;
    super(
      hasEvents
        ? `${what}: hasn't received required bookmark event marking the end of initial events stream, received last event ${seconds} ago`
        : `${what}: awaiting required bookmark event for initial events stream, no events received for ${seconds}`,
    );
  }
}

/** Nothing is wrong with what we know: the server is away for a moment, or has too much to do. */
export function isWorthWaiting(error: unknown): boolean {
  return error instanceof TooManyRequestsError || (error instanceof ConnectionFailedError && error.isRefused);
}

export function retryAfterMs(error: unknown): number {
  return error instanceof TooManyRequestsError ? (error.retryAfterMs ?? 0) : 0;
}

export function isUnavailable(error: unknown): boolean {
  return error instanceof ExpiredError || isVersionTooLarge(error);
}

/** The stream is gone, but every change until then was read: it goes on at the last version. */
export function isClosing(error: unknown): boolean {
  return (
    error instanceof ConnectionLostError ||
    error instanceof WatchCutError ||
    error instanceof WatchOverflowError ||
    error instanceof WatchStalledError
  );
}
