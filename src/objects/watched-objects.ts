/**
 * The strategy `Watch`: every object that a registered pod names is watched, reads are answered from memory, and changes are
 * reported as they come in. Each object has a watch of its own: that is all the credentials of a node allow in a real cluster.
 *
 *   on ──not read for a while──▶ idle         A read wakes an idle watch; an object that a volume shows is never idle.
 *    │ ◀──read, shown───────────┘
 *    └──read, and it is immutable──▶ immutable ──new pod, other uid──▶ on
 *
 * An immutable object needs no watch once it was read. But it can be deleted and created again with other content, so we ask now
 * and then whether the name still stands for the same uid. The kubelet keeps the old content.
 */
import { OperatingError } from '../base/errors.ts';
import { onAbort } from '../base/abort.ts';
import { jittered } from '../base/back-off.ts';
import type { Pausing } from '../base/clock.ts';
import { CoalescingTopic } from '../base/coalescing-queue.ts';
import { Semaphore } from '../base/semaphore.ts';
import {
  type ManagedKind,
  type ManagedObject,
  type NotifyObjects,
  type ObjectChange,
  type ObjectKey,
  type ObjectManager,
  type ObjectSource,
  type Reference,
  ReferencedObjects,
  notRegistered,
  objectKey,
} from './object-manager.ts';
import { ObjectWatch, type ObjectWatchDeps } from './object-watch.ts';

export interface WatchedObjectsSettings {
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
/** Seldom enough to cost next to nothing (one small answer), often enough that a new object is seen within minutes. */
const recheckMs = 300_000;
const recheckSpread = 0.5;
/** At once. */
const rechecksMax = 4;
/** The kubelet's client allows itself bursts of 100 requests. */
const startsMax = 100;

interface Item<T extends ManagedObject> {
  readonly watch: ObjectWatch<T>;
  state: 'on' | 'idle' | 'immutable';
  /** How many references a pod holds, by use and pod. */
  readonly references: Map<string, number>;
  /** Of these references: to show the object in a volume, which waits for changes without reading. */
  shownBy: number;
  /** Zero: never. */
  readAtMs: number;
  /** Of an immutable object: when to check that it is still the same. */
  recheckAtMs: number;
}

export class WatchedObjects<T extends ManagedObject> extends ReferencedObjects implements ObjectManager<T> {
  readonly #kind: ManagedKind<T>;
  readonly #deps: WatchedObjectsDeps<T>;
  readonly #watchDeps: ObjectWatchDeps<T>;
  readonly #idleMs: number;
  readonly #items = new Map<ObjectKey, Item<T>>();
  /** Watches of objects that are no longer referenced, until they have ended. */
  readonly #ending = new Map<ObjectKey, Promise<void>>();
  readonly #changes = new CoalescingTopic<ObjectChange>(objectKey);
  #isStopped = false;

  constructor(kind: ManagedKind<T>, deps: WatchedObjectsDeps<T>, { syncFrequencyMs }: WatchedObjectsSettings) {
    super(kind.kind);
    this.#kind = kind;
    this.#deps = deps;
    this.#watchDeps = {
      ...deps,
      starts: new Semaphore(startsMax),
      changed: (change) => this.#changes.publish(change),
    };
    this.#idleMs = Math.max(idleSyncs * syncFrequencyMs, idleMsMin);
  }

  override addReference(reference: Reference): void {
    const key = objectKey(reference);
    const holder = `${reference.use}/${reference.podUid}`;
    const item = this.#items.get(key) ?? this.#add(key, reference);
    item.references.set(holder, (item.references.get(holder) ?? 0) + 1);
    if (reference.use === 'shown') item.shownBy += 1;
    if (item.shownBy > 0) this.#wake(item);
    // A pod that is new to the object must not start with the content of one that was deleted before it.
    if (item.state === 'immutable') this.#watchAgain(item);
  }

