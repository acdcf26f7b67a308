/**
 * The strategy `Watch`: every object that a registered pod names is watched, reads are answered from memory, and changes are
 * told as they come in. A watch that serves only reads is stopped when none came for a while, and started again by the next.
 *
 * An object that says it is immutable needs no watch once it was read. But it can be deleted and created anew with other
 * content, so where its watch was its own (a shared one goes on anyway) we ask now and then whether the name still stands for
 * the same uid, and watch again if not, or if a pod comes that is new to it. The kubelet goes on with the old content.
 */
import { onAbort } from '../base/abort.ts';
import type { Pausing } from '../base/clock.ts';
import { CoalescingTopic } from '../base/coalescing-queue.ts';
import { Semaphore } from '../base/semaphore.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { FeedDeps } from './feed.ts';
import { type Feeds, NamespaceFeeds, OwnFeeds } from './feeds.ts';
import type { ManagedKind, ManagedObject } from './managed-kind.ts';
import { ObjectNotFoundError, ObjectNotRegisteredError, ObjectNotSyncedError } from './object-errors.ts';
import { type ObjectId, type ObjectKey, objectKey } from './object-id.ts';
import type { ObjectManager } from './object-manager.ts';
import type { NotifyObjects } from './object-notices.ts';
import type { ObjectSource } from './object-source.ts';
import { type Reference, ReferenceCounts, type ReferenceHolder } from './reference-counts.ts';
import { SharedFeeds } from './shared-feeds.ts';
import { WatchedObject } from './watched-object.ts';

/** `namespace` needs the right to list all of a namespace; `auto` uses that right where it is granted. */
export type WatchScopeSetting = 'object' | 'namespace' | 'auto';

export interface WatchedObjectsSettings {
  readonly scope: WatchScopeSetting;
  /** How often a pod is synced: whatever a volume shows is read at least that often. */
  readonly syncFrequencyMs: number;
}

export interface WatchedObjectsDeps<T extends ManagedObject> extends Pausing {
  readonly source: ObjectSource<T>;
  readonly random: () => number;
  readonly notify: NotifyObjects;
}

const syncWaitMsMax = 1_000;
const scanMs = 60_000;
const idleMsMin = 60_000;
const idleSyncs = 5;
/** Seldom enough to cost next to nothing (one small answer), often enough that nobody waits for an afternoon. */
const recheckMs = 300_000;
const recheckJitter = 0.5;
/** At once. */
const rechecksMax = 4;
/** The kubelet's client allows itself bursts of 100 requests. */
const startsMax = 100;

export class WatchedObjects<T extends ManagedObject> implements ObjectManager<T>, ReferenceHolder {
  readonly #kind: ManagedKind<T>;
  readonly #deps: WatchedObjectsDeps<T>;
  readonly #idleMs: number;
  readonly #references: ReferenceCounts;
  readonly #items = new Map<ObjectKey, WatchedObject<T>>();
  readonly #feeds: Feeds<T>;
  readonly #changes = new CoalescingTopic<ObjectId>(objectKey);
  #isStopped = false;

  constructor(kind: ManagedKind<T>, deps: WatchedObjectsDeps<T>, settings: WatchedObjectsSettings) {
    this.#kind = kind;
    this.#deps = deps;
    this.#idleMs = Math.max(idleSyncs * settings.syncFrequencyMs, idleMsMin);
    this.#references = new ReferenceCounts(kind.kind, this);
    this.#feeds = feedsFor(settings.scope, { ...deps, starts: new Semaphore(startsMax) });
  }

  registerPod(pod: Pod): void {
    this.#references.registerPod(pod);
  }

  unregisterPod(pod: Pod): void {
    this.#references.unregisterPod(pod);
  }

