/** How many requests are being answered at once, and the limit beyond which the server asks clients to come back. */
import type { ApiMetrics } from './metrics.ts';
import type { ResourceRequest } from './request-info.ts';
import { tooManyRequests } from './status.ts';

// As the API's own defaults. Requests that last (watches) count for nothing: they cost next to nothing while they wait.
const limits = { readOnly: 400, mutating: 200 } as const;
const reading = new Set(['get', 'list', 'watch']);

export class InFlight {
  readonly #metrics: Pick<ApiMetrics, 'inFlight' | 'longRunning'>;
  readonly #counts = { readOnly: 0, mutating: 0 };
  #long = 0;

  constructor(metrics: Pick<ApiMetrics, 'inFlight' | 'longRunning'>) {
    this.#metrics = metrics;
  }

  /** Throws a 429 when there are too many already. Returns what to call at the end. */
  enter({ verb }: Pick<ResourceRequest, 'verb'>, isLong: boolean): () => void {
    if (isLong) {
      this.#metrics.longRunning((this.#long += 1));
      return () => this.#metrics.longRunning((this.#long -= 1));
    }
    const kind = reading.has(verb) ? 'readOnly' : 'mutating';
    if (this.#counts[kind] >= limits[kind]) throw tooManyRequests('Too many requests, please try again later.', 1);
    this.#metrics.inFlight(kind, (this.#counts[kind] += 1));
    return () => this.#metrics.inFlight(kind, (this.#counts[kind] -= 1));
  }
}
