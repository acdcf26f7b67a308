/**
 * An API server as the object managers see one, driven by hand: a test puts and removes objects, takes the server away, holds
 * back its answers and reads what was asked of it. What it sends is on its way when the call returns.
 */
import {
  type ManagedObject,
  type ObjectChange,
  type ObjectId,
  objectKey,
  type ObjectManager,
  type ObjectEvent,
  type ObjectSource,
  type WatchOptions,
} from '../../objects/object-manager.ts';
import { untilAborted } from '../../base/abort.ts';
import { CoalescingTopic } from '../../base/coalescing-queue.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';

interface Watch<T> {
  readonly id: ObjectId;
  readonly options: WatchOptions;
  readonly events: ObjectEvent<T>[];
  isListed: boolean;
  wake: () => void;
}

export class ScriptedObjectSource<T extends ManagedObject> implements ObjectSource<T> {
  /** Every request in order: `get shop/a`, `get shop/a cached`, `uid shop/a`, `list shop/a`, `watch shop/a`. */
  readonly requests: string[] = [];
  readonly #objects = new Map<string, T>();
  readonly #watches = new Set<Watch<T>>();
  #revision = 0;
  #away: Error | undefined;
  #isHeld = false;
  #refused: (id: ObjectId) => boolean = () => false;
  #getting: ((object: T | undefined) => Promise<void>) | undefined;

