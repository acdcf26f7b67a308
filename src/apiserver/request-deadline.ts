/** The signal that ends a request: its time is up, its client is gone, or, for one that lasts, the server stops. */
import type { Clock } from '../base/clock.ts';
import type { Exchange } from './http/exchange.ts';
import { ConnectionLost } from './http/read-body.ts';
import type { ResourceRequest } from './request-info.ts';
import { timedOut, unavailable } from './status.ts';

// As the API's own.
const mutatingMs = 34_000;
const readingMs = 60_000;

interface DeadlineDeps {
  readonly clock: Clock;
  readonly stopping: AbortSignal;
  readonly isLong: boolean;
}

/** Made once: an error for each request that went well would be the most expensive part of it. */
const answered = new ConnectionLost('the request was answered');

export class RequestDeadline {
  readonly #exchange: Exchange;
  readonly #durationMs: number;
  readonly #deps: DeadlineDeps;
  readonly #over = new AbortController();
  #controller: AbortController | undefined;

  constructor(exchange: Exchange, info: ResourceRequest, query: URLSearchParams, deps: DeadlineDeps) {
    this.#exchange = exchange;
    this.#deps = deps;
    const isReading = info.verb === 'get' || info.verb === 'list';
    this.#durationMs = Math.min(askedMs(query), isReading ? readingMs : mutatingMs);
  }

  /** Made when somebody needs it: most reads never wait. */
  get signal(): AbortSignal {
    return (this.#controller ??= this.#start()).signal;
  }

  /** The request was answered. */
  done(): void {
    if (this.#controller !== undefined) this.#over.abort(answered);
  }

  #start(): AbortController {
    const controller = new AbortController();
    const { clock, stopping, isLong } = this.#deps;
    this.#exchange.onClose(() => {
      if (!this.#over.signal.aborted) controller.abort(new ConnectionLost('the client closed the connection'));
    });
    if (isLong) {
      stopping.addEventListener('abort', () => controller.abort(unavailable()), {
        once: true,
        signal: this.#over.signal,
      });
      return controller;
    }
    clock.sleep(this.#durationMs, this.#over.signal).then(
      () => controller.abort(timedOut('request did not complete within the allotted timeout')),
      () => {},
    );
    return controller;
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
