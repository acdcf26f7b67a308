/** The general error of src/kube. */
import { MountletError } from '../../base/errors.ts';

/** A value of an object that cannot be used. The reason distinguishes the cases; one that is caught has a class of its own. */
export class KubeError extends MountletError {
  readonly reason: string;

  constructor(reason: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}