  /** Creates or changes an object, which gets the next version. A new object gets a new uid. */
  put({ namespace, name }: ObjectId, parts: Omit<T, 'metadata'>): T {
    this.#revision += 1;
    const before = this.#objects.get(objectKey({ namespace, name }));
    const uid = before?.metadata.uid ?? `uid-${this.#revision}`;
    const metadata = { namespace, name, uid, resourceVersion: String(this.#revision) };
    const object = { ...parts, metadata } as unknown as T;
    this.#objects.set(objectKey({ namespace, name }), object);
    this.#send({ kind: 'changed', object });
    return object;
  }

  remove(id: ObjectId): void {
    const object = this.#objects.get(objectKey(id));
    if (object === undefined) return;
    this.#revision += 1;
    this.#objects.delete(objectKey(id));
    const metadata = { ...object.metadata, resourceVersion: String(this.#revision) };
    this.#send({ kind: 'deleted', object: { ...object, metadata } });
  }

  current(id: ObjectId): T | undefined {
    return this.#objects.get(objectKey(id));
  }

  /** The objects that are watched now, sorted. */
  get watched(): readonly string[] {
    return [...this.#watches].map(({ id }) => objectKey(id)).toSorted();
  }

  /** From now on every request fails, and every watch is interrupted. */
  goAway(error = new Error('connection refused')): void {
    this.#away = error;
    for (const watch of this.#watches) this.#interrupt(watch, error);
  }

  comeBack(): void {
    this.#away = undefined;
    this.#listAll();
  }

  /** Lists stay unanswered until release(). */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    this.#listAll();
  }

  /** Watches of these objects, also those under way, are refused. */
  refuse(refused: (id: ObjectId) => boolean): void {
    this.#refused = refused;
    for (const watch of this.#watches) {
      if (refused(watch.id)) this.#interrupt(watch, refusal(watch.id));
      else if (!watch.isListed) this.#list(watch);
    }
  }

  /** A short interruption, after which the watches go on where they were. */
  blink(): void {
    for (const watch of this.#watches) watch.options.interrupted(new Error('connection reset'));
  }

  /** Sends any event to the watchers of the object: for servers that misbehave. */
  send(id: ObjectId, event: ObjectEvent<T>): void {
    for (const watch of this.#watches) if (objectKey(watch.id) === objectKey(id)) push(watch, event);
  }

  /** Runs between a get's reading of the object and its answer. */
  whileGetting(step: ((object: T | undefined) => Promise<void>) | undefined): void {
    this.#getting = step;
  }

  async get(
    id: ObjectId,
    { mayBeCached }: { readonly mayBeCached: boolean },
    signal: AbortSignal,
  ): Promise<T | undefined> {
    this.requests.push(`get ${objectKey(id)}${mayBeCached ? ' cached' : ''}`);
    signal.throwIfAborted();
    if (this.#away !== undefined) throw this.#away;
    const object = this.#objects.get(objectKey(id));
    await this.#getting?.(object);
    return object;
  }

  async uidOf(id: ObjectId, signal: AbortSignal): Promise<string | undefined> {
    this.requests.push(`uid ${objectKey(id)}`);
    signal.throwIfAborted();
    if (this.#away !== undefined) throw this.#away;
    return Promise.resolve(this.#objects.get(objectKey(id))?.metadata.uid);
  }

  async *watch(id: ObjectId, options: WatchOptions, signal: AbortSignal): AsyncGenerator<ObjectEvent<T>> {
    const watch: Watch<T> = { id, options, events: [], isListed: false, wake: () => {} };
    const abort = (): void => watch.wake();
    signal.addEventListener('abort', abort, { once: true });
    this.#watches.add(watch);
    try {
      const { notBefore } = options;
      this.requests.push(`list ${objectKey(id)}${notBefore === undefined ? '' : ` not before ${notBefore}`}`);
      this.#list(watch);
      while (!signal.aborted) {
        const event = watch.events.shift();
        if (event !== undefined) yield event;
        else await new Promise<void>((resolve) => (watch.wake = resolve));
      }
    } finally {
      this.#watches.delete(watch);
      signal.removeEventListener('abort', abort);
    }
  }

  #listAll(): void {
    for (const watch of this.#watches) if (!watch.isListed) this.#list(watch);
  }

  #list(watch: Watch<T>): void {
    const { id } = watch;
    if (this.#away !== undefined) return watch.options.interrupted(this.#away);
    if (this.#refused(id)) return watch.options.interrupted(refusal(id));
    if (this.#isHeld) return;
    watch.isListed = true;
    const objects = [...this.#objects.values()].filter((object) => isIn(id, object));
    push(watch, { kind: 'replaced', objects, resourceVersion: String(this.#revision) });
    this.requests.push(`watch ${objectKey(id)}`);
  }

  #interrupt(watch: Watch<T>, error: Error): void {
    watch.isListed = false;
    // What was sent and not taken is lost with the connection.
    watch.events.length = 0;
    watch.options.interrupted(error);
  }

  #send(event: Extract<ObjectEvent<T>, { readonly object: T }>): void {
    for (const watch of this.#watches) if (watch.isListed && isIn(watch.id, event.object)) push(watch, event);
  }
}

function push<T>(watch: Watch<T>, event: ObjectEvent<T>): void {
  watch.events.push(event);
  watch.wake();
}

function refusal(id: ObjectId): Error {
  return new Error(`${objectKey(id)} is forbidden`);
}

function isIn({ namespace, name }: ObjectId, { metadata }: ManagedObject): boolean {
  return metadata.namespace === namespace && metadata.name === name;
}

/** An object manager without a server: a test says what there is, and sees who registered. */
export class FakeObjectManager<T extends ManagedObject> implements ObjectManager<T> {
  readonly #objects = new Map<string, T>();
  readonly #pods = new Map<string, Pod>();
  readonly #feed = new CoalescingTopic<ObjectChange>(objectKey);
  #failure: Error | undefined;

  put(object: T): void {
    const { namespace = '', name } = object.metadata;
    this.#objects.set(objectKey({ namespace, name }), object);
    this.#feed.publish({ namespace, name, resourceVersion: object.metadata.resourceVersion });
  }

  remove(id: ObjectId): void {
    if (this.#objects.delete(objectKey(id))) this.#feed.publish({ ...id, resourceVersion: undefined });
  }

  /** Every get fails with this error, until it is undefined again. */
  fail(error: Error | undefined): void {
    this.#failure = error;
  }

  /** The uids of the registered pods. */
  get registered(): readonly string[] {
    return [...this.#pods.keys()];
  }

  async get(namespace: string, name: string, signal: AbortSignal): Promise<T | undefined> {
    signal.throwIfAborted();
    if (this.#failure !== undefined) throw this.#failure;
    return Promise.resolve(this.#objects.get(objectKey({ namespace, name })));
  }

  registerPod(pod: Pod): void {
    this.#pods.set(pod.metadata.uid ?? '', pod);
  }

  unregisterPod(pod: Pod): void {
    this.#pods.delete(pod.metadata.uid ?? '');
  }

  changes(signal: AbortSignal): AsyncIterable<ObjectChange> {
    return this.#feed.follow(signal);
  }

  run(signal: AbortSignal): Promise<void> {
    return untilAborted(signal);
  }
}

/** For a test that expects the object to be there: rejects where a manager or a source has none. */
export async function present<T>(reading: Promise<T | undefined>): Promise<T> {
  const object = await reading;
  if (object === undefined) throw new Error('not found');
  return object;
}
