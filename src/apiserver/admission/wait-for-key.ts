/** Waits for an object to appear, for a while. */
import type { Clock } from '../../base/clock.ts';
import type { Store } from '../store/store.ts';

export async function waitForKey(
  { store, clock }: { readonly store: Pick<Store, 'get' | 'subscribe'>; readonly clock: Clock },
  key: string,
  waitMs: number,
  signal: AbortSignal,
): Promise<void> {
  if (store.get(key) !== undefined) return;
  const done = new AbortController();
  const finish = (): void => done.abort();
  const stop = store.subscribe((changes) => {
    if (changes.some((change) => change.key === key)) finish();
  });
  signal.addEventListener('abort', finish, { once: true });
  try {
    await clock.sleep(waitMs, done.signal).catch(() => {});
  } finally {
    stop();
    signal.removeEventListener('abort', finish);
  }
}
