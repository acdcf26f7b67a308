/** Opens one watch: until the server accepts it, its answer is a refusal to be read; from then on it is a stream of events. */
import { onAbort } from '../base/abort.ts';
import { readError } from './api-answer.ts';
import type { HttpHead, HttpRequest, HttpSink, Transport } from './transport.ts';
import type { WatchGuard, WatchTimes } from './watch-guard.ts';
import { type WatchLimits, WatchStream } from './watch-stream.ts';

interface OpenWatchDeps {
  readonly transport: Transport;
  readonly guard: WatchGuard;
  readonly limits: WatchLimits;
}

// Of a refusal to watch; a Status is a few hundred bytes.
const errorChunksMax = 64;

export async function openWatch(
  { transport, guard, limits }: OpenWatchDeps,
  request: HttpRequest,
  what: string,
  times: WatchTimes,
  signal: AbortSignal,
): Promise<WatchStream> {
  // It may have aborted while the credentials were read, and would not do so again.
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const cancel = new AbortController();
    const stopListening = onAbort(signal, () => cancel.abort(signal.reason));
    const finished = (): void => {
      stopListening();
      guard.remove(stream);
    };
    const stream = new WatchStream(what, limits, (reason) => cancel.abort(reason));
    let refusal: { readonly head: HttpHead; readonly body: Buffer[] } | undefined;
    guard.add(stream, what, times);
    const sink: HttpSink = {
      head: (head) => {
        guard.answered(stream);
        if (head.status === 200) resolve(stream);
        else refusal = { head, body: [] };
      },
      data: (chunk) => {
        if (refusal === undefined) stream.receive(chunk);
        else if (refusal.body.length < errorChunksMax) refusal.body.push(chunk);
      },
      end: () => {
        finished();
        if (refusal === undefined) stream.complete();
        else reject(readError(refusal.head, Buffer.concat(refusal.body), what));
      },
      failed: (error) => {
        finished();
        stream.fail(error);
        reject(error);
      },
    };
    transport.send(request, sink, cancel.signal).catch((error: unknown) => {
      finished();
      reject(error);
    });
  });
}
