/**
 * One watch of the API server and those who listen to it, each for one name. It begins when it is made and ends with stop();
 * in between it survives whatever the server does. Objects nobody listens for are let go of as they come in.
 */
import { BackOff } from '../base/back-off.ts';
import { type Pausing, pauseOf } from '../base/clock.ts';
import type { Semaphore } from '../base/semaphore.ts';
import type { ManagedObject } from './managed-kind.ts';
import { ObjectNotFoundError } from './object-errors.ts';
import type { ObjectId } from './object-id.ts';
import type { ObjectEvent, ObjectSource, WatchScope } from './object-source.ts';

/** What is observed of one object. None of these may throw. */
export interface FeedListener<T> {
  readonly id: ObjectId;
  /** The version of the last thing observed. */
  readonly seenVersion: string | undefined;
  /** Whether what was observed is good to answer with. */
  readonly isSynced: boolean;
  /** The state of things at a version. Only the first list of a feed can be behind what another feed already told. */
  listed(object: T | undefined, resourceVersion: string, isFirst: boolean): void;
  /** Asked for apart from the stream, which may be behind or ahead of it. */
  fetched(object: T | undefined): void;
  changed(object: T): void;
  deleted(object: T): void;
  interrupted(error: unknown): void;
  resumed(): void;
}

export interface FeedDeps<T extends ManagedObject> extends Pausing {
  readonly source: ObjectSource<T>;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** How many first answers may be outstanding at once, so that a node full of pods does not fall on the server. */
  readonly starts: Semaphore;
}

interface FeedOwner {
  /** After the listeners were told of the first list. */
  listed?(): void;
  /** Answers whether the listeners should hear of it. */
  interrupted?(error: unknown): boolean;
}

// As client-go's reflector: 0.8 s, doubling up to 30 s, each up to twice as long by chance.
const retries = { firstMs: 800, msMax: 30_000 };
/** A server that takes longer for a list must not keep others from starting. */
const startMsMax = 10_000;
/** A reason of our own: the usual one is made with its stack at each call, and would be kept for as long as the watch. */
const over = 'over';
/** Of those who join a running feed, each needs one request of its own. */
const fetchesMax = 8;

export class Feed<T extends ManagedObject> {
  /** Resolves when nothing of the feed is running any more. */
  readonly ended: Promise<void>;
  readonly #scope: WatchScope;
  readonly #deps: FeedDeps<T>;
  readonly #owner: FeedOwner;
  readonly #listeners = new Map<string, FeedListener<T>>();
  readonly #late = new Set<FeedListener<T>>();
  readonly #fetches = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  #isListed = false;
  #isInterrupted = false;

  /** Begins once `after` has resolved: two watches of one object by the same listener never overlap. */
  constructor(scope: WatchScope, deps: FeedDeps<T>, owner: FeedOwner = {}, after: Promise<void> = Promise.resolve()) {
    this.#scope = scope;
    this.#deps = deps;
    this.#owner = owner;
    this.ended = this.#run(after);
  }

  get isEmpty(): boolean {
    return this.#listeners.size === 0;
  }

