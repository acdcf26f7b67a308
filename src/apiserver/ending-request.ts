/** A request as handlers get it, with a deadline. */
import type { Exchange } from './http/exchange.ts';
import type { Warnings } from './http/warnings.ts';
import type { User } from './identity/user.ts';
import type { RequestDeadline } from './request-deadline.ts';
import type { ResourceRequest } from './request-info.ts';
import type { Resource } from './resource.ts';
import type { ApiRequest } from './rest/api-request.ts';

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
