/** Abort signals that thousands may share, as that of a node. Nothing else in the program adds an abort listener. */
import { setMaxListeners } from 'node:events';
import type { Clock } from './clock.ts';

/**
 * Acts once when the signal aborts; at no time if it has aborted before. Returns how to stop listening. Node would report
 * more than ten listeners on one signal as a leak.
 */
export function onAbort(signal: AbortSignal, act: () => void): () => void {
  setMaxListeners(0, signal);
  signal.addEventListener('abort', act, { once: true });
  return () => signal.removeEventListener('abort', act);
}

/** Resolves when the signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => void onAbort(signal, resolve));
}

/** Rejects with the signal's reason when that comes first. For work that others wait for too: it goes on, and nothing stays attached. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  let stopListening = (): void => {};
  const aborted = new Promise<never>((_resolve, reject) => {
    stopListening = onAbort(signal, () => reject(signal.reason as Error));
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    stopListening();
  }
}

// A reason of our own, because making the usual one, an exception with its stack, costs more than all the rest here.
const over = 'over';

/**
 * A time limit on the injected clock. Gives `act` a signal that aborts with the outer one, or with `late()` when the time is
 * over. The outer signal may live as long as the program, so nothing stays attached to it.
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
  const stopListening = onAbort(signal, () => limit.abort(signal.reason));
  const timer = clock.sleep(timeoutMs, finished.signal).then(
    () => limit.abort(late()),
    () => {},
  );
  try {
    return await act(limit.signal);
  } finally {
    stopListening();
    finished.abort(over);
    limit.abort(over); // ends what is still under way
    await timer;
  }
}

/** Waits no longer than this for what cannot be stopped, and goes on without it: undefined. */
export async function within<T>(clock: Clock, timeoutMs: number, running: Promise<T>): Promise<T | undefined> {
  const finished = new AbortController();
  const late = clock.sleep(timeoutMs, finished.signal).then(
    () => undefined,
    () => undefined,
  );
  try {
    return await Promise.race([running, late]);
  } finally {
    finished.abort(over);
  }
}
