/**
 * Background work with an owner: a failure is reported and the work begins again, later each time. For work that only fails
 * itself. A loop whose failure may leave state that others rely on half changed runs without this, and its failure ends the
 * process: containers go on, and the next start adopts them.
 */
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

const retryMsFirst = 100;
const retryMsMax = 30_000;
/** Work that went well for this long before it failed starts with the shortest delay again. */
const steadyMs = 60_000;

/** Resolves when the body has come to its end, or the signal aborts. Never rejects. */
export async function runTask(
  task: string,
  body: (signal: AbortSignal) => Promise<void>,
  { clock, notify }: TaskDeps,
  signal: AbortSignal,
): Promise<void> {
  for (let retryMs = retryMsFirst; !signal.aborted; retryMs = Math.min(2 * retryMs, retryMsMax)) {
    const startedAt = clock.now();
    try {
      return await body(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (clock.now() - startedAt >= steadyMs) retryMs = retryMsFirst;
      notify({ kind: 'TaskFailed', task, error, retryMs });
    }
    await clock.sleep(retryMs, signal).catch(() => {});
  }
}
