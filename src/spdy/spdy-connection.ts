/**
 * Either end of a SPDY/3.1 connection, as far as Kubernetes uses it: the client opens streams, both ends send data.
 *
 * Flow control. A stream that is not read makes the whole connection wait, so the client is slowed by TCP and nothing piles
 * up here. WINDOW_UPDATE frames are sent for clients that count; none is waited for, because what everybody uses at the other
 * end (Go's spdystream) never sends one.
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
  synStreamFrame,
  windowUpdateFrame,
} from './frames.ts';
import { HeaderReader, HeaderWriter, type SpdyHeaders } from './header-blocks.ts';
import { SpdyStream, Window } from './spdy-stream.ts';

// A port-forward has two for each connection made through it.
const openStreamsMax = 1024;

export class SpdyConnection {
  readonly #transport: Duplex;
  readonly #offer: ((stream: SpdyStream) => boolean) | undefined;
  readonly #streams = new Map<number, SpdyStream>();
  readonly #headers = new HeaderReader();
  readonly #blocks = new HeaderWriter();
  readonly #window = new Window();
  /** Of streams whose opening the server has not answered yet. */
  readonly #opening = new Map<number, (isOpen: boolean) => void>();
  #lastStreamId = 0;
  #isOver = false;

  /** A server's `offer` is asked about each new stream and answers false to refuse it; a client has none. */
  constructor(transport: Duplex, offer?: (stream: SpdyStream) => boolean) {
    this.#transport = transport;
    this.#offer = offer;
    // A broken connection is reported by `close`; without a listener its error would end the process.
    transport.on('error', () => {});
  }

  /** Lives until either end closes the connection. Whatever the client does wrong ends only the connection. */
  async run(): Promise<void> {
    const reader = new FrameReader();
    // A server need not finish what its client has sent before it left. A client reads what was sent to it.
    const onClose = (): void => {
      if (this.#offer !== undefined) this.#endStreams();
    };
    this.#transport.once('close', onClose);
    try {
      for await (const chunk of received(this.#transport)) {
        for (const frame of reader.read(chunk)) await this.#handle(frame);
      }
    } catch (error) {
      if (error instanceof SpdyError) this.#transport.write(goAwayFrame(this.#lastStreamId, 1));
    } finally {
      this.#transport.off('close', onClose);
      this.#isOver = true;
      this.#endStreams();
      this.#headers.close();
      this.#transport.end(() => this.#transport.destroy());
    }
  }

  /** By a client. Resolves when the server has taken the stream: what is sent earlier may be dropped there. */
  async open(headers: SpdyHeaders): Promise<SpdyStream> {
    const id = this.#lastStreamId === 0 ? 1 : this.#lastStreamId + 2;
    this.#lastStreamId = id;
    const stream = this.#add(id, headers);
    const opened = new Promise<boolean>((resolve) => this.#opening.set(id, resolve));
    if (this.#isOver || this.#transport.destroyed) this.#settle(id, false);
    else void this.#transport.write(synStreamFrame(id, this.#blocks.write(headers)));
    if (await opened) return stream;
    stream.destroy();
    throw new SpdyError('The other end took no stream');
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
        return this.#accept(frame);
      case 'data':
        return this.#receive(frame);
      case 'reset':
        return this.#reset(frame.streamId);
      case 'ping':
        // A client numbers its own odd. The others would be answers to ours, and we send none.
        return (frame.id % 2 === 1) === (this.#offer !== undefined) ? this.#send(pingFrame(frame.id)) : undefined;
      case 'headers':
      case 'synReply':
        // Read although unused: later blocks are compressed with this one as their dictionary.
        await this.#headers.read(frame.block);
        if (frame.kind === 'synReply') this.#settle(frame.streamId, true);
        if (frame.isLast) this.#streams.get(frame.streamId)?.receivedEnd();
        return;
      case 'goAway':
        return;
    }
  }

  async #accept({ streamId, isLast, block }: Extract<Frame, { kind: 'synStream' }>): Promise<void> {
    const headers = await this.#headers.read(block);
    if (this.#offer === undefined || streamId % 2 === 0 || streamId <= this.#lastStreamId) {
      return this.#send(resetFrame(streamId, resetCodes.protocolError));
    }
    this.#lastStreamId = streamId;
    if (this.#streams.size >= openStreamsMax) return this.#send(resetFrame(streamId, resetCodes.refusedStream));
    const stream = this.#add(streamId, headers);
    // The client may use the stream once it has the reply, so the reply goes first whatever `offer` does with the stream.
    stream.cork();
    if (!this.#offer(stream)) {
      stream.destroy();
      return;
    }
    const sent = this.#send(synReplyFrame(streamId, this.#blocks.write(new Map())));
    stream.uncork();
    if (isLast) stream.receivedEnd();
    await sent;
  }

  #add(streamId: number, headers: SpdyHeaders): SpdyStream {
    const stream = new SpdyStream(streamId, headers, {
      sendData: (id, bytes, isEnd, done) => void this.#transport.write(dataFrame(id, bytes, isEnd), done),
      closed: (id, isClean) => this.#closed(id, isClean),
    });
    this.#streams.set(streamId, stream);
    return stream;
  }

  #reset(streamId: number): void {
    this.#settle(streamId, false);
    const stream = this.#streams.get(streamId);
    if (stream !== undefined) this.#lose(stream);
  }

  /** Servers of Kubernetes reset every stream, or just leave, when they are done: what they sent before counts. */
  #lose(stream: SpdyStream): void {
    if (this.#offer === undefined) stream.receivedEnd();
    else stream.destroy();
  }

  #settle(streamId: number, isOpen: boolean): void {
    this.#opening.get(streamId)?.(isOpen);
    this.#opening.delete(streamId);
  }

  async #receive({ streamId, isLast, bytes }: Extract<Frame, { kind: 'data' }>): Promise<void> {
    const stream = this.#streams.get(streamId);
    await stream?.received(bytes);
    if (isLast) stream?.receivedEnd();
    // A server that has sent everything closes: what it has not read by then would cost us what we have not.
    if (this.#offer === undefined) return;
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
    // To a server that has left, a word more would cost what it sent before.
    if (!isClean && this.#offer !== undefined && this.#transport.writable)
      this.#transport.write(resetFrame(streamId, resetCodes.cancel));
  }

  #endStreams(): void {
    for (const id of this.#opening.keys()) this.#settle(id, false);
    for (const stream of this.#streams.values()) this.#lose(stream);
  }
}

// What may wait here while a frame is handled, before the other end has to wait.
const waitingBytesMax = 64 * 1024;

/** Everything that came, also before an error: iterating over a stream itself would drop that. */
async function* received(transport: Duplex): AsyncGenerator<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isOver = transport.destroyed || transport.readableEnded;
  let wake = (): void => {};
  transport.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= waitingBytesMax) transport.pause();
    wake();
  });
  for (const event of ['end', 'close'] as const) {
    transport.once(event, () => {
      isOver = true;
      wake();
    });
  }
  for (;;) {
    const chunk = chunks.shift();
    if (chunk !== undefined) {
      bytes -= chunk.length;
      yield chunk;
    } else if (isOver) return;
    else {
      transport.resume();
      await new Promise<void>((resolve) => (wake = resolve));
    }
  }
}
