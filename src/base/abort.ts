/** Abort signals that thousands may share, as that of a node. Nothing else in the program adds an abort listener. */
import { setMaxListeners } from 'node:events';

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
