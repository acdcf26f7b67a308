/** What goes wrong between us and the API server, before or instead of an answer. No header and no body is ever in a message. */
import { MountletError, errorCode, messageOf } from '../base/errors.ts';

export class ConnectionFailedError extends MountletError {
  readonly reason = 'ConnectionFailed';
  /** Nobody listens there: the server is down or starting, and what we know of it stays true. */
  readonly isRefused: boolean;

  constructor(server: string, cause: unknown) {
    super(`Cannot connect to "${server}": ${messageOf(cause) || (errorCode(cause) ?? 'no reason given')}`, { cause });
    this.isRefused = errorCode(cause) === 'ECONNREFUSED';
  }
}

export class ConnectionLostError extends MountletError {
  readonly reason = 'ConnectionLost';
  /** The server said that it did not look at the request, so that any request may be sent again. */
  readonly isUnprocessed: boolean;

  constructor(text: string, { isUnprocessed = false, cause }: { isUnprocessed?: boolean; cause?: unknown } = {}) {
    super(text, { cause });
    this.isUnprocessed = isUnprocessed;
  }
}

export class RequestTimedOutError extends MountletError {
  readonly reason = 'RequestTimedOut';
  constructor(what: string, timeoutMs: number) {
    super(`The API server did not answer "${what}" within ${timeoutMs / 1000} s`);
  }
}

export class AnswerUnreadableError extends MountletError {
  readonly reason = 'AnswerUnreadable';
  constructor(what: string, problem: string) {
    super(`Cannot read the API server's answer to "${what}": ${problem}`);
  }
}

export class TooManyConnectionsError extends MountletError {
  readonly reason = 'TooManyConnections';
  constructor(server: string, connections: number) {
    super(`Cannot open more than ${connections} connections to "${server}": watch fewer objects`);
  }
}

export class ClientClosedError extends MountletError {
  readonly reason = 'ClientClosed';
  constructor() {
    super('Cannot send a request: the API client is closed');
  }
}
