/**
 * Numbered channels over one WebSocket: each message begins with the number of its channel. A channel that is not read stops
 * the socket, and a socket that does not drain stops its writer.
 */
import { Readable, Writable } from 'node:stream';
import type { WebSocket } from 'ws';
import type { RemoteProtocol } from './protocols.ts';

// kubectl reads into a buffer of this size, the channel's number included.
const messageBytesMax = 32 * 1024;
const closeSignal = 255;
// How much of one channel waits for its reader before the socket has to wait.
const unreadBytesMax = 256 * 1024;

export class ChannelSocket {
  readonly #socket: WebSocket;
  readonly #protocol: Pick<RemoteProtocol, 'codec'> & Partial<Pick<RemoteProtocol, 'hasClose'>>;
  readonly #inputs = new Map<number, Readable>();
  readonly #full = new Set<number>();
  readonly #gone = new AbortController();
  readonly closed: Promise<void>;

  constructor(socket: WebSocket, protocol: Pick<RemoteProtocol, 'codec'> & Partial<Pick<RemoteProtocol, 'hasClose'>>) {
    this.#socket = socket;
    this.#protocol = protocol;
    socket.binaryType = 'nodebuffer';
    socket.on('message', (data) => this.#receive(data as Buffer));
    // A broken connection is reported by `close`; without a listener its error would end the process.
    socket.on('error', () => {});
    this.closed = new Promise((resolve) => {
      socket.once('close', () => {
        this.#gone.abort(new Error('the client has left'));
        // What a client leaves behind is an end, not a failure: its input is over.
        for (const input of this.#inputs.values()) input.push(null);
        resolve();
      });
    });
  }

  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** What the client sends on a channel. Channels that were not asked for are ignored. */
  input(channel: number): Readable {
    const input = new Readable({
      highWaterMark: unreadBytesMax,
      read: () => this.#drained(channel),
      destroy: (error, done) => {
        this.#inputs.delete(channel);
        this.#drained(channel);
        done(error);
      },
    });
    this.#inputs.set(channel, input);
    return input;
  }

  output(channel: number): Writable {
    return new Writable({
      write: (bytes: Buffer, _encoding, done) => this.#write(channel, bytes, done),
    });
  }

  /** One message, which may be empty: that is how a server says that it is ready. */
  send(channel: number, bytes: Uint8Array): Promise<void> {
    return new Promise((resolve) => this.#sendMessage(channel, bytes, () => resolve()));
  }

  /** A clean end. What is still under way from the client is passed over. */
  async close(): Promise<void> {
    for (const input of this.#inputs.values()) input.destroy();
    this.#socket.close(1000);
    await this.closed;
  }

  terminate(): void {
    this.#socket.terminate();
  }

  #receive(message: Buffer): void {
    const [first, second] = message;
    if (first === undefined) return;
    const isBase64 = this.#protocol.codec === 'base64';
    if (this.#protocol.hasClose === true && first === closeSignal) {
      this.#end(second);
      return;
    }
    const channel = isBase64 ? first - 48 : first;
    const input = this.#inputs.get(channel);
    const bytes = isBase64 ? Buffer.from(message.toString('latin1', 1), 'base64') : message.subarray(1);
    if (input === undefined || input.destroyed || input.readableEnded || bytes.length === 0 || input.push(bytes))
      return;
    this.#full.add(channel);
    this.#socket.pause();
  }

  #end(channel: number | undefined): void {
    const input = channel === undefined ? undefined : this.#inputs.get(channel);
    if (input === undefined) return;
    this.#inputs.delete(channel ?? 0);
    input.push(null);
  }

  #drained(channel: number): void {
    if (this.#full.delete(channel) && this.#full.size === 0) this.#socket.resume();
  }

  #write(channel: number, bytes: Buffer, done: (error?: Error | null) => void): void {
    const piece = bytes.subarray(0, messageBytesMax - 1);
    const rest = bytes.subarray(piece.length);
    this.#sendMessage(channel, piece, (error) => {
      if (error || rest.length === 0) done(error);
      else this.#write(channel, rest, done);
    });
  }

  #sendMessage(channel: number, bytes: Uint8Array, done: (error?: Error | null) => void): void {
    if (this.#protocol.codec === 'base64') {
      this.#socket.send(String.fromCharCode(48 + channel) + Buffer.from(bytes).toString('base64'), done);
      return;
    }
    const message = Buffer.allocUnsafe(1 + bytes.length);
    message[0] = channel;
    message.set(bytes, 1);
    this.#socket.send(message, { binary: true }, done);
  }
}
