import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { PeerIdentity } from '../identity/authentication.ts';
import type { Exchange, ResponseHeaders, ResponseStream } from './exchange.ts';
import { BodyReader } from './read-body.ts';

/** An exchange over HTTP/1.1. */
export class Http1Exchange implements Exchange {
  readonly protocol = 'HTTP/1.1';
  readonly upgrade: { readonly socket: Duplex; readonly head: Buffer } | undefined;
  readonly peer: PeerIdentity | undefined;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #body = new BodyReader();

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    peer: PeerIdentity | undefined,
    upgradeHead?: Buffer,
  ) {
    this.peer = peer;
    this.#request = request;
    this.#response = response;
    this.upgrade = upgradeHead && { socket: request.socket, head: upgradeHead };
    // A broken connection is told by `close`; without a listener its error would end the process.
    request.on('error', () => {});
    response.on('error', () => {});
  }

  get method(): string {
    return this.#request.method ?? '';
  }

  get target(): string {
    return this.#request.url ?? '';
  }

  get remoteAddress(): string {
    return this.#request.socket.remoteAddress ?? '';
  }

  get isAnswered(): boolean {
    return this.#response.headersSent;
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  readBody(bytesMax: number): Promise<Buffer> {
    return this.#body.read(this.#request, this.header('content-length'), bytesMax);
  }

  stopReading(reason: Error): void {
    this.#body.stop(reason);
  }

  send(code: number, headers: ResponseHeaders, body: string | Buffer): void {
    const response = this.#response;
    if (response.headersSent || response.destroyed) return;
    const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length;
    // What was not read of the request would be taken for the next one.
    const leftover = !this.#request.complete && code >= 400;
    const closing = leftover ? { connection: 'close' } : {};
    response.writeHead(code, { ...mutable(headers), ...closing, ...(code !== 304 && { 'content-length': length }) });
    response.end(this.method === 'HEAD' || code === 304 ? undefined : body);
  }

  openStream(code: number, headers: ResponseHeaders): ResponseStream {
    const response = this.#response;
    response.writeHead(code, mutable(headers));
    response.flushHeaders();
    return {
      write: (bytes) => response.write(bytes),
      onDrain: (listener) => void response.on('drain', listener),
      end: () => void response.end(),
      destroy: () => void response.destroy(),
    };
  }

  fail(): void {
    this.#response.destroy();
  }

  onClose(listener: () => void): void {
    // The request's own `close` comes as soon as its body has been read.
    if (this.#response.closed) listener();
    else this.#response.once('close', listener);
  }
}

function mutable(headers: ResponseHeaders): Record<string, string | string[]> {
  const copied: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) copied[name] = typeof value === 'string' ? value : [...value];
  return copied;
}
