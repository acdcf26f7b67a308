/** Tasks that live and end together: the first that fails ends the others, and all are awaited. */
export async function runTogether(
  tasks: readonly ((signal: AbortSignal) => Promise<void>)[],
  signal: AbortSignal,
): Promise<void> {
  const stop = new AbortController();
  const abort = (): void => stop.abort(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  const running = tasks.map(async (task) => {
    try {
      await task(stop.signal);
    } catch (error) {
      // What ends because it was told to is no failure.
      if (stop.signal.aborted) return;
      stop.abort(error);
      throw error;
    }
  });
  try {
    await Promise.all(running);
  } finally {
    await Promise.allSettled(running);
    signal.removeEventListener('abort', abort);
  }
}
