import { MountletError } from '../../base/errors.ts';

/** Not now, but at a known time: a container in its back-off. */
export class RetryAtError extends MountletError {
  readonly reason: string;
  readonly retryAtMs: number;

  constructor(reason: string, message: string, retryAtMs: number) {
    super(message);
    this.reason = reason;
    this.retryAtMs = retryAtMs;
  }
}
