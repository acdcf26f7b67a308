/** Waits until the store has reached a revision that a client has heard of, for a short while. */
import type { Clock } from '../../base/clock.ts';
import { versionTooLarge } from '../status.ts';
import type { Store } from '../store/store.ts';

const waitMs = 3000;

/** Rejects with the API's "Too large resource version". */
export async function waitForRevision(
  store: Pick<Store, 'revision' | 'subscribe'>,
  revision: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  if (store.revision >= revision) return;
  const done = new AbortController();
  const stop = store.subscribe(() => {
    if (store.revision >= revision) done.abort();
  });
  const onAbort = (): void => done.abort();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await clock.sleep(waitMs, done.signal).catch(() => {});
  } finally {
    stop();
    signal.removeEventListener('abort', onAbort);
  }
  signal.throwIfAborted();
  if (store.revision < revision) throw versionTooLarge(BigInt(revision), store.revision);
}
