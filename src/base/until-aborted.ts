/** Resolves when the signal aborts: all the work of those who have nothing to do in the background. */
import { onAbort } from './on-abort.ts';

export function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => void onAbort(signal, resolve));
}
