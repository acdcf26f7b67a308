/**
 * Keeps up with a selection of objects on the server: everything once, then every change, for as long as the signal lives and through
 * every failure. It holds no objects itself; object-cache.ts does.
 *
 *   attempt: all objects, streamed or listed ──▶ watch from that version ──closed──▶ watch again from the last version
 *      ▲                                           │ refused, 429: wait, then watch again
 *      └────────── wait, longer each time ◀────────┘ anything else, 410 too: relist at the last version
 *
 * Invariant: the version we would resume at never runs ahead of the changes that were handed out.
 */
import { messageOf } from '../base/errors.ts';
import { ClientError } from './transport/transport.ts';
import { BackOff } from '../base/back-off.ts';
import { type Clock, type Pause, type Pausing, pauseOf } from '../base/clock.ts';
import type { Selection } from './api/api-call.ts';
import type { ApiClient } from './api/api-client.ts';
import { ExpiredError } from './api/api-errors.ts';
import type { ApiObject, Place, ResourceReference } from './api/resource-reference.ts';
import { type WatchEvent, type WatchStream } from './api/watch-stream.ts';
import {
  InitialEventsSupport,
  type OurEvent,
  veryShortWatch,
  type WholeList,
  isClosing,
  isUnavailable,
  isWorthWaiting,
  listAll,
  pageSizeAt,
  readEvent,
  readInitialEvents,
  retryAfterMs,
  veryShortMs,
} from './initial-list.ts';

export type Reflection<T> =
  /** All there is, at first and again whenever changes may have been missed. */
  | { readonly kind: 'replaced'; readonly objects: readonly T[]; readonly resourceVersion: string }
  /** Added or modified: after an interruption the two cannot be told apart. */
  | { readonly kind: 'changed'; readonly object: T }
  | { readonly kind: 'deleted'; readonly object: T };

export interface ReflectorTarget<T extends ApiObject> extends Place, Selection {
  readonly resource: ResourceReference<T>;
  /** A version that was seen before: a list must not be older. */
  readonly notBefore?: string | undefined;
  /** The server ends a watch after one to two times this. Absent, or below 300, it counts as 300. */
  readonly watchTimeoutSecondsMin?: number;
}

export type ReflectorNotice =
  /** `isExpected`: versions expire and connections end in the best of clusters. */
  | { readonly kind: 'WatchFailed'; readonly what: string; readonly error: unknown; readonly isExpected: boolean }
  | { readonly kind: 'InitialEventsUnavailable'; readonly what: string; readonly error: unknown }
  | { readonly kind: 'WatchEventSkipped'; readonly what: string; readonly problem: string };

export interface ReflectorDeps extends Pausing {
  readonly client: Pick<ApiClient, 'list' | 'watch'>;
  /** 0 to 1. */
  readonly random: () => number;
  readonly notify: (notice: ReflectorNotice) => void;
  /** Of the server, for all reflectors that share it. */
  readonly initialEvents?: InitialEventsSupport;
}

const watchTimeoutSecondsFloor = 300;
/** Reasons that show a server which does not know `sendInitialEvents`. */
const silences: ReadonlySet<string> = new Set(['InitialEventsMissing', 'WatchStalled']);

