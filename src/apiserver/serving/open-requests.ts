/**
 * The requests that are being answered: how many there may be, and what ends one before its answer, because its time is up, its
 * client is gone or the server stops. One timer serves them all: a timer and a signal for each would cost as much as the rest
 * of a small request.
 */
import { onAbort } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { parseDurationMs } from '../../kube/values/times.ts';
import type { User } from '../identity/user.ts';
import type { Resource } from '../model/resource.ts';
import { badRequest, timedOut, tooManyRequests, unavailable } from '../model/status.ts';
import type { ApiRequest, Exchange, Representation } from '../rest/api-request.ts';
import type { ResourceRequest } from '../rest/request-info.ts';
import { ConnectionLost } from './http-exchange.ts';
import type { ApiMetrics } from './metrics.ts';
import type { Warnings } from './send-reply.ts';

// These limits and times are the API's own defaults. Requests that last (watches) cost next to nothing while they wait.
const limits = { readOnly: 400, mutating: 200 } as const;
const mutatingMs = 34_000;
const readingMs = 60_000;
const reading = new Set(['get', 'list', 'watch']);

/** How much longer than its time a request may last. */
const tickMs = 250;

interface OpenRequestsDeps {
  readonly clock: Clock;
  readonly metrics: Pick<ApiMetrics, 'inFlight' | 'longRunning'>;
}

export class OpenRequests {
  readonly #deps: OpenRequestsDeps;
  /** The tick at which its time is up, of each request that does not last. */
  readonly #ends = new Map<OpenRequest, number>();
  readonly #counts = { readOnly: 0, mutating: 0 };
  readonly #closed = new AbortController();
  #long = 0;
  #ticks = 0;
  #ticking: Promise<void> | undefined;

  constructor(deps: OpenRequestsDeps) {
    this.#deps = deps;
  }

  /** Throws a 429 when there are too many already. */
  enter(request: OpenRequest): void {
    if (request.isLong) return this.#deps.metrics.longRunning((this.#long += 1));
    const { verb } = request.info;
    const kind = kindOf(request);
    const durationMs = Math.min(askedMs(request.query), verb === 'get' || verb === 'list' ? readingMs : mutatingMs);
    if (this.#counts[kind] >= limits[kind]) throw tooManyRequests('Too many requests, please try again later.', 1);
    this.#deps.metrics.inFlight(kind, (this.#counts[kind] += 1));
    // The tick that is under way has begun already.
    this.#ends.set(request, this.#ticks + 1 + Math.ceil(durationMs / tickMs));
    this.#ticking ??= this.#tick();
  }

  /** The request was answered. */
  leave(request: OpenRequest): void {
    request.answered();
    if (request.isLong) return this.#deps.metrics.longRunning((this.#long -= 1));
    const kind = kindOf(request);
    this.#deps.metrics.inFlight(kind, (this.#counts[kind] -= 1));
    this.#ends.delete(request);
  }

  /** What has been read is carried out; what is still being sent is sent again, to the server that comes next. */
  stop(): void {
    for (const { exchange } of this.#ends.keys()) exchange.stopReading(unavailable());
  }

  /** When all are answered. */
  async close(): Promise<void> {
    this.#closed.abort();
    await this.#ticking;
  }

  async #tick(): Promise<void> {
    const { signal } = this.#closed;
    while (this.#ends.size > 0 && !signal.aborted) {
      await this.#deps.clock.sleep(tickMs, signal).catch(() => {});
      this.#ticks += 1;
      for (const [request, end] of this.#ends) {
        if (end <= this.#ticks) request.end(timedOut('request did not complete within the allotted timeout'));
      }
    }
    this.#ticking = undefined;
  }
}

function kindOf({ info }: OpenRequest): keyof typeof limits {
  return reading.has(info.verb) ? 'readOnly' : 'mutating';
}

/** `timeout=32s`, as clients send it. Throws a 400 for what is not a duration. */
export function askedMs(query: URLSearchParams): number {
  const text = query.get('timeout') ?? '';
  if (text === '') return Infinity;
  const ms = parseDurationMs(text);
  if (ms === undefined) {
    const problem = /^[+-]?[\d.]*\d[\d.]*$/.test(text) ? 'missing unit in' : 'invalid';
    throw badRequest(`invalid timeout specified in the request URL - time: ${problem} duration ${goQuote(text)}`);
  }
  return ms > 0 ? ms : Infinity;
}

/** One of them, as handlers get it. */
export class OpenRequest implements ApiRequest {
  readonly exchange: Exchange;
  readonly info: ResourceRequest;
  readonly resource: Resource;
  readonly served: Resource;
  readonly query: URLSearchParams;
  readonly user: User;
  readonly representation: Representation;
  readonly isLong: boolean;
  readonly #warnings: Warnings;
  readonly #stopping: AbortSignal;
  #stopListening: () => void = () => {};
  #ended: Error | undefined;
  #isAnswered = false;
  #controller: AbortController | undefined;

  /** `isLong`: it lasts as long as both sides like, and ends when the server stops. */
  constructor(
    request: Omit<ApiRequest, 'signal' | 'warn'>,
    isLong: boolean,
    warnings: Warnings,
    stopping: AbortSignal,
  ) {
    this.exchange = request.exchange;
    this.info = request.info;
    this.resource = request.resource;
    this.served = request.served;
    this.query = request.query;
    this.user = request.user;
    this.representation = request.representation;
    this.isLong = isLong;
    this.#warnings = warnings;
    this.#stopping = stopping;
  }

  /** Made when it is asked for, as it has its price: most requests never wait for more than their body and the disk. */
  get signal(): AbortSignal {
    return (this.#controller ??= this.#start()).signal;
  }

  warn(text: string): void {
    this.#warnings.add(text);
  }

  answered(): void {
    this.#isAnswered = true;
    this.#stopListening();
  }

  end(reason: Error): void {
    if (this.#isAnswered) return;
    this.#ended ??= reason;
    this.exchange.stopReading(reason);
    this.#controller?.abort(reason);
  }

  #start(): AbortController {
    const controller = new AbortController();
    if (this.#ended !== undefined) controller.abort(this.#ended);
    this.exchange.onClose(() => this.end(new ConnectionLost('the client closed the connection')));
    if (this.isLong) this.#stopListening = onAbort(this.#stopping, () => this.end(unavailable()));
    return controller;
  }
}
