/** Tasks that live and end together: the first that fails ends the others, and all are awaited. */
import { setMaxListeners } from 'node:events';
import { onAbort } from '../../base/abort.ts';

type Task = (signal: AbortSignal) => Promise<void>;

export async function runTogether(tasks: readonly Task[], signal: AbortSignal): Promise<void> {
  const stop = new AbortController();
  // Every pod, watch and container listens to it; Node takes more than ten for a leak.
  setMaxListeners(0, stop.signal);
  const abort = (): void => stop.abort(signal.reason);
  const stopListening = onAbort(signal, abort);
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
    stopListening();
  }
}

/** Three stages that end one after the other, from the first to the last; whichever fails ends all. */
export async function inOrder(
  first: readonly Task[],
  then: readonly Task[],
  last: Task,
  signal: AbortSignal,
): Promise<void> {
  const [stopThen, stopLast, failed] = [new AbortController(), new AbortController(), new AbortController()];
  const until = (stop: AbortSignal): AbortSignal => AbortSignal.any([stop, failed.signal]);
  const guard = async (stage: Promise<void>): Promise<void> => {
    try {
      await stage;
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  };
  const stages = [
    guard(runTogether(first, until(signal))).finally(() => stopThen.abort()),
    guard(runTogether(then, until(stopThen.signal))).finally(() => stopLast.abort()),
    guard(last(until(stopLast.signal))),
  ];
  await Promise.allSettled(stages);
  await Promise.all(stages);
}
