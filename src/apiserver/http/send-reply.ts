/** Sends a complete answer, compressed where that is worth it. */
import { promisify } from 'node:util';
import { gzip as gzipWithCallback } from 'node:zlib';
import type { Exchange, ResponseHeaders } from './exchange.ts';

const gzip = promisify(gzipWithCallback);

// Below this the time to compress is longer than the time saved, on any network a server and its clients share.
const gzipBytesMin = 128 * 1024;

export async function sendReply(
  exchange: Exchange,
  code: number,
  headers: ResponseHeaders,
  body: string | Buffer,
): Promise<void> {
  const isLarge = body.length > gzipBytesMin;
  if (!isLarge || !acceptsGzip(exchange.header('accept-encoding'))) return exchange.send(code, headers, body);
  const packed = await gzip(body, { level: 1 });
  const vary = [headers['vary'] ?? [], 'Accept-Encoding'].flat().join(', ');
  exchange.send(code, { ...headers, 'content-encoding': 'gzip', vary }, packed);
}

function acceptsGzip(header: string | undefined): boolean {
  return (header ?? '').split(',').some((part) => {
    const [name = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase());
    return name === 'gzip' && !parameters.some((text) => /^q=0(\.0*)?$/.test(text));
  });
}