  join(listener: FeedListener<T>): void {
    if (this.#listens(listener)) return;
    this.#listeners.set(listener.id.name, listener);
    if (!this.#isListed) return;
    // The list has gone by, and its objects that nobody listened for were not kept.
    this.#late.add(listener);
    if (this.#fetches.size >= fetchesMax) return;
    const fetch = this.#fetchLate().finally(() => this.#fetches.delete(fetch));
    this.#fetches.add(fetch);
  }

  leave(listener: FeedListener<T>): void {
    if (this.#listens(listener)) this.#listeners.delete(listener.id.name);
  }

  stop(): void {
    this.#listeners.clear();
    this.#stop.abort();
  }

  #listens(listener: FeedListener<T>): boolean {
    return this.#listeners.get(listener.id.name) === listener;
  }

  async #run(after: Promise<void>): Promise<void> {
    const { signal } = this.#stop;
    await after;
    const backOff = this.#backOff();
    while (!signal.aborted) {
      try {
        await this.#watch(signal);
      } catch (error) {
        this.#interrupted(error);
      }
      await this.#pause(backOff, signal);
    }
    await Promise.all(this.#fetches);
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { source, starts } = this.#deps;
    const release = await starts.acquire(signal);
    const started = new AbortController();
    const limit = this.#deps.clock.sleep(startMsMax, started.signal).then(release, release);
    try {
      const options = {
        notBefore: this.#notBefore(),
        interrupted: (error: unknown) => {
          started.abort(over);
          this.#interrupted(error);
        },
        contact: () => this.#resumed(),
      };
      for await (const event of source.watch(this.#scope, options, signal)) {
        if (signal.aborted) return;
        started.abort(over);
        this.#deliver(event);
      }
    } finally {
      started.abort(over);
      await limit;
    }
  }

  /** Of a single object only: versions of many say nothing about one list of them all. */
  #notBefore(): string | undefined {
    const { name } = this.#scope;
    return name === undefined ? undefined : this.#listeners.get(name)?.seenVersion;
  }

  #deliver(event: ObjectEvent<T>): void {
    switch (event.kind) {
      case 'replaced':
        return this.#replaced(event.objects, event.resourceVersion);
      case 'changed':
        return this.#listenerOf(event.object)?.changed(event.object);
      case 'deleted':
        return this.#listenerOf(event.object)?.deleted(event.object);
    }
  }

  #replaced(objects: readonly T[], resourceVersion: string): void {
    const isFirst = !this.#isListed;
    this.#isListed = true;
    const found = new Map<string, T>();
    for (const object of objects) if (this.#listenerOf(object)) found.set(object.metadata.name, object);
    for (const [name, listener] of this.#listeners) listener.listed(found.get(name), resourceVersion, isFirst);
    if (isFirst) this.#owner.listed?.();
  }

  /** A server that does not heed the scope must not make a pod read what is not meant for it. */
  #listenerOf({ metadata: { namespace, name } }: T): FeedListener<T> | undefined {
    return namespace === this.#scope.namespace ? this.#listeners.get(name) : undefined;
  }

  #interrupted(error: unknown): void {
    if (this.#stop.signal.aborted) return;
    this.#isInterrupted = true;
    const isTold = this.#owner.interrupted?.(error) ?? true;
    if (isTold) for (const listener of this.#listeners.values()) listener.interrupted(error);
  }

  #resumed(): void {
    if (!this.#isInterrupted) return;
    this.#isInterrupted = false;
    for (const listener of this.#listeners.values()) listener.resumed();
  }

  /** Asks for those who joined late, one after the other; a few of these run side by side. */
  async #fetchLate(): Promise<void> {
    const { signal } = this.#stop;
    const backOff = this.#backOff();
    for (const listener of this.#late) {
      this.#late.delete(listener);
      if (signal.aborted) return;
      // The stream may have told meanwhile what we wanted to know.
      if (!this.#listens(listener) || (backOff.lastMs > 0 && listener.isSynced)) continue;
      try {
        const object = await this.#get(listener.id, signal);
        if (this.#listens(listener)) listener.fetched(object);
        backOff.reset();
      } catch (error) {
        if (!this.#listens(listener)) continue;
        listener.interrupted(error);
        this.#late.add(listener);
        await this.#pause(backOff, signal);
      }
    }
  }

  /** Not from the server's memory: a copy from before our list could miss an object that no event will tell of. */
  async #get(id: ObjectId, signal: AbortSignal): Promise<T | undefined> {
    try {
      return await this.#deps.source.get(id, { mayBeCached: false }, signal);
    } catch (error) {
      if (error instanceof ObjectNotFoundError) return undefined;
      throw error;
    }
  }

  #backOff(): BackOff {
    return new BackOff({ ...retries, jitter: { spread: 1, random: this.#deps.random } });
  }

  async #pause(backOff: BackOff, signal: AbortSignal): Promise<void> {
    if (!signal.aborted) await pauseOf(this.#deps)(backOff.next(), signal).catch(() => {});
  }
}
