/** Exchanges over HTTP/1.1 and over a stream of HTTP/2: one request, its body and its answer behind a common interface. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerHttp2Stream, constants } from 'node:http2';
import type { Duplex, Readable } from 'node:stream';
import { MountletError } from '../../base/errors.ts';
import type { PeerIdentity } from '../identity/authentication.ts';
import { badRequest, entityTooLarge } from '../model/status.ts';
import { type Exchange, type ResponseHeaders, type ResponseStream, valuesOf } from '../rest/api-request.ts';

/** An exchange over HTTP/1.1. */
export class Http1Exchange implements Exchange {
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
    // A broken connection shows as `close`; without a listener its error would end the process.
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

  headerValues(name: string): readonly string[] {
    return valuesOf(this.#request.rawHeaders, name);
  }

  headerNames(): readonly string[] {
    return Object.keys(this.#request.headers);
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

/** An exchange over one stream of HTTP/2. */
export class Http2Exchange implements Exchange {
  readonly upgrade = undefined;
  readonly peer: PeerIdentity | undefined;
  readonly #stream: ServerHttp2Stream;
  readonly #headers: IncomingHttpHeaders;
  readonly #rawHeaders: readonly string[];
  readonly #body = new BodyReader();

  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
    peer: PeerIdentity | undefined,
  ) {
    this.#rawHeaders = rawHeaders;
    this.peer = peer;
    this.#stream = stream;
    this.#headers = headers;
    // A reset stream shows as `close`; without a listener its error would end the process.
    stream.on('error', () => {});
  }

  get method(): string {
    return this.#headers[':method'] ?? '';
  }

  get target(): string {
    return this.#headers[':path'] ?? '';
  }

  get remoteAddress(): string {
    return this.#stream.session?.socket.remoteAddress ?? '';
  }

  get isAnswered(): boolean {
    return this.#stream.headersSent;
  }

  header(name: string): string | undefined {
    const value = this.#headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  headerValues(name: string): readonly string[] {
    return valuesOf(this.#rawHeaders, name);
  }

  headerNames(): readonly string[] {
    return Object.keys(this.#headers);
  }

  readBody(bytesMax: number): Promise<Buffer> {
    if (this.header('expect')?.toLowerCase() === '100-continue' && !this.#stream.headersSent) {
      this.#stream.additionalHeaders({ ':status': 100 });
    }
    return this.#body.read(this.#stream, this.header('content-length'), bytesMax);
  }

  stopReading(reason: Error): void {
    this.#body.stop(reason);
  }

  send(code: number, headers: ResponseHeaders, body: string | Buffer): void {
    const stream = this.#stream;
    if (stream.headersSent || stream.destroyed || stream.closed) return;
    const bare = code === 304;
    const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length;
    const isHead = this.method === 'HEAD' || bare || length === 0;
    const all = outgoing(code, headers);
    if (!bare) all['content-length'] = length;
    stream.respond(all, { endStream: isHead });
    if (!isHead) stream.end(body);
    // The client may still be sending a body that will not be read.
    if (!stream.readableEnded && code >= 400) stream.once('finish', () => stream.close(constants.NGHTTP2_NO_ERROR));
  }

  openStream(code: number, headers: ResponseHeaders): ResponseStream {
    const stream = this.#stream;
    if (!stream.destroyed && !stream.closed) stream.respond(outgoing(code, headers));
    return {
      write: (bytes) => !stream.writable || stream.write(bytes),
      onDrain: (listener) => void stream.on('drain', listener),
      end: () => void stream.end(),
      // A stream that is closed instead ends first, and the client takes what it has for all there is.
      destroy: () => void stream.destroy(new ConnectionLost('the answer broke off')),
    };
  }

  fail(): void {
    this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  }

  onClose(listener: () => void): void {
    if (this.#stream.closed && this.#stream.destroyed) listener();
    else this.#stream.once('close', listener);
  }
}

function outgoing(code: number, headers: ResponseHeaders): OutgoingHttpHeaders {
  const copied: OutgoingHttpHeaders = { ':status': code };
  for (const name of Object.keys(headers)) {
    const value = headers[name] ?? '';
    // HTTP/2 knows no connection headers and refuses them.
    if (name !== 'connection') copied[name] = typeof value === 'string' ? value : [...value];
  }
  return copied;
}

/** The client went away before it was answered. */
export class ConnectionLost extends MountletError {
  readonly reason = 'ConnectionLost';
}

/** Reads the body of one request into memory, never more of it than allowed. A second read gets the same. */
class BodyReader {
  #read: Promise<Buffer> | undefined;
  #stopped: Error | undefined;
  #fail: ((error: Error) => void) | undefined;

  read(source: Readable, declaredLength: string | undefined, bytesMax: number): Promise<Buffer> {
    return (this.#read ??= this.#readAll(source, declaredLength, bytesMax));
  }

  #readAll(source: Readable, declaredLength: string | undefined, bytesMax: number): Promise<Buffer> {
    const tooLarge = (): Error => entityTooLarge(`limit is ${bytesMax}`);
    if (Number(declaredLength ?? 0) > bytesMax) return Promise.reject(tooLarge());
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      let length = 0;
      const release = (): void => {
        this.#fail = undefined;
        // Streams live on for a while: what hangs on them must not be the body.
        source.off('data', onData).off('end', onEnd).off('error', onError).off('close', onClose);
      };
      const fail = (error: Error): void => {
        release();
        reject(error);
      };
      const onData = (chunk: Buffer): void => {
        length += chunk.length;
        chunks.push(chunk);
        if (length > bytesMax) fail(tooLarge());
      };
      const onEnd = (): void => {
        release();
        const [only] = chunks;
        resolve(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks));
      };
      const onError = (): void => fail(badRequest('the body of the request could not be read'));
      const onClose = (): void => fail(new ConnectionLost('the client closed the connection'));
      if (this.#stopped !== undefined) return fail(this.#stopped);
      if (source.readableEnded) return onEnd();
      if (source.destroyed) return onClose();
      this.#fail = fail;
      source.on('data', onData).on('end', onEnd).on('error', onError).on('close', onClose);
    });
  }

  /** A read that waits for more rejects with this, and so does one that is still to come. */
  stop(reason: Error): void {
    this.#stopped = reason;
    this.#fail?.(reason);
  }
}
