/**
 * Background work with an owner: a failure is reported and the work restarts after a growing delay. Only for work whose
 * failure harms nothing else. A loop that may leave shared state half changed runs without this, and its failure ends the
 * process: containers keep running, and the next start adopts them.
 */
import { setMaxListeners } from 'node:events';
import { onAbort } from './abort.ts';
import { BackOff } from './back-off.ts';
import type { Clock } from './clock.ts';

export interface TaskFailed {
  readonly kind: 'TaskFailed';
  /** What was being done: `the lease of the node`. */
  readonly task: string;
  readonly error: unknown;
  readonly retryMs: number;
}

export interface TaskDeps {
  readonly clock: Clock;
  readonly notify: (notice: TaskFailed) => void;
}

/** Work that ran for this long before it failed starts with the shortest delay again. */
const steadyMs = 60_000;

/** Resolves when the body returns or the signal aborts. Never rejects. */
export async function runTask(
  task: string,
  body: (signal: AbortSignal) => Promise<void>,
  { clock, notify }: TaskDeps,
  signal: AbortSignal,
): Promise<void> {
  const backOff = new BackOff({ firstMs: 100, msMax: 30_000 });
  while (!signal.aborted) {
    const startedAt = clock.now();
    try {
      return await body(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (clock.now() - startedAt >= steadyMs) backOff.reset();
      const retryMs = backOff.next();
      notify({ kind: 'TaskFailed', task, error, retryMs });
      await clock.sleep(retryMs, signal).catch(() => {});
    }
  }
}

export type Task = (signal: AbortSignal) => Promise<void>;

/** They live and end together: the first that fails ends the others, and all are awaited. */
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
      // An error after the abort is not a failure.
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
