/**
 * Writes Kubernetes Events. Recording one neither blocks nor fails: it is put into a queue, and what goes wrong on the way to
 * the server becomes a notice. Which of them become objects is decided by event-correlator.ts.
 */
import { onAbort } from '../base/abort.ts';
import { type Pausing, pauseOf } from '../base/clock.ts';
import { OperatingError } from '../base/errors.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import { AlreadyExistsError, ApiError, NotFoundError } from '../client/api/api-errors.ts';
import { InvalidPlaceError, events as eventResource, withShape } from '../client/api/resource-reference.ts';
import { ClientClosedError } from '../client/transport/transport.ts';
import { type Event, eventShape } from '../kube/kinds/event.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { ObjectReference } from '../kube/schema/meta.ts';
import { timestamp } from '../kube/values/times.ts';
import { type Correlated, EventCorrelator, EventNames, type EventNamesDeps } from './event-correlator.ts';

export type EventNotice =
  /** Dropped: the queue is full, or the recorder has ended. */
  | { readonly kind: 'EventLost'; readonly event: NewEvent }
  /** The server does not want it, or could not be reached for a long time. */
  | { readonly kind: 'EventUnwritten'; readonly event: Event; readonly error: unknown };

interface EventRecorderDeps extends EventNamesDeps, Pausing {
  readonly client: Pick<ApiClient, 'create' | 'patch'>;
  readonly notify: (notice: EventNotice) => void;
}

interface EventRecorderSettings {
  readonly nodeName: string;
  /** How long the end of the node may be held up by events that are not yet written. */
  readonly flushMs: number;
}

/** The name under which tools look for what a node says. */
const component = 'kubelet';
/** As Kubernetes' own clients: with the server away, this is what a busy node says in a few minutes. */
const queuedMax = 1_000;
const triesMax = 12;
const retryMs = 10_000;

const resource = withShape(eventResource, eventShape);

export class EventRecorder implements EventSink {
  readonly #deps: EventRecorderDeps;
  readonly #settings: EventRecorderSettings;
  readonly #names: EventNames;
  readonly #correlator: EventCorrelator;
  readonly #queue: Event[] = [];
  #wake: () => void = () => {};
  #hasEnded = false;

  constructor(deps: EventRecorderDeps, settings: EventRecorderSettings) {
    this.#deps = deps;
    this.#settings = settings;
    this.#names = new EventNames(deps);
    this.#correlator = new EventCorrelator({ clock: deps.clock, names: this.#names });
  }

  record(event: NewEvent): void {
    if (this.#hasEnded || this.#queue.length >= queuedMax) return this.#deps.notify({ kind: 'EventLost', event });
    this.#queue.push(this.#eventOf(event));
    this.#wake();
  }

  /** Writes what is recorded until the signal aborts; then what is still queued, each once, in the time there is for that. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, notify } = this.#deps;
    const late = new AbortController();
    const finished = new AbortController();
    let timer: Promise<void> | undefined;
    const close = (): void => {
      const { flushMs } = this.#settings;
      const text = `Could not write all events within ${flushMs / 1000} s of the node's end`;
      const overdue = (): void => late.abort(new OperatingError('EventsOverdue', text));
      timer = clock.sleep(flushMs, finished.signal).then(overdue, () => {});
      this.#wake();
    };
    const stopListening = onAbort(signal, close);
    if (signal.aborted) close();
    try {
      while (!late.signal.aborted) {
        const event = this.#queue.shift();
        if (event !== undefined) await this.#process(event, signal, late.signal);
        else if (signal.aborted) break;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      this.#hasEnded = true;
      stopListening();
      finished.abort();
      await timer;
      for (const event of this.#queue.splice(0)) notify({ kind: 'EventUnwritten', event, error: late.signal.reason });
    }
  }

  /** An event that cannot be dealt with costs the others nothing. */
  async #process(event: Event, signal: AbortSignal, late: AbortSignal): Promise<void> {
    try {
      await this.#write(this.#correlator.correlate(event), signal, late);
    } catch (error) {
      this.#deps.notify({ kind: 'EventUnwritten', event, error });
    }
  }

