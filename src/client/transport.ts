/**
 * One request and its answer, whatever the connection speaks. The answer is pushed and never paused: on HTTP/2 a reader that
 * holds up its stream holds up the watches of everybody else on the connection.
 */
import type { TlsIdentity } from './credentials.ts';

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

/** Hears `head` at most once, then any `data`, then exactly one of `end` and `failed`. */
export interface HttpSink {
  head(head: HttpHead): void;
  data(chunk: Buffer): void;
  /** The answer is complete: nothing was cut off. */
  end(): void;
  failed(error: unknown): void;
}

export interface Transport {
  /**
   * Resolves when the request is on its way; from then on the sink hears everything. Rejects, and leaves the sink alone,
   * when there was no connection. An abort ends either, the latter by `failed` with the signal's reason.
   */
  send(request: HttpRequest, sink: HttpSink, signal: AbortSignal): Promise<void>;
  /** Waits before something is tried again: for no longer than this, and not after a server that was away is back. */
  pause(ms: number, signal: AbortSignal): Promise<void>;
  /** Hears each time that a server which was away is back. */
  onReturn(listener: () => void): void;
  /** Ends every connection and whatever is open on it. */
  close(): Promise<void>;
}
