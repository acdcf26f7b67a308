/**
 * The server's end of a SPDY/3.1 connection, as far as Kubernetes uses it: the client opens streams, both ends send data.
 *
 * Flow control. A stream that is not read makes the whole connection wait, so the client is slowed by TCP and nothing piles
 * up here. WINDOW_UPDATE frames are sent for clients that count; theirs are not waited for, because the client that everybody
 * uses (Go's spdystream) never sends one and would wait for ever.
 */
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import {
  type Frame,
  FrameReader,
  SpdyError,
  dataFrame,
  goAwayFrame,
  pingFrame,
  resetCodes,
  resetFrame,
  synReplyFrame,
  windowUpdateFrame,
} from './frames.ts';
import { HeaderReader, HeaderWriter } from './header-blocks.ts';
import { SpdyStream, Window } from './spdy-stream.ts';

// A port-forward has two for each connection made through it.
const openStreamsMax = 1024;

export class SpdyConnection {
  readonly #transport: Duplex;
  readonly #offer: (stream: SpdyStream) => boolean;
  readonly #streams = new Map<number, SpdyStream>();
  readonly #headers = new HeaderReader();
  readonly #replies = new HeaderWriter();
  readonly #window = new Window();
  #lastStreamId = 0;

  /** `offer` is asked about each new stream and answers false to refuse it. */
  constructor(transport: Duplex, offer: (stream: SpdyStream) => boolean) {
    this.#transport = transport;
    this.#offer = offer;
    // A broken connection is reported by `close`; without a listener its error would end the process.
    transport.on('error', () => {});
  }

  /** Lives until either end closes the connection. Whatever the client does wrong ends only the connection. */
  async run(): Promise<void> {
    const reader = new FrameReader();
    const onClose = (): void => this.#endStreams();
    this.#transport.once('close', onClose);
    try {
      for await (const chunk of this.#transport.iterator({ destroyOnReturn: false })) {
        for (const frame of reader.read(chunk as Buffer)) await this.#handle(frame);
      }
    } catch (error) {
      if (error instanceof SpdyError) this.#transport.write(goAwayFrame(this.#lastStreamId, 1));
    } finally {
      this.#transport.off('close', onClose);
      this.#endStreams();
      this.#headers.close();
      this.#transport.end(() => this.#transport.destroy());
    }
  }

  /** Tells the client that nothing more comes; what was written before reaches it. */
  goAway(): void {
    if (!this.#transport.writable) return;
    this.#transport.write(goAwayFrame(this.#lastStreamId, 0));
  }

  destroy(): void {
    this.#transport.destroy();
  }

  async #handle(frame: Frame): Promise<void> {
    switch (frame.kind) {
      case 'synStream':
        return this.#open(frame);
      case 'data':
        return this.#receive(frame);
      case 'reset':
        this.#streams.get(frame.streamId)?.destroy();
        return;
      case 'ping':
        // Those with even numbers would be answers to ours, and we send none.
        return frame.id % 2 === 1 ? this.#send(pingFrame(frame.id)) : undefined;
      case 'headers':
      case 'synReply':
        // Read although unused: later blocks are compressed with this one as their dictionary.
        await this.#headers.read(frame.block);
        if (frame.isLast) this.#streams.get(frame.streamId)?.receivedEnd();
        return;
      case 'goAway':
        return;
    }
  }

  async #open({ streamId, isLast, block }: Extract<Frame, { kind: 'synStream' }>): Promise<void> {
    const headers = await this.#headers.read(block);
    if (streamId % 2 === 0 || streamId <= this.#lastStreamId) {
      return this.#send(resetFrame(streamId, resetCodes.protocolError));
    }
    this.#lastStreamId = streamId;
    if (this.#streams.size >= openStreamsMax) return this.#send(resetFrame(streamId, resetCodes.refusedStream));
    const stream = new SpdyStream(streamId, headers, {
      sendData: (id, bytes, isEnd, done) => void this.#transport.write(dataFrame(id, bytes, isEnd), done),
      closed: (id, isClean) => this.#closed(id, isClean),
    });
    this.#streams.set(streamId, stream);
    // The client may use the stream once it has the reply, so the reply goes first whatever `offer` does with the stream.
    stream.cork();
    if (!this.#offer(stream)) {
      stream.destroy();
      return;
    }
    const sent = this.#send(synReplyFrame(streamId, this.#replies.write(new Map())));
    stream.uncork();
    if (isLast) stream.receivedEnd();
    await sent;
  }

  async #receive({ streamId, isLast, bytes }: Extract<Frame, { kind: 'data' }>): Promise<void> {
    const stream = this.#streams.get(streamId);
    await stream?.received(bytes);
    if (isLast) stream?.receivedEnd();
    const updates = [
      [0, this.#window.read(bytes.length)],
      [streamId, stream?.window.read(bytes.length) ?? 0],
    ] as const;
    const frames = updates.filter(([, read]) => read > 0).map(([id, read]) => windowUpdateFrame(id, read));
    if (frames.length > 0) await this.#send(Buffer.concat(frames));
  }

  /** For everything but data of streams: a client that sends a million pings and reads no answer has to wait. */
  async #send(frame: Buffer): Promise<void> {
    if (this.#transport.destroyed || this.#transport.write(frame)) return;
    const gaveUp = new AbortController();
    const { signal } = gaveUp;
    try {
      await Promise.race([once(this.#transport, 'drain', { signal }), once(this.#transport, 'close', { signal })]);
    } finally {
      gaveUp.abort();
    }
  }

  #closed(streamId: number, isClean: boolean): void {
    this.#streams.delete(streamId);
    if (!isClean && this.#transport.writable) this.#transport.write(resetFrame(streamId, resetCodes.cancel));
  }

  #endStreams(): void {
    for (const stream of this.#streams.values()) stream.destroy();
  }
}
