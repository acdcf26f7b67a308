/** What ends a request before its answer: its time is up, its client is gone, or, for one that lasts, the server stops. */
import { onAbort } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import type { User } from '../identity/user.ts';
import type { Resource } from '../model/resource.ts';
import { timedOut, unavailable } from '../model/status.ts';
import type { ApiRequest, Exchange } from '../rest/api-request.ts';
import type { ResourceRequest } from '../rest/request-info.ts';
import { ConnectionLost } from './http-exchange.ts';
import type { Warnings } from './send-reply.ts';

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
  #stopListening: () => void = () => {};
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
    this.#stopListening();
  }

  #start(): AbortController {
    const controller = new AbortController();
    if (this.#ended !== undefined) controller.abort(this.#ended);
    this.#exchange.onClose(() => this.#end(new ConnectionLost('the client closed the connection')));
    if (this.#deps.isLong) this.#stopListening = onAbort(this.#deps.stopping, () => this.#end(unavailable()));
    return controller;
  }

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

/** A request as handlers get it, with a deadline. */
/** A class for its getter: a signal has its price, and most requests need none. */
export class EndingRequest implements ApiRequest {
  readonly exchange: Exchange;
  readonly info: ResourceRequest;
  readonly resource: Resource;
  readonly served: Resource;
  readonly query: URLSearchParams;
  readonly user: User;
  readonly #deadline: RequestDeadline;
  readonly #warnings: Warnings;

  constructor(request: Omit<ApiRequest, 'signal' | 'warn'>, deadline: RequestDeadline, warnings: Warnings) {
    this.exchange = request.exchange;
    this.info = request.info;
    this.resource = request.resource;
    this.served = request.served;
    this.query = request.query;
    this.user = request.user;
    this.#deadline = deadline;
    this.#warnings = warnings;
  }

  get signal(): AbortSignal {
    return this.#deadline.signal;
  }

  warn(text: string): void {
    this.#warnings.add(text);
  }
}

/**
 * The requests that are being answered, without those that last, and who of them has taken too long. One timer serves them all: a timer and a signal for
 * each would cost as much as the rest of a small request.
 */
interface OpenRequest {
  timeIsUp(): void;
  serverStops(): void;
}

interface Entry {
  readonly request: OpenRequest;
  readonly lastTick: number;
}

/** How much longer than its time a request may last. Nobody waits for half a minute and minds a quarter of a second. */
const tickMs = 250;

export class OpenRequests {
  readonly #clock: Clock;
  readonly #entries = new Set<Entry>();
  readonly #closed = new AbortController();
  #ticks = 0;
  #ticking: Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns what to call when it was answered. */
  enter(durationMs: number, request: OpenRequest): () => void {
    // The tick that is under way has begun already.
    const entry = { request, lastTick: this.#ticks + 1 + Math.ceil(durationMs / tickMs) };
    this.#entries.add(entry);
    this.#ticking ??= this.#tick();
    return () => this.#entries.delete(entry);
  }

  stop(): void {
    for (const { request } of this.#entries) request.serverStops();
  }

  /** When all are answered. */
  async close(): Promise<void> {
    this.#closed.abort();
    await this.#ticking;
  }

  async #tick(): Promise<void> {
    const { signal } = this.#closed;
    while (this.#entries.size > 0 && !signal.aborted) {
      await this.#clock.sleep(tickMs, signal).catch(() => {});
      this.#ticks += 1;
      for (const { request, lastTick } of this.#entries) if (lastTick <= this.#ticks) request.timeIsUp();
    }
    this.#ticking = undefined;
  }
}
