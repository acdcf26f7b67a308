/** When a pod is looked at again after a step of its worker, if nothing happens before that. */
import { jittered } from '../../base/back-off.ts';
import { RetryAtError } from '../containers/start-errors.ts';

export type StepOutcome =
  | { readonly kind: 'movedOn' }
  | { readonly kind: 'done'; readonly againAtMs: number | undefined }
  | { readonly kind: 'failed'; readonly error: unknown };

export interface RequeueSettings {
  /** `syncFrequency`: 60 s. */
  readonly resyncMs: number;
  /** 10 s: long enough that a pod that cannot start costs nothing, short enough that a user who mends it sees it start. */
  readonly retryMs: number;
}

export function requeueDelayMs(
  outcome: StepOutcome,
  { resyncMs, retryMs }: RequeueSettings,
  nowMs: number,
  random: () => number,
): number {
  switch (outcome.kind) {
    case 'movedOn':
      return 0;
    case 'done': {
      const delay = jittered(resyncMs, 0.5, random);
      return outcome.againAtMs === undefined ? delay : Math.min(delay, Math.max(outcome.againAtMs - nowMs, 0));
    }
    case 'failed': {
      const { error } = outcome;
      const retryAtMs = earliestRetry(error);
      const delay = retryAtMs === undefined ? retryMs : Math.max(retryAtMs - nowMs, 0);
      return jittered(Math.min(delay, resyncMs), 0.5, random);
    }
  }
}

function earliestRetry(error: unknown): number | undefined {
  if (error instanceof RetryAtError) return error.retryAtMs;
  if (error instanceof AggregateError) {
    const times = error.errors.flatMap((one) => earliestRetry(one) ?? []);
    return times.length === 0 ? undefined : Math.min(...times);
  }
  return error instanceof Error && error.cause !== undefined ? earliestRetry(error.cause) : undefined;
}
