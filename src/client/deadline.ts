/** A time limit on the injected clock, for whatever takes a signal. */
import type { Clock } from '../base/clock.ts';

/**
 * Gives `act` a signal that aborts with the outer one, or with `late()` when the time is over. The outer signal may live as long
 * as the program, so nothing stays attached to it.
 */
export async function withDeadline<T>(
  clock: Clock,
  timeoutMs: number,
  late: () => Error,
  signal: AbortSignal,
  act: (limited: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const limit = new AbortController();
  const finished = new AbortController();
  const onAbort = (): void => limit.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const timer = clock.sleep(timeoutMs, finished.signal).then(
    () => limit.abort(late()),
    () => {},
  );
  try {
    return await act(limit.signal);
  } finally {
    signal.removeEventListener('abort', onAbort);
    finished.abort();
    limit.abort(); // whatever of it is still under way is no longer wanted
    await timer;
  }
}
