/**
 * How a reflector gets all objects, as the beginning of a watch or as a list in pages; how it reads events; and which failures it
 * can go on after. The messages are the kubelet's where it has some.
 */
import type { Clock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import { isRecord } from '../kube/schema/equality.ts';
import { type ListPage, readObject } from './api/api-answer.ts';
import { ExpiredError, TooManyRequestsError, isVersionTooLarge } from './api/api-errors.ts';
import { apiVersionOf } from '../kube/schema/kind.ts';
import { type ApiObject, type ResourceReference, objectKey } from './api/resource-reference.ts';
import { WatchLostError, type WatchEvent, type WatchStream } from './api/watch-stream.ts';
import { ClientError, ConnectionFailedError, ConnectionLostError, unreadableAnswer } from './transport/transport.ts';

/** A server that ends watches sooner than this, without an event, is asked again only after a while. */
export const veryShortMs = 1_000;

export function veryShortWatch(what: string): ClientError {
  const text = `very short watch: ${what}: Unexpected watch close - watch lasted less than a second and no items received`;
  return new ClientError('VeryShortWatch', text);
}

function initialEventsMissing(what: string, silentMs: number, hasEvents: boolean): ClientError {
  const seconds = `${silentMs / 1000}s`;
  return new ClientError(
    'InitialEventsMissing',
    hasEvents
      ? `${what}: hasn't received required bookmark event marking the end of initial events stream, received last event ${seconds} ago`
      : `${what}: awaiting required bookmark event for initial events stream, no events received for ${seconds}`,
  );
}

/** Nothing is wrong with what we know: the server is away for a moment, or has too much to do. */
export function isWorthWaiting(error: unknown): boolean {
  return error instanceof TooManyRequestsError || (error instanceof ConnectionFailedError && error.isRefused);
}

export function retryAfterMs(error: unknown): number {
  return error instanceof TooManyRequestsError ? (error.retryAfterMs ?? 0) : 0;
}

export function isUnavailable(error: unknown): boolean {
  return error instanceof ExpiredError || isVersionTooLarge(error);
}

/** The stream is gone, but every change until then was read: it goes on at the last version. */
export function isClosing(error: unknown): boolean {
  return error instanceof ConnectionLostError || error instanceof WatchLostError;
}

/** What an event of a watch means for the objects that were asked for. */
type ObjectEvent<T> =
  | { readonly kind: 'added' | 'modified' | 'deleted'; readonly object: T; readonly resourceVersion: string }
  /** Nothing changed up to this version. */
  | { readonly kind: 'bookmark'; readonly resourceVersion: string; readonly endsInitialEvents: boolean }
  /** A type that newer servers may send. */
  | { readonly kind: 'unknown'; readonly resourceVersion: string; readonly problem: string }
  /** Not one of our objects. */
  | { readonly kind: 'foreign'; readonly problem: string };

/** Of our objects, or at least about their versions. */
export type OurEvent<T> = Exclude<ObjectEvent<T>, { readonly kind: 'foreign' }>;

const kinds = new Map<string, 'added' | 'modified' | 'deleted'>([
  ['ADDED', 'added'],
  ['MODIFIED', 'modified'],
  ['DELETED', 'deleted'],
]);
const initialEventsEnd = 'k8s.io/initial-events-end';

export function readEvent<T extends ApiObject>(
  resource: ResourceReference<T>,
  { type, object }: WatchEvent,
): ObjectEvent<T> {
  const { apiVersion = apiVersionOf(resource), kind = resource.kind, metadata } = object;
  if (kind !== resource.kind || apiVersion !== apiVersionOf(resource))
    return { kind: 'foreign', problem: `an object of kind ${String(kind)} in ${String(apiVersion)}` };
  if (!isRecord(metadata)) return { kind: 'foreign', problem: 'an object without metadata' };
  const { resourceVersion, annotations } = metadata;
  if (typeof resourceVersion !== 'string') return { kind: 'foreign', problem: 'an object without a version' };
  if (type === 'BOOKMARK') {
    const endsInitialEvents = isRecord(annotations) && annotations[initialEventsEnd] === 'true';
    return { kind: 'bookmark', resourceVersion, endsInitialEvents };
  }
  const known = kinds.get(type);
  if (known === undefined) return { kind: 'unknown', resourceVersion, problem: `an event of type ${type}` };
  try {
    return { kind: known, object: readObject(resource, object, `watch ${resource.plural}`), resourceVersion };
  } catch (error) {
    return { kind: 'foreign', problem: messageOf(error) };
  }
}

// A server that does not know `sendInitialEvents` ignores it and would keep us waiting for ever.
const initialSilenceMsMax = 10_000;

/** What one reflector found out about a server, so that the others need not wait to find out the same. */
export class InitialEventsSupport {
  /** The server was asked and had nothing to say: it does not know the question. */
  isMissing = false;
}

interface InitialEventsDeps<T> {
  readonly clock: Clock;
  /** For messages. */
  readonly what: string;
  /** Undefined for what is none of our objects. */
  readonly read: (event: WatchEvent) => OurEvent<T> | undefined;
}

/**
 * All objects as the beginning of a watch: read until the server says that they are complete. The watch then goes on. Undefined
 * when the stream ended before that.
 */
export async function readInitialEvents<T extends ApiObject>(
  { clock, what, read }: InitialEventsDeps<T>,
  stream: WatchStream,
): Promise<Omit<WholeList<T>, 'isPaged'> | undefined> {
  const objects = new Map<string, T>();
  const startedAt = clock.now();
  let heardAt = startedAt;
  let events = 0;
  const done = new AbortController();
  const silence = (async () => {
    for (;;) {
      await clock.sleep(heardAt + initialSilenceMsMax - clock.now(), done.signal);
      const silentMs = clock.now() - heardAt;
      if (silentMs >= initialSilenceMsMax) {
        return stream.fail(initialEventsMissing(what, silentMs, events > 0));
      }
    }
  })().catch(() => {});
  try {
    for (;;) {
      const { done: hasEnded, value } = await stream.next();
      if (hasEnded === true) break;
      heardAt = clock.now();
      const event = read(value);
      if (event === undefined) continue;
      events += 1;
      if (event.kind === 'added' || event.kind === 'modified') objects.set(objectKey(event.object), event.object);
      else if (event.kind === 'deleted') objects.delete(objectKey(event.object));
      else if (event.kind === 'bookmark' && event.endsInitialEvents) {
        return { objects: [...objects.values()], resourceVersion: event.resourceVersion };
      }
    }
  } catch (error) {
    if (!isClosing(error)) throw error;
  } finally {
    done.abort('over'); // a reason, because making the usual one costs more than all the rest
    await silence;
  }
  if (events === 0 && clock.now() - startedAt < veryShortMs) throw veryShortWatch(what);
  return undefined;
}

interface PageQuery {
  readonly resourceVersion: string;
  readonly limit: number;
  readonly continue: string;
}

export interface WholeList<T> {
  readonly objects: readonly T[];
  readonly resourceVersion: string;
  /** The server has more objects than it gives at once. */
  readonly isPaged: boolean;
}

const pageSizeDefault = 500;

/**
 * Pages are served from the server's disk and not from its memory, so at a version that it has in memory they are asked for only
 * where it has shown that it cannot else. 0 is everything at once.
 */
export function pageSizeAt(resourceVersion: string, hasSentPages: boolean): number {
  const isAtKnownVersion = resourceVersion !== '' && resourceVersion !== '0';
  return isAtKnownVersion && !hasSentPages ? 0 : pageSizeDefault;
}

// Five million objects at the usual size; a list that is longer never ends.
const pagesMax = 10_000;

/** A whole list, fetched in pages: all of one moment, or none. `limit` 0 asks for everything at once. */
export async function listAll<T>(
  page: (query: PageQuery) => Promise<ListPage<T>>,
  resourceVersion: string,
  limit: number,
): Promise<WholeList<T>> {
  const first = await page({ resourceVersion, limit, continue: '' });
  if (first.continueToken === '') {
    return { objects: first.items, resourceVersion: first.resourceVersion, isPaged: false };
  }
  const objects = [...first.items];
  let { continueToken } = first;
  for (let pages = 1; continueToken !== ''; pages++) {
    if (pages >= pagesMax) throw unreadableAnswer('list', `it has more than ${pagesMax} pages`);
    try {
      // Without a version: that of the first page is in the token.
      const next = await page({ resourceVersion: '', limit, continue: continueToken });
      for (const item of next.items) objects.push(item);
      ({ continueToken } = next);
    } catch (error) {
      if (!(error instanceof ExpiredError)) throw error;
      // We were too slow: the moment of the first page is forgotten. All at once cannot be too slow.
      const whole = await page({ resourceVersion, limit: 0, continue: '' });
      return { objects: whole.items, resourceVersion: whole.resourceVersion, isPaged: true };
    }
  }
  return { objects, resourceVersion: first.resourceVersion, isPaged: true };
}
