/** A patch that was refused. The request's handler makes a Status of it; the message is the one the API server uses. */
import { MountletError } from '../../base/errors.ts';

type PatchErrorKind =
  /** The patch itself makes no sense: 400. */
  | 'malformed'
  /** The patch cannot be applied to this object: 422. */
  | 'invalid'
  /** 413. */
  | 'tooLarge';

export class PatchError extends MountletError {
  readonly reason = 'PatchRefused';
  readonly kind: PatchErrorKind;
  /** What was wrong, where the API server's message does not say it. */
  readonly detail: string | undefined;

  constructor(kind: PatchErrorKind, message: string, detail?: string) {
    super(message);
    this.kind = kind;
    this.detail = detail;
  }
}

/** The API server answers many failures with this one sentence and keeps the reason to itself. */
export function cannotApply(detail: string): PatchError {
  return new PatchError('invalid', 'the server rejected our request due to an error in our request', detail);
}
