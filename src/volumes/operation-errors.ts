/** Why an operation failed, or was not even started. The texts are the kubelet's. */
import { AssertionError } from 'node:assert';
import { MountletError, messageOf } from '../base/errors.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { goTime, showDuration } from '../kube/values/times.ts';

/** What an operation is about. An empty part stands for all: `{ volume, podUid: '', node: '' }` is the whole volume. */
export interface OperationKey {
  readonly volume: string;
  readonly podUid: string;
  readonly node: string;
}

/** Something else is going on with the same volume; it is tried again when that is over. */
export class AlreadyExecutingError extends MountletError {
  readonly reason = 'OperationRunning';
  constructor(key: OperationKey) {
    super(`Failed to create operation with name ${keyText(key)}. An operation with that name is already executing.`);
  }
}

interface FailedBefore {
  readonly failedAt: number;
  readonly delayMs: number;
  readonly lastError: string;
}

/** It failed a moment ago; it is tried again when the time is over. */
export class BackOffError extends MountletError {
  readonly reason = 'OperationBackingOff';
  constructor(key: OperationKey, { failedAt, delayMs, lastError }: FailedBefore) {
    super(
      `Failed to create operation with name ${goQuote(keyText(key))}. An operation with that name failed at ` +
        `${goTime(failedAt)}. No retries permitted until ${goTime(failedAt + delayMs)} (${showDuration(delayMs)}). ` +
        `Last error: ${goQuote(lastError)}.`,
    );
  }
}

export function noRetriesMessage(key: OperationKey, { failedAt, delayMs, lastError }: FailedBefore): string {
  return (
    `Operation for ${goQuote(keyText(key))} failed. No retries permitted until ${goTime(failedAt + delayMs)} ` +
    `(durationBeforeRetry ${showDuration(delayMs)}). Error: ${lastError}`
  );
}

/** A bug in an operation or a plugin. It is told with its stack and costs only the volume it happened to. */
export class OperationPanicError extends MountletError {
  readonly reason = 'OperationPanic';
  constructor(thrown: unknown) {
    const stack = thrown instanceof Error ? (thrown.stack ?? '') : '';
    super(`recovered from panic ${goQuote(String(thrown))}. (err=${messageOf(thrown)}) Call stack:\n${stack}`, {
      cause: thrown,
    });
  }
}

/** Whether this can only come from a mistake in the program. */
export function isPanic(thrown: unknown): boolean {
  if (!(thrown instanceof Error)) return true;
  return [TypeError, RangeError, ReferenceError, SyntaxError, AssertionError].some((bug) => thrown instanceof bug);
}

/** The operation did not end in time and was told to stop. */
export class OperationTimeoutError extends MountletError {
  readonly reason = 'OperationTimeout';
  constructor(name: string, timeoutMs: number) {
    super(`operation ${name} did not finish within ${showDuration(timeoutMs)}: context deadline exceeded`);
  }
}

function keyText({ volume, podUid, node }: OperationKey): string {
  return `{volumeName:${volume} podName:${podUid} nodeName:${node}}`;
}
