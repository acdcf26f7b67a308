/** The whole answer to a short request, within bounds. */
import { AnswerUnreadableError } from './transport-errors.ts';
import type { HttpHead, HttpRequest, HttpSink, Transport } from './transport.ts';

export function receiveAnswer(
  transport: Transport,
  request: HttpRequest,
  what: string,
  bytesMax: number,
  signal: AbortSignal,
): Promise<{ readonly head: HttpHead; readonly body: Buffer }> {
  return new Promise((resolve, reject) => {
    let head: HttpHead = { status: 0, headers: {} };
    let bytes = 0;
    const chunks: Buffer[] = [];
    const sink: HttpSink = {
      head: (received) => (head = received),
      data: (chunk) => {
        bytes += chunk.length;
        if (bytes <= bytesMax) chunks.push(chunk);
        else reject(new AnswerUnreadableError(what, `it is larger than ${bytesMax} bytes`));
      },
      end: () => resolve({ head, body: Buffer.concat(chunks) }),
      failed: reject,
    };
    transport.send(request, sink, signal).catch(reject);
  });
}
