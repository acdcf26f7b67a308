/** The server's figures, under the names that dashboards for API servers look for. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { RequestNotice } from '../model/notices.ts';

const requestLabels = ['verb', 'group', 'version', 'resource', 'subresource', 'scope'] as const;

interface MetricSources {
  /** How many objects of which resource there are. */
  objectCounts(): Iterable<readonly [resource: string, count: number]>;
  watches(): number;
}

export class ApiMetrics {
  readonly #registry = new Registry();
  readonly #requests: Counter<'code' | (typeof requestLabels)[number]>;
  readonly #durations: Histogram<(typeof requestLabels)[number]>;
  /** Changes twice with every request, and is asked for now and then. */
  readonly #inFlightNow = new Map<string, number>();
  readonly #longRunning: Gauge;
  readonly #watchEvents: Counter;

  constructor(sources: MetricSources) {
    const registers = [this.#registry];
    this.#requests = new Counter({
      name: 'apiserver_request_total',
      help: 'Requests that were answered, by what they asked for and how.',
      labelNames: [...requestLabels, 'code'],
      registers,
    });
    this.#durations = new Histogram({
      name: 'apiserver_request_duration_seconds',
      help: 'How long answers took; watches and other long requests are not in it.',
      labelNames: requestLabels,
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers,
    });
    const inFlight = new Gauge({
      name: 'apiserver_current_inflight_requests',
      help: 'Requests that are being answered.',
      labelNames: ['request_kind'],
      registers,
      collect: () => {
        for (const [kind, count] of this.#inFlightNow) inFlight.set({ request_kind: kind }, count);
      },
    });
    this.#longRunning = new Gauge({
      name: 'apiserver_longrunning_requests',
      help: 'Watches and other requests that last.',
      registers,
    });
    this.#watchEvents = new Counter({
      name: 'apiserver_watch_events_total',
      help: 'Events that were sent to watches.',
      registers,
    });
    const objects = new Gauge({
      name: 'apiserver_storage_objects',
      help: 'Objects in the store, by resource.',
      labelNames: ['resource'],
      registers,
      collect: () => {
        objects.reset();
        for (const [resource, count] of sources.objectCounts()) objects.set({ resource }, count);
      },
    });
    const watches: Gauge = new Gauge({
      name: 'apiserver_registered_watchers',
      help: 'Open watches.',
      registers,
      collect: () => watches.set(sources.watches()),
    });
  }

  served(notice: RequestNotice, isLong: boolean): void {
    const { verb, group, version, resource, subresource, scope } = notice;
    const labels = { verb: verb.toUpperCase(), group, version, resource, subresource, scope };
    this.#requests.inc({ ...labels, code: String(notice.code) });
    if (!isLong) this.#durations.observe(labels, notice.tookMs / 1000);
  }

  inFlight(kind: 'readOnly' | 'mutating', count: number): void {
    this.#inFlightNow.set(kind, count);
  }

  longRunning(count: number): void {
    this.#longRunning.set(count);
  }

  watchEventsSent(count: number): void {
    this.#watchEvents.inc(count);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }
}
