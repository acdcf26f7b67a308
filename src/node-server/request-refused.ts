/** What the node answers when it does not do what it was asked: a code and plain text, as API servers expect of a node. */
import { MountletError } from '../base/errors.ts';

export class RequestRefused extends MountletError {
  readonly reason = 'NodeRequestRefused';
  readonly code: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.code = code;
    this.headers = headers;
  }
}
