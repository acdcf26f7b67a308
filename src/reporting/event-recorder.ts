/** Tells the cluster what happens on this node, as Events of the objects it happens to. Nobody ever waits for it. */
import type { Clock } from '../base/clock.ts';
import { ApiError, NotFoundError } from '../client/api-errors.ts';
import type { ApiClient } from '../client/api-client.ts';
import { events, withShape } from '../client/resource-reference.ts';
import type { Event } from '../kube/objects/event.ts';
import { event as eventShape } from '../kube/objects/event.ts';
import { dnsSubdomainProblems } from '../kube/values/names.ts';
import { timestamp } from '../kube/values/timestamp.ts';
import type { Correlated } from './event-correlator.ts';
import { EventCorrelator } from './event-correlator.ts';

/** What an event is about. */
export interface EventSubject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Empty for what belongs to the cluster; its events go to `default`. */
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion?: string | undefined;
  /** `spec.containers{web}`. */
  readonly fieldPath?: string | undefined;
}

export interface EventRecorderDeps {
  readonly client: Pick<ApiClient, 'create' | 'patch'>;
  readonly clock: Clock;
  /** 0 to 1. */
  readonly chance: () => number;
  readonly uuid: () => string;
  readonly notify: (notice: EventNotice) => void;
}

export type EventNotice =
  | { readonly kind: 'EventDropped'; readonly reason: string; readonly because: 'queue' | 'allowance' | 'tries' }
  | { readonly kind: 'EventRefused'; readonly reason: string; readonly error: unknown };

export interface EventSource {
  readonly component: string;
  readonly host: string;
}

// Beyond this the node tells faster than it can be heard.
const queuedMax = 1000;
const triesMax = 12;
const retryMs = 10_000;

const eventResource = withShape(events, eventShape);

export class EventRecorder {
  readonly #deps: EventRecorderDeps;
  readonly #source: EventSource;
  readonly #correlator = new EventCorrelator();
  readonly #queue: Event[] = [];
  #wake: () => void = () => {};
  #lastNanoseconds = 0n;

  constructor(deps: EventRecorderDeps, source: EventSource) {
    this.#deps = deps;
    this.#source = source;
  }

  /** Returns at once; `run` writes it. */
  record(subject: EventSubject, type: 'Normal' | 'Warning', reason: string, message: string): void {
    if (this.#queue.length >= queuedMax) {
      this.#deps.notify({ kind: 'EventDropped', reason, because: 'queue' });
      return;
    }
    this.#queue.push(this.#eventOf(subject, type, reason, message));
    this.#wake();
  }

  /** Writes events in the order they were recorded, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const onAbort = (): void => this.#wake();
    signal.addEventListener('abort', onAbort, { once: true });
    while (!signal.aborted) {
      const event = this.#queue.shift();
      if (event !== undefined) await this.#write(event, signal);
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    signal.removeEventListener('abort', onAbort);
  }

  #eventOf(subject: EventSubject, type: string, reason: string, message: string): Event {
    const { apiVersion, kind, namespace, name, uid, resourceVersion, fieldPath } = subject;
    const { component, host } = this.#source;
    const at = timestamp(this.#deps.clock.now());
    return {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: this.#nameFor(name), namespace: namespace === '' ? 'default' : namespace },
      involvedObject: {
        apiVersion,
        kind,
        name,
        uid,
        ...(namespace !== '' && { namespace }),
        ...(resourceVersion !== undefined && { resourceVersion }),
        ...(fieldPath !== undefined && { fieldPath }),
      },
      reason,
      message,
      source: { component, host },
      firstTimestamp: at,
      lastTimestamp: at,
      count: 1,
      type,
      reportingComponent: component,
      reportingInstance: host,
    };
  }

  /** Never twice the same, also within one millisecond. */
  #nameFor(subject: string): string {
    const now = BigInt(this.#deps.clock.now()) * 1_000_000n;
    this.#lastNanoseconds = now > this.#lastNanoseconds ? now : this.#lastNanoseconds + 1n;
    const name = `${subject}.${this.#lastNanoseconds.toString(16)}`;
    return dnsSubdomainProblems(name).length === 0 ? name : this.#deps.uuid();
  }

  async #write(event: Event, signal: AbortSignal): Promise<void> {
    const { clock, chance, notify } = this.#deps;
    const reason = event.reason ?? '';
    const correlated = this.#correlator.correlate(event, clock.now());
    if (correlated.kind === 'drop') {
      notify({ kind: 'EventDropped', reason, because: 'allowance' });
      return;
    }
    for (let tried = 1; !signal.aborted; tried += 1) {
      try {
        this.#correlator.written(correlated.key, await this.#send(correlated, signal));
        return;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ApiError) {
          // The server has heard it and does not want it.
          notify({ kind: 'EventRefused', reason, error });
          return;
        }
        if (tried >= triesMax) {
          notify({ kind: 'EventDropped', reason, because: 'tries' });
          return;
        }
        // The first wait differs, because all nodes lose the server in the same moment.
        await clock.sleep(tried === 1 ? retryMs * chance() : retryMs, signal).catch(() => {});
      }
    }
  }

  async #send(correlated: Exclude<Correlated, { kind: 'drop' }>, signal: AbortSignal): Promise<Event> {
    const { client } = this.#deps;
    const { event } = correlated;
    const { namespace = '', name } = event.metadata;
    if (correlated.kind === 'patch') {
      try {
        return await client.patch(eventResource, { namespace, name, type: 'strategic' }, correlated.patch, signal);
      } catch (error) {
        // It has expired since: it is told anew, with its count.
        if (!(error instanceof NotFoundError)) throw error;
      }
    }
    return client.create(eventResource, { namespace }, event, signal);
  }
}
