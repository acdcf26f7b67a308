/** Sends a complete answer, compressed where that is worth it, and a large one in pieces. */
import { nextTurn } from '../../base/turns.ts';
import { promisify } from 'node:util';
import { gzip as gzipWithCallback } from 'node:zlib';
import { type Exchange, type ResponseHeaders, headerText } from '../rest/api-request.ts';

const gzip = promisify(gzipWithCallback);

// Below this the time to compress is longer than the time saved, on any network a server and its clients share.
const gzipBytesMin = 128 * 1024;
// Encrypted in about a millisecond.
const pieceBytes = 1024 * 1024;

export async function sendReply(
  exchange: Exchange,
  code: number,
  headers: ResponseHeaders,
  body: string | Buffer,
): Promise<void> {
  const isLarge = body.length > gzipBytesMin;
  if (!isLarge || !acceptsGzip(exchange.header('accept-encoding'))) {
    if (body.length <= pieceBytes || exchange.method === 'HEAD') return exchange.send(code, headers, body);
    return sendPieces(exchange, code, headers, typeof body === 'string' ? Buffer.from(body) : body);
  }
  const packed = await gzip(body, { level: 1 });
  const vary = [headers['vary'] ?? [], 'Accept-Encoding'].flat().join(', ');
  exchange.send(code, { ...headers, 'content-encoding': 'gzip', vary }, packed);
}

/** Each in a turn of the event loop of its own, so that a long list does not hold up others. */
async function sendPieces(exchange: Exchange, code: number, headers: ResponseHeaders, body: Buffer): Promise<void> {
  if (exchange.isAnswered) return;
  const stream = exchange.openStream(code, { ...headers, 'content-length': String(body.length) });
  const closed = new AbortController();
  let goOn = (): void => {};
  stream.onDrain(() => goOn());
  exchange.onClose(() => {
    closed.abort();
    goOn();
  });
  for (let start = 0; start < body.length && !closed.signal.aborted; start += pieceBytes) {
    const drained = new Promise<void>((resolve) => (goOn = resolve));
    const hasRoom = stream.write(body.subarray(start, start + pieceBytes));
    await (hasRoom ? nextTurn() : drained);
  }
  stream.end();
}

function acceptsGzip(header: string | undefined): boolean {
  return (header ?? '').split(',').some((part) => {
    const [name = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase());
    return name === 'gzip' && !parameters.some((text) => /^q=0(\.0*)?$/.test(text));
  });
}

// As the API does: all of them together may be this long, after that each is cut.
const totalLengthMax = 4096;
const cutLength = 256;

/** The warnings of one answer. They travel in headers, one for each: `299 - "text"`. */
export class Warnings {
  readonly #texts = new Set<string>();
  #shownLength = 0;

  /** More than can be shown is not kept: a body of unknown fields has a hundred thousand warnings. */
  add(text: string): void {
    if (this.#shownLength > totalLengthMax || this.#texts.has(text)) return;
    this.#shownLength += Math.min(text.length, cutLength);
    this.#texts.add(text);
  }

  get texts(): readonly string[] {
    return [...this.#texts];
  }

  headers(): Readonly<Record<string, readonly string[]>> {
    if (this.#texts.size === 0) return {};
    const texts = [...this.#texts];
    const isLong = texts.reduce((sum, text) => sum + text.length, 0) > totalLengthMax;
    const lines: string[] = [];
    let length = 0;
    for (const text of texts) {
      const shown = isLong ? text.slice(0, cutLength) : text;
      length += shown.length;
      if (length > totalLengthMax) break;
      lines.push(headerText(`299 - "${escaped(shown)}"`));
    }
    return { warning: lines };
  }
}

/** Control characters would end the header. */
function escaped(text: string): string {
  return text
    .replace(/\p{Cc}/gu, ' ')
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"');
}