  /** `signal` ends the patience, `late` the attempt itself. */
  async #write(correlated: Correlated, signal: AbortSignal, late: AbortSignal): Promise<void> {
    if (correlated.kind === 'drop') return;
    const { random, notify } = this.#deps;
    for (let tries = 1; ; tries += 1) {
      const isLast = signal.aborted || tries >= triesMax;
      try {
        return await this.#send(correlated, late);
      } catch (error) {
        // Tried again after an answer that was lost, it is there already.
        if (error instanceof AlreadyExistsError && tries > 1) return;
        // Its pods end, and whoever ended the namespace knows why: nothing is lost that anybody could read.
        if (error instanceof ApiError && error.causes.some(({ reason }) => reason === 'NamespaceTerminating')) return;
        if (isLast || late.aborted || isFinal(error))
          return notify({ kind: 'EventUnwritten', event: correlated.event, error });
      }
      // The first sleep is of chance, for all nodes lost the server at the same time.
      await pauseOf(this.#deps)(tries === 1 ? retryMs * random() : retryMs, signal).catch(() => {});
    }
  }

  async #send(correlated: Exclude<Correlated, { readonly kind: 'drop' }>, signal: AbortSignal): Promise<void> {
    const { client } = this.#deps;
    const { event } = correlated;
    const { namespace, name } = event.metadata;
    if (correlated.kind === 'patch') {
      try {
        await client.patch(resource, { namespace, name, type: 'strategic' }, correlated.patch, signal);
        return;
      } catch (error) {
        // Servers keep events for an hour or so.
        if (!(error instanceof NotFoundError)) throw error;
      }
    }
    await client.create(resource, { namespace }, event, signal);
  }

  #eventOf({ object, type, reason, message, annotations }: NewEvent): Event {
    const { nodeName: host } = this.#settings;
    const time = timestamp(this.#deps.clock.now());
    const namespace = object.namespace === undefined || object.namespace === '' ? 'default' : object.namespace;
    return {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: this.#names.next(object.name), namespace, ...(annotations && { annotations }) },
      involvedObject: referenceOf(object),
      type,
      reason,
      message,
      count: 1,
      firstTimestamp: time,
      lastTimestamp: time,
      source: { component, host },
      reportingComponent: component,
      reportingInstance: host,
    };
  }
}

/** The server said no, or would never be asked: the same again ends the same. */
function isFinal(error: unknown): boolean {
  return error instanceof ApiError || error instanceof InvalidPlaceError || error instanceof ClientClosedError;
}

/** What a Kubernetes Event is about: an object, or a container within a pod. */
export interface EventObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Absent for cluster-wide objects. */
  readonly namespace?: string | undefined;
  readonly name: string;
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
  /** The part of the object: `spec.containers{web}`. */
  readonly fieldPath?: string | undefined;
}

/** An Event to be recorded. The recorder adds its source and time. */
export interface NewEvent {
  readonly object: EventObject;
  readonly type: 'Normal' | 'Warning';
  /** One word in UpperCamelCase, on which people filter. */
  readonly reason: string;
  /** Holds no value of a Secret. */
  readonly message: string;
  /** For programs that read it. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

/** All that anyone needs of a recorder. */
export interface EventSink {
  record(event: NewEvent): void;
}

/** The pod, or the container of this name in it. */
export function podEventObject({ metadata, spec }: Pod, container?: string): EventObject {
  const { namespace, name, uid, resourceVersion } = metadata;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    namespace,
    name,
    uid,
    resourceVersion,
    ...(container !== undefined && { fieldPath: containerPath(spec, container) }),
  };
}

const containerLists = ['containers', 'initContainers', 'ephemeralContainers'] as const;

function containerPath(spec: Pod['spec'], container: string): string {
  const list = containerLists.find((field) => spec[field]?.some(({ name }) => name === container));
  return list === undefined ? `implicitly required container ${container}` : `spec.${list}{${container}}`;
}

/**
 * Until the cluster has said which UID the node has, its name stands for it: that is where `kubectl describe node` looks too.
 */
export function nodeEventObject(name: string, uid: string | undefined): EventObject {
  return { apiVersion: 'v1', kind: 'Node', name, uid: uid ?? name };
}

export function referenceOf(object: EventObject): ObjectReference {
  const { apiVersion, kind, namespace, name, uid, resourceVersion, fieldPath } = object;
  return {
    apiVersion,
    kind,
    name,
    ...(namespace !== undefined && { namespace }),
    ...(uid !== undefined && { uid }),
    ...(resourceVersion !== undefined && { resourceVersion }),
    ...(fieldPath !== undefined && { fieldPath }),
  };
}
