/**
 * Decides what becomes of an event: a new object, one more count of an old one, or nothing. A node that fails the same way a
 * thousand times must cost the API server one object. It knows no API server and does no I/O.
 *
 *   event ──too many different messages of one reason?──▶ the combined event ──seen before?──▶ patch (count + 1)
 *     └──────────────────────────no────────────────────────────▲                └────no────▶ create
 *   and either is dropped when its object has used up its allowance
 */
import { RecentlyUsed } from '../base/recently-used.ts';
import type { Event } from '../kube/objects/event.ts';
import { timestamp } from '../kube/values/timestamp.ts';

export type Correlated =
  | { readonly kind: 'create'; readonly key: string; readonly event: Event }
  | { readonly kind: 'patch'; readonly key: string; readonly event: Event; readonly patch: EventPatch }
  | { readonly kind: 'drop' };

export interface EventPatch {
  readonly count: number;
  readonly lastTimestamp: string;
  readonly message: string;
}

export interface CorrelatorSettings {
  /** Each of the three memories forgets the oldest beyond this. */
  readonly entriesMax: number;
  /** So many different messages of one reason are told one by one. */
  readonly similarMax: number;
  /** A pause as long as this ends a series of similar events. */
  readonly similarGapMs: number;
  readonly burst: number;
  readonly refillMs: number;
}

/** The kubelet's numbers. */
export const correlatorDefaults: CorrelatorSettings = {
  entriesMax: 4096,
  similarMax: 10,
  similarGapMs: 600_000,
  burst: 25,
  refillMs: 300_000,
};

interface Similar {
  readonly messages: Set<string>;
  readonly at: number;
}

interface Seen {
  readonly name: string;
  readonly count: number;
  readonly firstTimestamp: string;
}

interface Allowance {
  readonly left: number;
  readonly at: number;
}

export class EventCorrelator {
  readonly #settings: CorrelatorSettings;
  readonly #similar: RecentlyUsed<string, Similar>;
  readonly #seen: RecentlyUsed<string, Seen>;
  readonly #allowances: RecentlyUsed<string, Allowance>;

  constructor(settings: CorrelatorSettings = correlatorDefaults) {
    this.#settings = settings;
    this.#similar = new RecentlyUsed(settings.entriesMax);
    this.#seen = new RecentlyUsed(settings.entriesMax);
    this.#allowances = new RecentlyUsed(settings.entriesMax);
  }

  /** `event` is new, with a name of its own; `now` in milliseconds. */
  correlate(event: Event, now: number): Correlated {
    const { told, key } = this.#combined(event, now);
    const seen = this.#seen.get(key);
    const counted =
      seen === undefined
        ? told
        : {
            ...told,
            metadata: { ...told.metadata, name: seen.name },
            firstTimestamp: seen.firstTimestamp,
            count: seen.count + 1,
          };
    // Remembered even when it is dropped, so that the next that gets through counts those that did not.
    this.#remember(key, counted);
    if (!this.#isAllowed(event, now)) return { kind: 'drop' };
    if (seen === undefined) return { kind: 'create', key, event: counted };
    const { count = 1, lastTimestamp = '', message = '' } = counted;
    return { kind: 'patch', key, event: counted, patch: { count, lastTimestamp, message } };
  }

  /** What the server made of it. */
  written(key: string, event: Event): void {
    this.#remember(key, event);
  }

  #combined(event: Event, now: number): { told: Event; key: string } {
    const { similarMax, similarGapMs } = this.#settings;
    const groupKey = keyOf([
      ...objectOf(event),
      event.type,
      event.reason,
      event.reportingComponent,
      event.reportingInstance,
    ]);
    const known = this.#similar.get(groupKey);
    const messages = known === undefined || now - known.at > similarGapMs ? new Set<string>() : known.messages;
    messages.add(event.message ?? '');
    this.#similar.set(groupKey, { messages, at: now });
    if (messages.size < similarMax) {
      const { fieldPath } = event.involvedObject;
      return { told: event, key: keyOf([...objectOf(event), fieldPath, event.type, event.reason, event.message]) };
    }
    // One is enough room for the next to be one too many again.
    const [any] = messages;
    if (any !== undefined) messages.delete(any);
    const at = timestamp(now);
    const message = `(combined from similar events): ${event.message ?? ''}`;
    return { told: { ...event, message, firstTimestamp: at, lastTimestamp: at, count: 1 }, key: groupKey };
  }

  #isAllowed(event: Event, now: number): boolean {
    const { burst, refillMs } = this.#settings;
    const key = keyOf([...objectOf(event), event.type]);
    const { left, at } = this.#allowances.get(key) ?? { left: burst, at: now };
    const refilled = Math.min(burst, left + Math.max(0, now - at) / refillMs);
    const isAllowed = refilled >= 1;
    this.#allowances.set(key, { left: isAllowed ? refilled - 1 : refilled, at: now });
    return isAllowed;
  }

  #remember(key: string, { metadata: { name }, count = 1, firstTimestamp = '' }: Event): void {
    this.#seen.set(key, { name, count, firstTimestamp });
  }
}

function objectOf({ source, involvedObject }: Event): readonly (string | undefined)[] {
  const { kind, namespace, name, uid, apiVersion } = involvedObject;
  return [source?.component, source?.host, kind, namespace, name, uid, apiVersion];
}

/** Parts are kept apart, so that no two sets of parts are one key. */
function keyOf(parts: readonly (string | undefined)[]): string {
  return JSON.stringify(parts);
}
