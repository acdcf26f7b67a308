import { MountletError } from '../../base/errors.ts';

/** Why a container does not run: reason and message are those of its waiting state. */
export class ContainerStartError extends MountletError {
  readonly reason: string;

  constructor(reason: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}