  override releaseReference(reference: Reference): void {
    const key = objectKey(reference);
    const holder = `${reference.use}/${reference.podUid}`;
    const item = this.#items.get(key);
    const count = item?.references.get(holder);
    if (item === undefined || count === undefined) return;
    if (count === 1) item.references.delete(holder);
    else item.references.set(holder, count - 1);
    if (reference.use === 'shown') item.shownBy -= 1;
    if (item.references.size > 0) return;
    this.#items.delete(key);
    const ending = item.watch.stop().finally(() => {
      if (this.#ending.get(key) === ending) this.#ending.delete(key);
    });
    this.#ending.set(key, ending);
    item.watch.releaseReaders();
  }

  async get(namespace: string, name: string, signal: AbortSignal): Promise<T | undefined> {
    const item = this.#items.get(objectKey({ namespace, name }));
    if (item === undefined) throw notRegistered({ namespace, name });
    const { watch } = item;
    // First of all, so that the watch is not found idle while we wait for it.
    item.readAtMs = this.#deps.clock.now();
    this.#wake(item);
    if (!watch.isSynced) await this.#sync(item, signal);
    const object = watch.known?.object;
    if (object?.immutable === true && watch.isSynced) this.#sleep(item, 'immutable');
    return object;
  }

  changes(signal: AbortSignal): AsyncIterable<ObjectChange> {
    return this.#changes.follow(signal);
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    while (!signal.aborted) {
      this.#sleepIdle();
      await Promise.all([this.#recheckDue(signal), clock.sleep(scanMs, signal).catch(() => {})]);
    }
    this.#isStopped = true;
    const ending = [...this.#items.values()].map(({ watch }) => watch.stop());
    await Promise.all([...ending, ...this.#ending.values()]);
  }

  #add(key: ObjectKey, reference: Reference): Item<T> {
    const watch = new ObjectWatch<T>(reference, this.#watchDeps, this.#ending.get(key));
    const item: Item<T> = { watch, state: 'on', references: new Map(), shownBy: 0, readAtMs: 0, recheckAtMs: 0 };
    this.#items.set(key, item);
    if (!this.#isStopped) watch.start();
    return item;
  }

  /** Returns when there is something to answer with, current or not; throws when there is nothing in time. */
  async #sync(item: Item<T>, signal: AbortSignal): Promise<void> {
    const { watch } = item;
    signal.throwIfAborted();
    const done = new AbortController();
    const giveUp = (): void => done.abort();
    const stopListening = onAbort(signal, giveUp);
    const limit = this.#deps.clock.sleep(syncWaitMsMax, done.signal).then(giveUp, () => {});
    await watch.nextObservation(done.signal);
    done.abort();
    await limit;
    stopListening();
    signal.throwIfAborted();
    if (this.#items.get(objectKey(watch.id)) !== item) throw notRegistered(watch.id);
    // If the server is away, what we knew before the watch was stopped is better than nothing. A server that is merely slow
    // will answer, and an old answer now would be believed until the container starts again.
    const { isSynced, known, interruption } = watch;
    if (isSynced || (known !== undefined && interruption !== undefined)) return;
    watch.hasFailedReader = true;
    const text = `failed to sync ${this.#kind.singular} cache: timed out waiting for the condition`;
    throw new OperatingError('ObjectNotSynced', text, interruption && { cause: interruption.error });
  }

  #wake(item: Item<T>): void {
    if (item.state !== 'idle' || this.#isStopped) return;
    item.state = 'on';
    item.watch.start();
  }

  #sleep(item: Item<T>, because: 'idle' | 'immutable'): void {
    if (item.state !== 'on' || this.#isStopped) return;
    item.state = because;
    void item.watch.stop();
    if (because === 'idle') item.watch.unsync();
    else this.#planRecheck(item);
    const { plural: resource } = this.#kind.resource;
    this.#deps.notify({ kind: 'ObjectWatchStopped', resource, id: item.watch.id, because });
  }

  #sleepIdle(): void {
    const now = this.#deps.clock.now();
    for (const item of this.#items.values()) {
      // A first list still under way is work that would be lost.
      const isIdle = item.watch.isSynced && item.shownBy === 0 && now > item.readAtMs + this.#idleMs;
      if (isIdle) this.#sleep(item, 'idle');
    }
  }

  #planRecheck(item: Item<T>): void {
    const { clock, random } = this.#deps;
    item.recheckAtMs = clock.now() + jittered(recheckMs, recheckSpread, random);
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

  async #recheck(item: Item<T>, signal: AbortSignal): Promise<void> {
    const { source, notify } = this.#deps;
    const { plural: resource } = this.#kind.resource;
    const { id, known } = item.watch;
    this.#planRecheck(item);
    let uid: string | undefined;
    try {
      uid = await source.uidOf(id, signal);
    } catch (error) {
      if (!signal.aborted) notify({ kind: 'ObjectCheckFailed', resource, id, error });
      return;
    }
    if (item.state !== 'immutable' || this.#items.get(objectKey(id)) !== item) return;
    if (uid === known?.object?.metadata.uid) return;
    notify({ kind: 'ImmutableObjectReplaced', resource, id });
    this.#watchAgain(item);
  }

  #watchAgain(item: Item<T>): void {
    if (this.#isStopped) return;
    item.state = 'on';
    // Otherwise the next read would find the old content and stop the watch before it has observed anything.
    item.watch.unsync();
    item.watch.start();
  }
}
