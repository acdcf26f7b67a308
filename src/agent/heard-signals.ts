import { setImmediate } from 'node:timers/promises';

/**
 * Lets the process hear what it was sent, and throws if that was to stop. Files are written synchronously, which is
 * faster, and a loop that only awaits such work never comes back to where signals arrive.
 */
export async function heardSignals(signal: AbortSignal): Promise<void> {
  await setImmediate();
  signal.throwIfAborted();
}
