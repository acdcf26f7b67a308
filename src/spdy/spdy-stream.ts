/** One stream of a SPDY connection as a Node stream, each direction of which ends by itself. */
import { Duplex } from 'node:stream';
import type { SpdyHeaders } from './header-blocks.ts';

/** What a stream asks of its connection. */
interface StreamSink {
  sendData(streamId: number, bytes: Uint8Array, isLast: boolean, done: (error?: Error | null) => void): void;
  /** The stream is over; `isClean` when both ends had said that they are done. */
  closed(streamId: number, isClean: boolean): void;
}

// How much of one stream waits for its reader before the connection, and with it the client, has to wait.
const unreadBytesMax = 256 * 1024;

export class SpdyStream extends Duplex {
  readonly id: number;
  readonly headers: SpdyHeaders;
  readonly window = new Window();
  readonly #sink: StreamSink;
  #room: (() => void) | undefined;
  #hasEnd = false;

  constructor(id: number, headers: SpdyHeaders, sink: StreamSink) {
    super({ allowHalfOpen: true, readableHighWaterMark: unreadBytesMax, writableHighWaterMark: 64 * 1024 });
    this.id = id;
    this.headers = headers;
    this.#sink = sink;
    // The user of the stream gets the error too; this keeps an unused stream from ending the process.
    this.on('error', () => {});
  }

  /** Resolves when there is room for more. */
  received(bytes: Buffer): Promise<void> | undefined {
    if (this.destroyed || this.#hasEnd || bytes.length === 0 || this.push(bytes)) return undefined;
    return new Promise((resolve) => {
      this.#room = resolve;
    });
  }

  /** Saying so twice does no harm. */
  receivedEnd(): void {
    if (!this.destroyed && !this.#hasEnd) this.push(null);
    this.#hasEnd = true;
  }

  override _read(): void {
    this.#makeRoom();
  }

  override _write(bytes: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#sink.sendData(this.id, bytes, false, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#sink.sendData(this.id, Buffer.alloc(0), true, done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#makeRoom();
    this.#sink.closed(this.id, this.writableFinished && this.readableEnded);
    done(error);
  }

  #makeRoom(): void {
    this.#room?.();
    this.#room = undefined;
  }
}

/** Counts what was read of a stream, or of all of them, until it is worth a WINDOW_UPDATE. */
// Half of the 64 KiB that a sender may have under way at the beginning.
const stepBytes = 32 * 1024;

export class Window {
  #bytes = 0;

  /** How many bytes to announce now: mostly none. */
  read(bytes: number): number {
    this.#bytes += bytes;
    if (this.#bytes < stepBytes) return 0;
    const read = this.#bytes;
    this.#bytes = 0;
    return read;
  }
}
