import { MountletError } from '../../base/errors.ts';

/** A probe or a hook cannot be carried out as it is written. */
export class HandlerError extends MountletError {
  readonly reason = 'HandlerFailed';
}
