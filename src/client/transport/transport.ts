/**
 * One request and its answer, whatever the connection speaks. The answer is pushed and never paused: on HTTP/2 a reader that
 * holds up its stream holds up all other watches on the connection.
 */
import { MountletError, errorCode, messageOf } from '../../base/errors.ts';

/** A client certificate. */
export interface TlsIdentity {
  readonly certificatePem: string;
  readonly keyPem: string;
}

export function isSameIdentity(one: TlsIdentity | undefined, other: TlsIdentity | undefined): boolean {
  return one?.certificatePem === other?.certificatePem && one?.keyPem === other?.keyPem;
}

export interface HttpRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: Buffer;
  /** A watch: it takes a stream for minutes, so that one must stay free for the short ones. */
  readonly isLongLived: boolean;
  /** The certificate that the connection must have shown. */
  readonly identity?: TlsIdentity | undefined;
}

export interface HttpHead {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** Gets `head` at most once, then any `data`, then exactly one of `end` and `failed`. */
export interface HttpSink {
  head(head: HttpHead): void;
  data(chunk: Buffer): void;
  /** The answer is complete: nothing was cut off. */
  end(): void;
  failed(error: unknown): void;
}

export interface Transport {
  /**
   * Resolves when the request is on its way; from then on the sink is called. Rejects, and does not call the sink,
   * when there was no connection. An abort ends either, the latter by `failed` with the signal's reason.
   */
  send(request: HttpRequest, sink: HttpSink, signal: AbortSignal): Promise<void>;
  /** Waits before something is tried again: for no longer than this, and not after a server that was away is back. */
  pause(ms: number, signal: AbortSignal): Promise<void>;
  /** Calls the listener each time that a server which was away is back. */
  onReturn(listener: () => void): void;
  /** Ends every connection and whatever is open on it. */
  close(): Promise<void>;
}

/** A failure without a class of its own: only its reason differs. No header and no body is ever in a message. */
export class ClientError extends MountletError {
  readonly reason: string;

  constructor(reason: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

export function unreadableAnswer(what: string, problem: string): ClientError {
  return new ClientError('AnswerUnreadable', `Cannot read the API server's answer to "${what}": ${problem}`);
}

export class ConnectionFailedError extends MountletError {
  readonly reason = 'ConnectionFailed';
  /** Nothing listens there: the server is down or starting, and what we know of it stays true. */
  readonly isRefused: boolean;

  constructor(server: string, cause: unknown) {
    const isRefused = errorCode(cause) === 'ECONNREFUSED';
    const why = isRefused ? 'nothing listens there' : messageOf(cause) || (errorCode(cause) ?? 'no reason given');
    super(`Cannot connect to "${server}": ${why}`, { cause });
    this.isRefused = isRefused;
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

export class ClientClosedError extends MountletError {
  readonly reason = 'ClientClosed';
  constructor() {
    super('Cannot send a request: the API client is closed');
  }
}