  addReference(reference: Reference): void {
    const key = objectKey(reference);
    let item = this.#items.get(key);
    if (item === undefined) {
      item = new WatchedObject<T>(reference, this.#deps.clock, (id) => this.#changes.publish(id));
      this.#items.set(key, item);
      if (!this.#isStopped) this.#feeds.join(item);
    }
    item.addReference(reference);
    // A volume has to hear of changes, also of an object that nobody has read for long.
    if (item.isShown) this.#wakeUp(item);
    // A pod that is new to the object must not start with the content of one that was deleted before it.
    if (item.state === 'immutable') this.#watchAnew(item);
  }

  releaseReference(reference: Reference): void {
    const key = objectKey(reference);
    const item = this.#items.get(key);
    item?.releaseReference(reference);
    if (item === undefined || item.isReferenced) return;
    this.#items.delete(key);
    this.#feeds.leave(item);
    item.release();
  }

  async get(namespace: string, name: string, signal: AbortSignal): Promise<T> {
    const item = this.#items.get(objectKey({ namespace, name }));
    if (item === undefined) throw new ObjectNotRegisteredError({ namespace, name });
    // First of all, so that the watch is not found idle while we wait for it.
    item.lastReadMs = this.#deps.clock.now();
    this.#wakeUp(item);
    if (!item.isSynced) await this.#sync(item, signal);
    const object = item.known?.object;
    if (object === undefined) throw ObjectNotFoundError.of(this.#kind.singular, name);
    if (object.immutable === true && item.isSynced) this.#rest(item, 'immutable');
    return object;
  }

  changes(signal: AbortSignal): AsyncIterable<ObjectId> {
    return this.#changes.follow(signal);
  }

  ageOf(namespace: string, name: string): number | undefined {
    return this.#items.get(objectKey({ namespace, name }))?.ageMs;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    while (!signal.aborted) {
      this.#restIdle();
      await Promise.all([this.#recheckDue(signal), clock.sleep(scanMs, signal).catch(() => {})]);
    }
    this.#isStopped = true;
    for (const item of this.#items.values()) {
      this.#feeds.leave(item);
      item.unwatched();
    }
    await this.#feeds.ended();
  }

  /** Returns when there is something to answer with, current or not; throws when there is nothing in time. */
  async #sync(item: WatchedObject<T>, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const done = new AbortController();
    const giveUp = (): void => done.abort();
    const stopListening = onAbort(signal, giveUp);
    const limit = this.#deps.clock.sleep(syncWaitMsMax, done.signal).then(giveUp, () => {});
    await item.nextObservation(done.signal);
    done.abort();
    await limit;
    stopListening();
    signal.throwIfAborted();
    if (this.#items.get(objectKey(item.id)) !== item) throw new ObjectNotRegisteredError(item.id);
    // The server is known to be away: what we knew before the watch was stopped is better than nothing. A server that is
    // merely slow will answer, and an old answer now would be believed until the container starts again.
    if (item.isSynced || (item.known !== undefined && item.interruption !== undefined)) return;
    item.hasFailedReader = true;
    throw new ObjectNotSyncedError(this.#kind.singular, item.interruption && { cause: item.interruption.error });
  }

  #wakeUp(item: WatchedObject<T>): void {
    if (item.state !== 'idle' || this.#isStopped) return;
    item.state = 'on';
    this.#feeds.join(item);
  }

  /** Stops an item's watch, unless others need it anyway. */
  #rest(item: WatchedObject<T>, because: 'idle' | 'immutable'): void {
    if (item.state !== 'on' || this.#isStopped || this.#feeds.isShared(item)) return;
    item.state = because;
    this.#feeds.leave(item);
    item.unwatched();
    if (because === 'idle') item.unsync();
    else this.#planRecheck(item);
    this.#deps.notify({ kind: 'ObjectWatchStopped', resource: this.#kind.resource.plural, id: item.id, because });
  }

  #restIdle(): void {
    const now = this.#deps.clock.now();
    for (const item of this.#items.values()) {
      // A first list still under way is work that would be lost, and a volume waits for changes without asking.
      const isIdle = item.isSynced && !item.isShown && now > item.lastReadMs + this.#idleMs;
      if (isIdle) this.#rest(item, 'idle');
    }
  }

  #planRecheck(item: WatchedObject<T>): void {
    const { clock, random } = this.#deps;
    item.recheckAtMs = clock.now() + recheckMs * (1 + recheckJitter * random());
  }

  async #recheckDue(signal: AbortSignal): Promise<void> {
    const now = this.#deps.clock.now();
    const due = [...this.#items.values()].filter((item) => item.state === 'immutable' && item.recheckAtMs <= now);
    const queue = due.values();
    const work = async (): Promise<void> => {
      for (const item of queue) if (!signal.aborted) await this.#recheck(item, signal);
    };
    await Promise.all(Array.from({ length: rechecksMax }, work));
  }

  async #recheck(item: WatchedObject<T>, signal: AbortSignal): Promise<void> {
    const { source, notify } = this.#deps;
    const { plural: resource } = this.#kind.resource;
    this.#planRecheck(item);
    let uid: string | undefined;
    try {
      uid = await source.uidOf(item.id, signal);
    } catch (error) {
      if (!signal.aborted) notify({ kind: 'ObjectCheckFailed', resource, id: item.id, error });
      return;
    }
    if (item.state !== 'immutable' || this.#items.get(objectKey(item.id)) !== item) return;
    if (uid === item.known?.object?.metadata.uid) return item.confirmed();
    notify({ kind: 'ImmutableObjectReplaced', resource, id: item.id });
    this.#watchAnew(item);
  }

  #watchAnew(item: WatchedObject<T>): void {
    if (this.#isStopped) return;
    item.state = 'on';
    // Otherwise the next read would find the old content and stop the watch again before it has told anything.
    item.unsync();
    this.#feeds.join(item);
  }
}

function feedsFor<T extends ManagedObject>(scope: WatchScopeSetting, deps: FeedDeps<T>): Feeds<T> {
  if (scope === 'object') return new OwnFeeds(deps);
  return scope === 'namespace' ? new NamespaceFeeds(deps) : new SharedFeeds(deps);
}
