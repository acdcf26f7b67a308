/**
 * Blocks of headers in SPDY/3: names and values with their lengths, compressed with one context for all blocks that one end
 * sends. What we send is so little that it goes as stored blocks, which need no compressor.
 */
import { type Inflate, constants, createInflate } from 'node:zlib';
import { SpdyError } from './frames.ts';

/** Names are in lower case; a value that came several times is joined by NUL, as SPDY sends it. */
export type SpdyHeaders = ReadonlyMap<string, string>;

// Small blocks may unfold to anything; ours hold a handful of short headers.
const blockBytesMax = 64 * 1024;

/** One for each connection, and its blocks in the order they came. */
export class HeaderReader {
  readonly #inflate: Inflate = createInflate({ dictionary: headerDictionary, finishFlush: constants.Z_SYNC_FLUSH });
  #pieces: Buffer[] = [];
  #bytes = 0;
  #failed: ((error: Error) => void) | undefined;

  constructor() {
    this.#inflate.on('data', (piece: Buffer) => {
      this.#pieces.push(piece);
      this.#bytes += piece.length;
      // Told here: a stream that was destroyed may call back as if all were fine.
      if (this.#bytes > blockBytesMax) {
        this.#failed?.(new SpdyError('A block of headers is too long'));
        this.#inflate.destroy();
      }
    });
    this.#inflate.on('error', (error) => this.#failed?.(error));
  }

  async read(block: Buffer): Promise<SpdyHeaders> {
    this.#pieces = [];
    this.#bytes = 0;
    await new Promise<void>((resolve, reject) => {
      this.#failed = (error) =>
        reject(error instanceof SpdyError ? error : new SpdyError('A block of headers is damaged', { cause: error }));
      // Everything that the block unfolds to has been given before this is called.
      this.#inflate.write(block, (error) => (error ? this.#failed?.(error) : resolve()));
    });
    return parseHeaders(Buffer.concat(this.#pieces));
  }

  close(): void {
    this.#inflate.destroy();
  }
}

function parseHeaders(bytes: Buffer): SpdyHeaders {
  let offset = 0;
  const number = (): number => {
    if (offset + 4 > bytes.length) throw new SpdyError('A block of headers is cut short');
    offset += 4;
    return bytes.readUInt32BE(offset - 4);
  };
  const text = (): string => {
    const length = number();
    if (length > bytes.length - offset) throw new SpdyError('A block of headers is cut short');
    offset += length;
    return bytes.toString('utf8', offset - length, offset);
  };
  const headers = new Map<string, string>();
  for (let left = number(); left > 0; left -= 1) {
    const name = text();
    headers.set(name.toLowerCase(), text());
  }
  return headers;
}

/** One for each connection. Stored blocks, each followed by an empty one: that is what makes a reader give out what it has. */
export class HeaderWriter {
  #isFirst = true;

  write(headers: SpdyHeaders): Buffer {
    const plain = plainBlock(headers);
    const prefix = this.#isFirst ? streamStart() : Buffer.alloc(0);
    this.#isFirst = false;
    return Buffer.concat([prefix, storedBlock(plain), storedBlock(Buffer.alloc(0))]);
  }
}

function plainBlock(headers: SpdyHeaders): Buffer {
  const parts = [uint32(headers.size)];
  for (const [name, value] of headers) {
    for (const text of [name.toLowerCase(), value]) parts.push(uint32(Buffer.byteLength(text)), Buffer.from(text));
  }
  return Buffer.concat(parts);
}

/** The head of a zlib stream that names the dictionary. */
function streamStart(): Buffer {
  const deflateWith32KWindow = 0x78;
  const hasDictionary = 0x20;
  // The two bytes must be a multiple of 31 as one number.
  const flags = hasDictionary + (31 - (((deflateWith32KWindow << 8) + hasDictionary) % 31));
  return Buffer.concat([Buffer.from([deflateWith32KWindow, flags]), uint32(headerDictionaryId)]);
}

function storedBlock(bytes: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt16LE(bytes.length, 1);
  head.writeUInt16LE(~bytes.length & 0xffff, 3);
  return Buffer.concat([head, bytes]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** The text that both ends of SPDY/3 know before the first header block, as its specification gives it. */
const words = [
  'options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow',
  'authorization cache-control connection content-base content-encoding content-language content-length',
  'content-location content-md5 content-range content-type date etag expect expires from host if-match',
  'if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma',
  'proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade',
  'user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie',
  'keep-alive origin',
]
  .join(' ')
  .split(' ')
  .map((word) => word.replace('_', ' '));

const tail =
  '100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505' +
  '203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden' +
  '404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable' +
  'Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT' +
  'chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,' +
  'publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.';

export const headerDictionary: Buffer = Buffer.concat([
  ...words.flatMap((word) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(word.length);
    return [length, Buffer.from(word)];
  }),
  Buffer.from(tail),
]);

/** Adler-32 of the dictionary, by which a compressed stream names it. */
export const headerDictionaryId = 0xe3c6a7c2;