/** Ends when the signal aborts; never by a failure, which it reports and survives. */
export async function* reflect<T extends ApiObject>(
  deps: ReflectorDeps,
  target: ReflectorTarget<T>,
  signal: AbortSignal,
): AsyncGenerator<Reflection<T>, void, undefined> {
  const reflector = new Reflector(deps, target, signal);
  try {
    while (!signal.aborted) {
      yield* reflector.attempt();
      await reflector.rest();
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

class Reflector<T extends ApiObject> {
  readonly #deps: ReflectorDeps;
  readonly #target: ReflectorTarget<T>;
  readonly #signal: AbortSignal;
  readonly #what: string;
  readonly #delay: RestartDelay;
  /** Empty until the first list. */
  #version = '';
  /** The server could not list at `#version`: ask for the newest instead. */
  #isUnavailable = false;
  #listsInPages = false;
  readonly #initialEvents: InitialEventsSupport;

  constructor(deps: ReflectorDeps, target: ReflectorTarget<T>, signal: AbortSignal) {
    this.#deps = deps;
    this.#target = target;
    this.#signal = signal;
    this.#what = `*${target.resource.version}.${target.resource.kind}`;
    this.#delay = new RestartDelay(deps);
    this.#initialEvents = deps.initialEvents ?? new InitialEventsSupport();
    this.#version = target.notBefore ?? '';
  }

  rest(): Promise<void> {
    return this.#delay.wait(this.#signal);
  }

  /** Returns when it is time to rest and begin again; throws only because of the signal. */
  async *attempt(): AsyncGenerator<Reflection<T>, void, undefined> {
    let stream: WatchStream | undefined;
    try {
      const streamed = this.#initialEvents.isMissing ? undefined : await this.#streamAll();
      stream = streamed?.stream;
      const { objects, resourceVersion } = streamed ?? (await this.#listAll());
      this.#isUnavailable = false;
      this.#version = resourceVersion;
      this.#delay.worked();
      yield { kind: 'replaced', objects, resourceVersion };
      yield* this.#watch(stream);
    } catch (error) {
      this.#signal.throwIfAborted();
      this.#tell(error);
    } finally {
      await stream?.return();
    }
  }

  /** Any version will do at first, later none older than we know, and the newest when the server lost its history. */
  async #listAll(): Promise<WholeList<T>> {
    const version = this.#isUnavailable ? '' : this.#version || '0';
    const limit = pageSizeAt(version, this.#listsInPages);
    const { resource, namespace, labelSelector, fieldSelector } = this.#target;
    const list = (resourceVersion: string): Promise<WholeList<T>> =>
      listAll(
        (query) =>
          this.#deps.client.list(resource, { namespace, labelSelector, fieldSelector, ...query }, this.#signal),
        resourceVersion,
        limit,
      );
    try {
      const result = await list(version).catch((error: unknown) => {
        if (!isUnavailable(error)) throw error;
        this.#isUnavailable = true;
        return list('');
      });
      if (version === '0' && result.isPaged) this.#listsInPages = true;
      return result;
    } catch (error) {
      const text = `failed to list ${this.#what}: ${messageOf(error)}`;
      throw new ClientError('ListFailed', text, { cause: error });
    }
  }

  /** All objects as the beginning of a watch that then goes on; undefined where that does not work and a list is needed. */
  async #streamAll(): Promise<(WholeList<T> & { readonly stream: WatchStream }) | undefined> {
    for (let attempts = 0; ; attempts++) {
      let stream: WatchStream | undefined;
      try {
        stream = await this.#open({
          resourceVersion: this.#isUnavailable ? '' : this.#version,
          resourceVersionMatch: 'NotOlderThan',
          sendInitialEvents: true,
        });
        const initial = await readInitialEvents<T>(
          { clock: this.#deps.clock, what: this.#what, read: (event) => this.#read(event) },
          stream,
        );
        if (initial !== undefined) return { ...initial, stream, isPaged: false };
      } catch (error) {
        await stream?.return();
        this.#signal.throwIfAborted();
        if (isWorthWaiting(error)) {
          this.#tell(error);
          await this.#delay.wait(this.#signal, retryAfterMs(error));
          continue;
        }
        if (!isUnavailable(error)) {
          if (error instanceof ClientError && silences.has(error.reason)) this.#initialEvents.isMissing = true;
          this.#deps.notify({ kind: 'InitialEventsUnavailable', what: this.#what, error });
          return undefined;
        }
        this.#isUnavailable = true;
      }
      // Once more at once, from nothing; a server that keeps failing in this way is not asked in a tight loop.
      if (attempts > 0) await this.rest();
    }
  }

  /** Goes on with `stream`, or opens one, and then opens one after the other. */
  async *#watch(stream: WatchStream | undefined): AsyncGenerator<Reflection<T>, void, undefined> {
    let current = stream;
    for (;;) {
      try {
        const isFromNothing = current === undefined && (this.#version === '' || this.#version === '0');
        const startedAt = this.#deps.clock.now();
        current ??= await this.#open({ resourceVersion: this.#version });
        yield* this.#follow(current, startedAt, isFromNothing);
      } catch (error) {
        this.#signal.throwIfAborted();
        if (isWorthWaiting(error)) {
          this.#tell(error);
          await this.#delay.wait(this.#signal, retryAfterMs(error));
        } else throw error;
      } finally {
        await current?.return();
        current = undefined;
      }
    }
  }

  /** Returns when the stream was closed in the ordinary way. */
  async *#follow(
    stream: WatchStream,
    startedAt: number,
    isFromNothing: boolean,
  ): AsyncGenerator<Reflection<T>, void, undefined> {
    let events = 0;
    // A watch from no version begins with objects in any order; their versions mean nothing until that is over.
    let isOrdered = !isFromNothing;
    try {
      for await (const raw of stream) {
        const event = this.#read(raw);
        if (event === undefined) continue;
        events += 1;
        isOrdered ||= event.kind !== 'added' && event.kind !== 'unknown';
        if (isOrdered && event.resourceVersion !== '') this.#version = event.resourceVersion;
        if (event.kind === 'added' || event.kind === 'modified') yield { kind: 'changed', object: event.object };
        else if (event.kind === 'deleted') yield { kind: 'deleted', object: event.object };
      }
    } catch (error) {
      if (!isClosing(error)) throw error;
      this.#tell(error);
    }
    this.#signal.throwIfAborted();
    if (events === 0 && this.#deps.clock.now() - startedAt < veryShortMs) throw veryShortWatch(this.#what);
  }

  async #open(query: {
    readonly resourceVersion: string;
    readonly resourceVersionMatch?: 'NotOlderThan';
    readonly sendInitialEvents?: boolean;
  }): Promise<WatchStream> {
    const { resource, namespace, labelSelector, fieldSelector } = this.#target;
    const min = Math.max(this.#target.watchTimeoutSecondsMin ?? 0, watchTimeoutSecondsFloor);
    // Spread, so that the watches of a node that started at once do not end at once.
    const timeoutSeconds = Math.floor(min * (1 + this.#deps.random()));
    const common = { namespace, labelSelector, fieldSelector, allowWatchBookmarks: true, timeoutSeconds };
    const stream = await this.#deps.client.watch(resource, { ...common, ...query }, this.#signal);
    return stream;
  }

  #read(raw: WatchEvent): OurEvent<T> | undefined {
    const event = readEvent(this.#target.resource, raw);
    if (event.kind === 'foreign' || event.kind === 'unknown')
      this.#deps.notify({ kind: 'WatchEventSkipped', what: this.#what, problem: event.problem });
    return event.kind === 'foreign' ? undefined : event;
  }

  #tell(error: unknown): void {
    const isExpected = error instanceof ExpiredError || isClosing(error) || isWorthWaiting(error);
    this.#deps.notify({ kind: 'WatchFailed', what: this.#what, error, isExpected });
  }
}

/** The kubelet's numbers: after a minute of failures, one attempt every 30 to 60 s. */
const retries = { firstMs: 800, msMax: 30_000 };
const resetAfterMs = 120_000;
/** A server that answers a list and ends the watch at once is not asked in a tight loop. */
const steadyMs = 10_000;

/** The wait before the next attempt: longer each time, and from the start again after things went well for a while. */
class RestartDelay {
  readonly #clock: Clock;
  readonly #backOff: BackOff;
  #resetAt: number;
  #workedAt: number | undefined;
  readonly #pause: Pause;

  constructor({ clock, pause, random }: Pausing & { readonly random: () => number }) {
    this.#clock = clock;
    this.#pause = pauseOf({ clock, pause });
    // Spread over twice the time, because all nodes lose the server at the same moment.
    this.#backOff = new BackOff({ ...retries, jitter: { spread: 1, random } });
    this.#resetAt = clock.now();
  }

  /** `atLeastMs` is what the server asked for. */
  async wait(signal: AbortSignal, atLeastMs = 0): Promise<void> {
    await this.#pause(Math.max(this.next(), atLeastMs), signal);
  }

  /** The server has answered. */
  worked(): void {
    this.#workedAt = this.#clock.now();
  }

  next(): number {
    const now = this.#clock.now();
    const hasWorked = this.#workedAt !== undefined && now - this.#workedAt >= steadyMs;
    this.#workedAt = undefined;
    if (hasWorked || now - this.#resetAt > resetAfterMs) {
      this.#backOff.reset();
      this.#resetAt = now;
    }
    return this.#backOff.next();
  }
}
