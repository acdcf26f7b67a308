/** Why a pod's token cannot be had, in the kubelet's words. No token is ever in a message. */
import { MountletError, messageOf } from '../base/errors.ts';

export class TokenFetchError extends MountletError {
  readonly reason = 'TokenFetchFailed';

  constructor(cause: unknown) {
    super(`failed to fetch token: ${messageOf(cause)}`, { cause });
  }
}

export class TokenExpiredError extends MountletError {
  readonly reason = 'TokenExpired';

  constructor(key: string, cause: unknown) {
    super(`token ${key} expired and refresh failed: ${messageOf(cause)}`, { cause });
  }
}

export class TokenRequestsUnsupportedError extends MountletError {
  readonly reason = 'TokenRequestsUnsupported';

  constructor(options?: ErrorOptions) {
    super('the API server does not have TokenRequest endpoints enabled', options);
  }
}

/** There is no API server to ask. */
export class StandaloneTokenError extends MountletError {
  readonly reason = 'Standalone';

  constructor() {
    super('cannot use TokenManager when kubelet is in standalone mode');
  }
}

export class TokenAnswerError extends MountletError {
  readonly reason = 'TokenAnswerWrong';

  constructor(missing: string) {
    super(`the API server's answer to a TokenRequest has no ${missing}`);
  }
}
