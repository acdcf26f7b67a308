/**
 * The strategy `Cache`: a copy of each object that is read, used until its time to live has passed. Nothing is fetched before it
 * is read. One fetch at a time for each object; different objects do not wait for each other. A copy outlives the API server:
 * while that is away, reads get the last one and ask again each time.
 *
 * The strategy `Get` keeps nothing and asks the API server at each read.
 */
import { untilAborted } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';
import { CoalescingTopic } from '../base/coalescing-queue.ts';
import { Semaphore } from '../base/semaphore.ts';
import type { Node } from '../kube/kinds/node.ts';
import { isOlder } from '../kube/schema/meta.ts';
import {
  type ManagedKind,
  type ManagedObject,
  type ObjectChange,
  type ObjectId,
  type ObjectKey,
  type ObjectManager,
  type ObjectSource,
  type Reference,
  ReferencedObjects,
  notRegistered,
  objectKey,
} from './object-manager.ts';

const ttlMsDefault = 60_000;
const ttlAnnotation = 'node.alpha.kubernetes.io/ttl';

/**
 * How long a node may use a copy of an object, as the cluster's TTL controller writes it by the number of its nodes. Undefined
 * without a whole number. Zero is an answer: never use a copy.
 */
export function ttlMsOfNode(node: Node | undefined): number | undefined {
  const text = node?.metadata.annotations?.[ttlAnnotation];
  return text !== undefined && /^[+-]?\d+$/.test(text) ? Number(text) * 1000 : undefined;
}

export interface CachedObjectsDeps<T extends ManagedObject> {
  readonly source: Pick<ObjectSource<T>, 'get'>;
  readonly clock: Clock;
  /** Our own node as last seen, from memory. */
  readonly ownNode: () => Node | undefined;
}

interface Answer<T> {
  /** Undefined: there is no such object. */
  readonly object: T | undefined;
  readonly atMs: number;
}

class Copy<T> {
  readonly turn = new Semaphore(1);
  answer: Answer<T> | undefined;
  /** Used only while the server is away. Never fresh, and never a reason to accept a cached answer. */
  readonly lastResort: Answer<T> | undefined;

  constructor(lastResort?: Answer<T>) {
    this.lastResort = lastResort;
  }

  get best(): Answer<T> | undefined {
    return this.answer ?? this.lastResort;
  }
}

interface Entry<T> {
  references: number;
  copy: Copy<T>;
  /** The version that get() returned last, or `missing`; undefined before the first read. */
  lastRead: string | undefined;
}

export class CachedObjects<T extends ManagedObject> extends ReferencedObjects implements ObjectManager<T> {
  readonly #deps: CachedObjectsDeps<T>;
  readonly #entries = new Map<ObjectKey, Entry<T>>();
  readonly #changes = new CoalescingTopic<ObjectChange>(objectKey);

  constructor(kind: ManagedKind<T>, deps: CachedObjectsDeps<T>) {
    super(kind.kind);
    this.#deps = deps;
  }

  override addReference(reference: Reference): void {
    const key = objectKey(reference);
    const entry = this.#entries.get(key) ?? { references: 0, copy: new Copy(), lastRead: undefined };
    entry.references += 1;
    // A pod that is new to the object must not start with an old copy. A read under way keeps to the copy it began with.
    entry.copy = new Copy(entry.copy.best);
    this.#entries.set(key, entry);
  }

  override releaseReference(reference: Reference): void {
    const entry = this.#entries.get(objectKey(reference));
    if (entry === undefined) return;
    entry.references -= 1;
    if (entry.references === 0) this.#entries.delete(objectKey(reference));
  }

  async get(namespace: string, name: string, signal: AbortSignal): Promise<T | undefined> {
    const id = { namespace, name };
    const entry = this.#entries.get(objectKey(id));
    if (entry === undefined) throw notRegistered(id);
    const { copy } = entry;
    const release = await copy.turn.acquire(signal);
    try {
      const { answer } = copy;
      const object =
        answer !== undefined && this.#isFresh(answer) ? answer.object : await this.#refresh(id, copy, signal);
      this.#reportChange(id, entry, object);
      return object;
    } finally {
      release();
    }
  }

  changes(signal: AbortSignal): AsyncIterable<ObjectChange> {
    return this.#changes.follow(signal);
  }

  /** There is no background work: an object is fetched when it is read. */
  run(signal: AbortSignal): Promise<void> {
    return untilAborted(signal);
  }

  /** A missing object is looked for at every read: only copies of objects live for a time. */
  #isFresh({ object, atMs }: Answer<T>): boolean {
    const ttlMs = ttlMsOfNode(this.#deps.ownNode()) ?? ttlMsDefault;
    return object !== undefined && this.#deps.clock.now() < atMs + ttlMs;
  }

  async #refresh(id: ObjectId, copy: Copy<T>, signal: AbortSignal): Promise<T | undefined> {
    const old = copy.answer?.object;
    let object: T | undefined;
    try {
      object = await this.#deps.source.get(id, { mayBeCached: old !== undefined }, signal);
    } catch (error) {
      if (copy.best === undefined || signal.aborted) throw error;
      return copy.best.object;
    }
    // The server's own copy may be older than ours. The time is not stamped, so that the next read asks again.
    const isOld = old !== undefined && isOlder(object?.metadata.resourceVersion, old.metadata.resourceVersion);
    if (isOld && object !== undefined) return old;
    copy.answer = { object, atMs: this.#deps.clock.now() };
    return object;
  }

  #reportChange(id: ObjectId, entry: Entry<T>, object: T | undefined): void {
    const { uid = '', resourceVersion } = object?.metadata ?? {};
    const version = object === undefined ? 'missing' : `${uid}/${resourceVersion ?? ''}`;
    const before = entry.lastRead;
    entry.lastRead = version;
    if (before !== undefined && before !== version) this.#changes.publish({ ...id, resourceVersion });
  }
}

/** The strategy `Get`. It reports no changes: it never knows of any. */
export function uncachedObjects<T extends ManagedObject>(source: Pick<ObjectSource<T>, 'get'>): ObjectManager<T> {
  return {
    get: (namespace, name, signal) => source.get({ namespace, name }, { mayBeCached: false }, signal),
    registerPod() {},
    unregisterPod() {},
    changes: (signal) => new CoalescingTopic<ObjectChange>().follow(signal),
    run: untilAborted,
  };
}
