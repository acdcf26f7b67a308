/** Why the files of a volume cannot be told, in the kubelet's words. No text here ever holds a file's content. */
import { MountletError } from '../base/errors.ts';

export class PayloadError extends MountletError {
  readonly reason: string = 'InvalidPayload';
}

/** A field of the pod's volume cannot be honoured; it bypassed the API's own checks. */
export class DefaultModeMissingError extends PayloadError {
  override readonly reason = 'DefaultModeMissing';
  constructor() {
    super('no defaultMode used, not even the default value for it');
  }
}

export class KeyMissingError extends PayloadError {
  override readonly reason = 'KeyMissing';
}

/** Several sources of one volume failed. */
class CombinedError extends PayloadError {
  readonly errors: readonly Error[];
  constructor(message: string, errors: readonly Error[]) {
    super(message, { cause: errors[0] });
    this.errors = errors;
  }
}

/**
 * One error that tells of all: the text alone when all say the same, else `[a, b]` with every text once. An error that
 * is not one of ours is a bug or an abort and must not be hidden in a list: it is returned as it is.
 */
export function combineErrors(errors: readonly [unknown, ...unknown[]]): unknown {
  const ours = errors.filter((error) => error instanceof MountletError);
  if (ours.length < errors.length) return errors.find((error) => !(error instanceof MountletError));
  if (ours.length === 1) return ours[0];
  const flat = ours.flatMap((error) => (error instanceof CombinedError ? error.errors : [error]));
  const texts = [...new Set(flat.map(({ message }) => message))];
  return new CombinedError(texts.length === 1 ? texts.join() : `[${texts.join(', ')}]`, flat);
}
