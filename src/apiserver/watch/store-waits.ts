/** Waits for the store: until it has reached a revision that a client knows of, or until an object is there. */
import type { Clock } from '../../base/clock.ts';
import { onAbort } from '../../base/abort.ts';
import { versionTooLarge } from '../model/status.ts';
import type { Store } from '../store/store.ts';

const revisionWaitMs = 3000;

/** Rejects with the API's "Too large resource version". */
export async function waitForRevision(
  store: Pick<Store, 'revision' | 'subscribe'>,
  revision: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  await waitUntil(store, () => store.revision >= revision, revisionWaitMs, clock, signal);
  signal.throwIfAborted();
  if (store.revision < revision) throw versionTooLarge(BigInt(revision), store.revision);
}

/** Returns when `isReached`, when the time is up, and when the signal aborts: the caller looks what it was. */
export async function waitUntil(
  store: Pick<Store, 'subscribe'>,
  isReached: () => boolean,
  waitMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  if (isReached()) return;
  const done = new AbortController();
  const unsubscribe = store.subscribe(() => {
    if (isReached()) done.abort();
  });
  const forget = onAbort(signal, () => done.abort());
  await clock.sleep(waitMs, done.signal).catch(() => {});
  forget();
  unsubscribe();
}
