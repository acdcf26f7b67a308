/** Listening to a signal that many others listen to as well. */
import { setMaxListeners } from 'node:events';

/** Answers how to stop listening. A signal of a node is shared by thousands of watches, which node would take for a leak. */
export function onAbort(signal: AbortSignal, act: () => void): () => void {
  setMaxListeners(0, signal);
  signal.addEventListener('abort', act, { once: true });
  return () => signal.removeEventListener('abort', act);
}
