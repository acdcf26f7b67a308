/**
 * Keeps many events from becoming many objects, as every client of Kubernetes does: the same again raises a count, many that differ
 * only in their text become one, and a source that repeats itself about one object without end is muted. It decides; it sends nothing.
 *
 *   event ──similar?──▶ itself, or one for many ──same?──▶ create, or patch with a higher count ──too much?──▶ drop
 */
import type { Clock } from '../base/clock.ts';
import { TokenBucket } from '../base/token-bucket.ts';
import type { Event } from '../kube/kinds/event.ts';
import { dnsSubdomainProblems } from '../kube/values/names.ts';
import { timestamp } from '../kube/values/times.ts';

export type Correlated =
  | { readonly kind: 'create'; readonly event: Event }
  /** `event` is all of it, for a server that no longer has what the patch is for. */
  | { readonly kind: 'patch'; readonly event: Event; readonly patch: EventPatch }
  | { readonly kind: 'drop' };

type EventPatch = Pick<Event, 'count' | 'lastTimestamp' | 'message'>;

interface CorrelatorDeps {
  readonly clock: Clock;
  readonly names: Pick<EventNames, 'next'>;
}

/** The numbers of Kubernetes' own clients. */
const remembered = 4_096;
const similarMax = 10;
const similarGapMs = 600_000;
const perObject = { burst: 25, perSecond: 1 / 300 };

interface Similar {
  /** Different texts, the oldest first. */
  readonly messages: Set<string>;
  lastAt: number;
}

interface Sent {
  readonly name: string;
  readonly count: number;
  readonly firstTimestamp: string | undefined;
}

export class EventCorrelator {
  readonly #deps: CorrelatorDeps;
  readonly #similar = new RecentMap<string, Similar>(remembered);
  readonly #sent = new RecentMap<string, Sent>(remembered);
  readonly #buckets = new RecentMap<string, TokenBucket>(remembered);

  constructor(deps: CorrelatorDeps) {
    this.#deps = deps;
  }

  correlate(newest: Event): Correlated {
    const { event, key } = this.#gathered(newest);
    const counted = this.#counted(event, key);
    // Counted before it is dropped, so that the next one that passes has the real count.
    return this.#mayPass(counted.event) ? counted : { kind: 'drop' };
  }

  #gathered(event: Event): { readonly event: Event; readonly key: string } {
    const now = this.#deps.clock.now();
    const key = keyOf(event, 'similar', event.reason);
    const known = this.#similar.get(key);
    const isRecent = known !== undefined && now - known.lastAt <= similarGapMs;
    const similar = isRecent ? known : { messages: new Set<string>(), lastAt: now };
    similar.messages.add(event.message ?? '');
    similar.lastAt = now;
    this.#similar.set(key, similar);
    if (similar.messages.size < similarMax) {
      const { involvedObject, reason, message } = event;
      return { event, key: keyOf(event, 'same', involvedObject.fieldPath, reason, message) };
    }
    const [oldest] = similar.messages;
    if (oldest !== undefined) similar.messages.delete(oldest);
    const time = timestamp(now);
    const { name = '' } = event.involvedObject;
    const metadata = { ...event.metadata, name: this.#deps.names.next(name) };
    const message = `(combined from similar events): ${event.message ?? ''}`;
    return { event: { ...event, metadata, message, count: 1, firstTimestamp: time, lastTimestamp: time }, key };
  }

  #counted(event: Event, key: string): Exclude<Correlated, { readonly kind: 'drop' }> {
    const before = this.#sent.get(key);
    const count = (before?.count ?? 0) + 1;
    const { name, firstTimestamp } = before ?? { name: event.metadata.name, firstTimestamp: event.firstTimestamp };
    this.#sent.set(key, { name, count, firstTimestamp });
    if (before === undefined) return { kind: 'create', event };
    const { lastTimestamp, message } = event;
    return {
      kind: 'patch',
      event: {
        ...event,
        metadata: { ...event.metadata, name },
        count,
        ...(firstTimestamp !== undefined && { firstTimestamp }),
      },
      patch: {
        count,
        ...(lastTimestamp !== undefined && { lastTimestamp }),
        ...(message !== undefined && { message }),
      },
    };
  }

  #mayPass(event: Event): boolean {
    const key = keyOf(event);
    const bucket = this.#buckets.get(key) ?? new TokenBucket(this.#deps.clock, perObject);
    this.#buckets.set(key, bucket);
    return bucket.tryTake();
  }
}

/** Source, object and type, and whatever else distinguishes two events. Encoded, so that different parts cannot give the same key. */
function keyOf({ source, involvedObject, type }: Event, ...more: readonly (string | undefined)[]): string {
  const { kind, namespace, name, uid, apiVersion } = involvedObject;
  return JSON.stringify([source?.component, source?.host, kind, namespace, name, uid, apiVersion, type, ...more]);
}

/** Names of Kubernetes Events: that of the object and a moment, which no other event of it has. */
export interface EventNamesDeps {
  readonly clock: Clock;
  /** 0 to 1. */
  readonly random: () => number;
  readonly uuid: () => string;
}

const nanosecondsPerMs = 1_000_000;

export class EventNames {
  readonly #deps: EventNamesDeps;
  #last = 0n;

  constructor(deps: EventNamesDeps) {
    this.#deps = deps;
  }

  /** `web.18a3f…`: nanoseconds in hexadecimal. A UUID where an object's name is none that an event could have. */
  next(objectName: string): string {
    const name = `${objectName}.${this.#nanoseconds().toString(16)}`;
    return dnsSubdomainProblems(name).length === 0 ? name : this.#deps.uuid();
  }

  /**
   * Our clock counts milliseconds, in which much may happen. What it does not know is chance, so that another who writes events
   * about the same object finds another name; and it never repeats, for the second of two equal names would be lost.
   */
  #nanoseconds(): bigint {
    const { clock, random } = this.#deps;
    const now =
      BigInt(Math.floor(clock.now())) * BigInt(nanosecondsPerMs) + BigInt(Math.floor(random() * nanosecondsPerMs));
    this.#last = now > this.#last ? now : this.#last + 1n;
    return this.#last;
  }
}

/** A map that remembers what was used last and forgets what was not used for longest. */
export class RecentMap<K, V> {
  readonly #sizeMax: number;
  readonly #entries = new Map<K, V>();

  constructor(sizeMax: number) {
    this.#sizeMax = sizeMax;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Looking is using. */
  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value !== undefined) this.#putLast(key, value);
    return value;
  }

  set(key: K, value: V): void {
    this.#putLast(key, value);
    if (this.#entries.size <= this.#sizeMax) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }

  /** A Map lists its keys in the order they came in, so that coming in again is what makes one the youngest. */
  #putLast(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
  }
}
