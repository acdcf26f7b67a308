/** The client's end of a SPDY connection, for tests: it sends whatever a test wants, right or wrong. */
import type { Duplex } from 'node:stream';
import { type Frame, FrameReader, dataFrame, synStreamFrame } from '../../spdy/frames.ts';
import { HeaderWriter } from '../../spdy/header-blocks.ts';

export class SpdyClient {
  readonly #transport: Duplex;
  readonly #headers = new HeaderWriter();
  readonly #frames: Frame[] = [];
  #nextId = 1;
  #wake: () => void = () => {};
  #isClosed = false;

  constructor(transport: Duplex) {
    this.#transport = transport;
    const reader = new FrameReader();
    transport.on('data', (bytes: Buffer) => {
      for (const frame of reader.read(bytes)) this.#frames.push(frame);
      this.#wake();
    });
    transport.on('close', () => {
      this.#isClosed = true;
      this.#wake();
    });
    transport.on('error', () => {});
  }

  open(headers: Readonly<Record<string, string>>): number {
    const id = this.#nextId;
    this.#nextId += 2;
    this.send(synStreamFrame(id, this.#headers.write(new Map(Object.entries(headers)))));
    return id;
  }

  write(streamId: number, text: string | Buffer, isLast = false): void {
    this.send(dataFrame(streamId, Buffer.from(text), isLast));
  }

  send(frame: Buffer): void {
    this.#transport.write(frame);
  }

  /** The next frame that fits; the others before it are dropped. Undefined when the connection is closed. */
  async next(fits: (frame: Frame) => boolean): Promise<Frame | undefined> {
    for (;;) {
      for (let frame = this.#frames.shift(); frame !== undefined; frame = this.#frames.shift()) {
        if (fits(frame)) return frame;
      }
      if (this.#isClosed) return undefined;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** All that comes on a stream until its end. */
  async text(streamId: number): Promise<string> {
    const pieces: Buffer[] = [];
    for (;;) {
      const frame = await this.next((one) => 'streamId' in one && one.streamId === streamId && one.kind !== 'synReply');
      if (frame?.kind !== 'data') break;
      pieces.push(Buffer.from(frame.bytes));
      if (frame.isLast) break;
    }
    return Buffer.concat(pieces).toString();
  }
}
