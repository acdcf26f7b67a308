/** What ends a request before its answer: its time is up, its client is gone, or, for one that lasts, the server stops. */
import type { Exchange } from './http/exchange.ts';
import { ConnectionLost } from './http/read-body.ts';
import type { OpenRequests } from './open-requests.ts';
import type { ResourceRequest } from './request-info.ts';
import { timedOut, unavailable } from './status.ts';

// As the API's own.
const mutatingMs = 34_000;
const readingMs = 60_000;

interface DeadlineDeps {
  readonly open: OpenRequests;
  readonly stopping: AbortSignal;
  readonly isLong: boolean;
}

export class RequestDeadline {
  readonly #exchange: Exchange;
  readonly #deps: DeadlineDeps;
  #leave: () => void = () => {};
  #ended: Error | undefined;
  #isAnswered = false;
  #controller: AbortController | undefined;

  constructor(exchange: Exchange, info: ResourceRequest, query: URLSearchParams, deps: DeadlineDeps) {
    this.#exchange = exchange;
    this.#deps = deps;
    const isReading = info.verb === 'get' || info.verb === 'list';
    const durationMs = Math.min(askedMs(query), isReading ? readingMs : mutatingMs);
    if (deps.isLong) return;
    this.#leave = deps.open.enter(durationMs, {
      timeIsUp: () => this.#end(timedOut('request did not complete within the allotted timeout')),
      // What has been read is carried out; what is still being sent is sent again, to whoever serves next.
      serverStops: () => exchange.stopReading(unavailable()),
    });
  }

  /** Made when somebody needs it, as it has its price: most requests never wait for more than their body and the disk. */
  get signal(): AbortSignal {
    return (this.#controller ??= this.#start()).signal;
  }

  /** The request was answered. */
  done(): void {
    this.#isAnswered = true;
    this.#leave();
    if (this.#controller !== undefined) this.#deps.stopping.removeEventListener('abort', this.#onStop);
  }

  #start(): AbortController {
    const controller = new AbortController();
    if (this.#ended !== undefined) controller.abort(this.#ended);
    this.#exchange.onClose(() => this.#end(new ConnectionLost('the client closed the connection')));
    if (this.#deps.isLong) this.#deps.stopping.addEventListener('abort', this.#onStop, { once: true });
    return controller;
  }

  readonly #onStop = (): void => this.#end(unavailable());

  #end(reason: Error): void {
    if (this.#isAnswered) return;
    this.#ended ??= reason;
    this.#exchange.stopReading(reason);
    this.#controller?.abort(reason);
  }
}

/** `timeout=32s`, as clients send it. */
function askedMs(query: URLSearchParams): number {
  const match = /^(\d{1,6})(ms|s|m)$/.exec(query.get('timeout') ?? '');
  if (match === null) return Infinity;
  const [, count, unit] = match;
  const ms = Number(count) * (unit === 'ms' ? 1 : unit === 's' ? 1000 : 60_000);
  return ms === 0 ? Infinity : ms;
}
