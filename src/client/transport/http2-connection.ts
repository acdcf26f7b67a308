/**
 * One HTTP/2 connection: how many streams it has and may have, when it last received something, whether it takes more. Streams above the
 * server's limit would wait silently, so a sender checks `room` first.
 *
 *   open ──goaway, drain──▶ draining ──last stream ends──▶ closed      Invariant: `streams` counts every stream that
 *     └──────────────lost, destroy──────────────────────────▲         the server counts, until the server or we closed it.
 */
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2';
import type { Socket } from 'node:net';
import { onAbort } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { MountletError } from '../../base/errors.ts';
import { ConnectionLostError, type HttpRequest, type HttpSink } from './transport.ts';

// One large list must not hold up every watch of the connection until it is read.
const connectionWindowBytes = 16 * 1024 * 1024;
const streamWindowBytes = 1024 * 1024;
// In MB. The default of 10 is one list; beyond it node refuses streams that the server would take.
const sessionMemoryMax = 256;

export class Http2Connection {
  readonly #session: ClientHttp2Session;
  readonly #clock: Clock;
  readonly #changed: () => void;
  #streams = 0;
  #streamsMax = 0;
  #isDraining = false;
  #heardAt: number;
  #idleSince: number;
  #pingSentAt: number | undefined;

  /** `changed` is called when there may be more room, or none ever again. Use `opened` to wait until the limit is known. */
  constructor(origin: string, socket: Socket, clock: Clock, changed: (connection: Http2Connection) => void) {
    this.#clock = clock;
    this.#changed = () => changed(this);
    this.#heardAt = this.#idleSince = clock.now();
    this.#session = connect(origin, {
      createConnection: () => socket,
      maxSessionMemory: sessionMemoryMax,
      settings: { enablePush: false, initialWindowSize: streamWindowBytes },
    });
    this.#session.on('error', () => {}); // 'close' follows
    this.#session.on('connect', () => this.#session.setLocalWindowSize(connectionWindowBytes));
    this.#session.on('remoteSettings', ({ maxConcurrentStreams }) => {
      this.#heard();
      this.#streamsMax = maxConcurrentStreams ?? Infinity;
      this.#changed();
    });
    this.#session.on('goaway', () => this.drain());
    this.#session.on('close', () => {
      this.#isDraining = true;
      this.#changed();
    });
  }

  /** Resolves when the server has sent its limit, which it does first of all. */
  opened(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (act: () => void): void => {
        stopListening();
        this.#session.off('close', onClose).off('remoteSettings', onSettings);
        act();
      };
      const abandon = (): void => {
        this.destroy(new ConnectionLostError('The connection is no longer wanted'));
        settle(() => reject(signal.reason));
      };
      const onClose = (): void =>
        settle(() => reject(new ConnectionLostError('The API server closed the connection at once')));
      const onSettings = (): void => settle(resolve);
      const stopListening = onAbort(signal, abandon);
      if (signal.aborted) return abandon();
      this.#session.once('close', onClose).once('remoteSettings', onSettings);
    });
  }

  get isClosed(): boolean {
    return this.#session.destroyed;
  }

  get takesMore(): boolean {
    return !this.#isDraining && !this.#session.closed && !this.#session.destroyed;
  }

  get streams(): number {
    return this.#streams;
  }

  get streamsMax(): number {
    return this.#streamsMax;
  }

  /** How many more streams it takes. */
  get room(): number {
    return this.takesMore ? Math.max(0, this.#streamsMax - this.#streams) : 0;
  }

  send(request: HttpRequest, sink: HttpSink, signal: AbortSignal): void {
    let stream: ClientHttp2Stream;
    try {
      stream = this.#session.request(
        { ...request.headers, ':method': request.method, ':path': request.path },
        { endStream: request.body === undefined },
      );
    } catch (cause) {
      const error = new ConnectionLostError('The connection to the API server was closed', {
        isUnprocessed: true,
        cause,
      });
      queueMicrotask(() => sink.failed(error));
      return;
    }
    this.#streams += 1;
    if (request.body !== undefined) stream.end(request.body);
    let hasHead = false;
    let isComplete = false;
    let failure: unknown;
    const cancel = (): void => stream.close(constants.NGHTTP2_CANCEL);
    const stopListening = onAbort(signal, cancel);
    stream.on('response', (headers) => {
      this.#heard();
      hasHead = true;
      sink.head({ status: headers[':status'] ?? 0, headers });
    });
    stream.on('data', (chunk: Buffer) => {
      this.#heard();
      if (!signal.aborted) sink.data(chunk);
    });
    // A stream that was reset or lost its connection ends too; only these show that something is missing.
    stream.on('end', () => {
      isComplete = hasHead && stream.rstCode === constants.NGHTTP2_NO_ERROR && !this.#session.destroyed;
    });
    stream.on('error', (error) => (failure = error));
    stream.on('close', () => {
      stopListening();
      this.#streams -= 1;
      if (this.#streams === 0) this.#idleSince = this.#clock.now();
      if (signal.aborted) sink.failed(signal.reason);
      else if (isComplete && failure === undefined) sink.end();
      else sink.failed(lost(stream.rstCode, failure));
      this.#changed();
    });
    if (signal.aborted) cancel();
  }

  /** Takes no more; what is open goes on until it ends. */
  drain(): void {
    this.#isDraining = true;
    this.#session.close();
    this.#changed();
  }

  /** With a reason: without one, node lets every open answer end as if it were complete. */
  destroy(reason: Error): void {
    this.#isDraining = true;
    this.#session.destroy(reason);
  }

  /** To be called now and then. A peer that died says nothing, and only a ping finds out. */
  check({ pingAfterMs, pingTimeoutMs, idleMsMax }: CheckSettings): void {
    const now = this.#clock.now();
    if (this.#pingSentAt !== undefined) {
      if (now - this.#pingSentAt >= pingTimeoutMs)
        this.destroy(new ConnectionLostError('The API server does not answer any more'));
      return;
    }
    if (this.#streams === 0 && now - this.#idleSince >= idleMsMax) return this.drain();
    if (now - this.#heardAt < pingAfterMs || this.#session.destroyed) return;
    this.#pingSentAt = now;
    this.#session.ping((error) => {
      if (error !== null) return;
      this.#pingSentAt = undefined;
      this.#heard();
    });
  }

  #heard(): void {
    this.#heardAt = this.#clock.now();
  }
}

interface CheckSettings {
  readonly pingAfterMs: number;
  readonly pingTimeoutMs: number;
  readonly idleMsMax: number;
}

function lost(code: number, cause: unknown): Error {
  if (cause instanceof MountletError) return cause;
  const isUnprocessed = code === constants.NGHTTP2_REFUSED_STREAM;
  return new ConnectionLostError(
    isUnprocessed ? 'The API server refused the stream' : 'The connection to the API server broke off',
    { isUnprocessed, cause },
  );
}
