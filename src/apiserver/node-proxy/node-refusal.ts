/** A node's refusal, which is plain text, as the Status that clients of the API understand. */
import type { IncomingMessage } from 'node:http';
import { StatusError } from '../status.ts';

const acceptedProtocols = 'x-accepted-stream-protocol-versions';
const reasons: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
};
// Enough for any message; the rest of a long page is not read.
const textBytesMax = 2048;

class NodeRefusal extends StatusError {
  override readonly headers: Readonly<Record<string, string>>;

  constructor(code: number, message: string, headers: Readonly<Record<string, string>>) {
    super(code, reasons[code] ?? 'InternalError', message);
    this.headers = headers;
  }
}

export async function nodeRefusal(response: IncomingMessage, isUpgrade: boolean): Promise<NodeRefusal> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of response as AsyncIterable<Buffer>) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes >= textBytesMax) break;
  }
  const text = Buffer.concat(pieces).subarray(0, textBytesMax).toString('utf8').trim();
  const accepted = response.headers[acceptedProtocols];
  const headers = typeof accepted === 'string' ? { [acceptedProtocols]: accepted } : {};
  const given = response.statusCode ?? 500;
  // A node that refuses its server is no reason to tell the client that it is the one refused.
  const code = given === 401 || given < 400 ? 500 : given;
  const message = given === 401 ? `the node refused this server: ${text}` : text;
  return new NodeRefusal(
    code,
    isUpgrade && code >= 500 ? `unable to upgrade connection: ${message}` : message,
    headers,
  );
}
