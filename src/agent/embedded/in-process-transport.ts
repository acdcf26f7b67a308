/**
 * From a node to the API server of the same process, without sockets, TLS and HTTP: a request becomes an exchange of the server, and
 * what the server answers goes to the client in the next turn of the event loop, so that neither runs inside of the other.
 */
import type { PeerIdentity } from '../../apiserver/identity/authentication.ts';
import { entityTooLarge } from '../../apiserver/model/status.ts';
import type { Exchange, ResponseHeaders, ResponseStream } from '../../apiserver/rest/api-request.ts';
import { ConnectionLost } from '../../apiserver/serving/http-exchange.ts';
import { onAbort } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { Turns } from '../../base/turns.ts';
import {
  ClientClosedError,
  ConnectionLostError,
  type HttpRequest,
  type HttpSink,
  type Transport,
} from '../../client/transport/transport.ts';

/** A watch that is written to faster than it is read has to wait, as it would on a socket. */
const waitingBytesMax = 1024 * 1024;
const largeBytes = 64 * 1024;

export class InProcessTransport implements Transport {
  readonly #serve: (exchange: Exchange) => void;
  readonly #peer: PeerIdentity;
  readonly #clock: Clock;
  readonly #turns: Turns;
  readonly #open = new Set<InProcessExchange>();
  #closed = false;

  constructor(serve: (exchange: Exchange) => void, peer: PeerIdentity, clock: Clock) {
    this.#serve = serve;
    this.#peer = peer;
    this.#clock = clock;
    this.#turns = new Turns(() => clock.now());
  }

  async send(request: HttpRequest, sink: HttpSink, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#closed) throw new ClientClosedError();
    const exchange = new InProcessExchange(request, this.#peer, sink, this.#turns);
    this.#open.add(exchange);
    const stopListening = onAbort(signal, () => exchange.breakOff(signal.reason));
    exchange.onClose(() => {
      stopListening();
      this.#open.delete(exchange);
    });
    this.#serve(exchange);
  }

  async pause(ms: number, signal: AbortSignal): Promise<void> {
    await this.#clock.sleep(ms, signal);
  }

  onReturn(): void {
    // It is never away.
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const exchange of this.#open) exchange.breakOff(new ClientClosedError());
  }
}

type Part = { readonly head: { code: number; headers: ResponseHeaders } } | { readonly bytes: Buffer } | 'end';

class InProcessExchange implements Exchange {
  readonly remoteAddress = '127.0.0.1';
  readonly upgrade = undefined;
  readonly peer: PeerIdentity;
  readonly #request: HttpRequest;
  readonly #sink: HttpSink;
  readonly #turns: Turns;
  readonly #parts: Part[] = [];
  readonly #closeListeners: (() => void)[] = [];
  readonly #drainListeners: (() => void)[] = [];
  #waitingBytes = 0;
  #isFlushing = false;
  #isAnswered = false;
  #isClosed = false;

  constructor(request: HttpRequest, peer: PeerIdentity, sink: HttpSink, turns: Turns) {
    this.#turns = turns;
    this.#request = request;
    this.peer = peer;
    this.#sink = sink;
  }

  get method(): string {
    return this.#request.method;
  }

  get target(): string {
    return this.#request.path;
  }

  get isAnswered(): boolean {
    return this.#isAnswered;
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name];
    return typeof value === 'object' ? value.join(', ') : value;
  }

  headerValues(name: string): readonly string[] {
    const value = this.#request.headers[name] ?? [];
    return typeof value === 'object' ? value : [value];
  }

  headerNames(): readonly string[] {
    return Object.keys(this.#request.headers);
  }

  async readBody(bytesMax: number): Promise<Buffer> {
    const { body = Buffer.alloc(0) } = this.#request;
    if (this.#isClosed) throw new ConnectionLost('the client closed the connection');
    if (body.length > bytesMax) throw entityTooLarge(`limit is ${bytesMax}`);
    return body;
  }

  stopReading(): void {
    // The body is there from the beginning.
  }

  send(code: number, headers: ResponseHeaders, body: string | Buffer): void {
    if (this.#isAnswered || this.#isClosed) return;
    this.#isAnswered = true;
    const bytes = this.method === 'HEAD' || body.length === 0 ? [] : [{ bytes: Buffer.from(body) }];
    this.#push({ head: { code, headers } }, ...bytes, 'end');
  }

  openStream(code: number, headers: ResponseHeaders): ResponseStream {
    this.#isAnswered = true;
    this.#push({ head: { code, headers } });
    return {
      write: (bytes) => {
        this.#push({ bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) });
        return this.#isClosed || this.#waitingBytes < waitingBytesMax;
      },
      onDrain: (listener) => void this.#drainListeners.push(listener),
      end: () => this.#push('end'),
      destroy: () => this.fail(),
    };
  }

  fail(): void {
    this.breakOff(new ConnectionLostError('The API server broke off its answer'));
  }

  onClose(listener: () => void): void {
    if (this.#isClosed) listener();
    else this.#closeListeners.push(listener);
  }

  /** By either side. */
  breakOff(reason: unknown): void {
    if (this.#isClosed) return;
    this.#close();
    setImmediate(() => this.#sink.failed(reason));
  }

  #push(...parts: readonly Part[]): void {
    if (this.#isClosed) return;
    for (const part of parts) {
      this.#parts.push(part);
      if (typeof part === 'object' && 'bytes' in part) this.#waitingBytes += part.bytes.length;
    }
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    const flush = (): void => this.#flush();
    // What takes the client milliseconds to read has a turn of the event loop for itself.
    if (this.#waitingBytes < largeBytes) setImmediate(flush);
    else this.#turns.inTurn(flush);
  }

  #flush(): void {
    this.#isFlushing = false;
    const isFull = this.#waitingBytes >= waitingBytesMax;
    this.#waitingBytes = 0;
    for (const part of this.#parts.splice(0)) {
      if (this.#isClosed) return;
      if (part === 'end') {
        this.#close();
        this.#sink.end();
      } else if ('head' in part) this.#sink.head({ status: part.head.code, headers: part.head.headers });
      else this.#sink.data(part.bytes);
    }
    if (isFull) for (const drained of this.#drainListeners) drained();
  }

  #close(): void {
    this.#isClosed = true;
    for (const listener of this.#closeListeners.splice(0)) listener();
  }
}
