import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { constants } from 'node:http2';
import type { PeerIdentity } from '../identity/authentication.ts';
import type { Exchange, ResponseHeaders, ResponseStream } from './exchange.ts';
import { BodyReader } from './read-body.ts';

/** An exchange over one stream of HTTP/2. */
export class Http2Exchange implements Exchange {
  readonly protocol = 'HTTP/2';
  readonly upgrade = undefined;
  readonly peer: PeerIdentity | undefined;
  readonly #stream: ServerHttp2Stream;
  readonly #headers: IncomingHttpHeaders;
  readonly #body = new BodyReader();

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, peer: PeerIdentity | undefined) {
    this.peer = peer;
    this.#stream = stream;
    this.#headers = headers;
    // A reset stream is told by `close`; without a listener its error would end the process.
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
    // The client may still be sending what nobody will read.
    if (!stream.readableEnded && code >= 400) stream.once('finish', () => stream.close(constants.NGHTTP2_NO_ERROR));
  }

  openStream(code: number, headers: ResponseHeaders): ResponseStream {
    const stream = this.#stream;
    if (!stream.destroyed && !stream.closed) stream.respond(outgoing(code, headers));
    return {
      write: (bytes) => !stream.writable || stream.write(bytes),
      onDrain: (listener) => void stream.on('drain', listener),
      end: () => void stream.end(),
      destroy: () => stream.close(constants.NGHTTP2_INTERNAL_ERROR),
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
