/**
 * An API server as the object managers see one, driven by hand: a test puts and removes objects, takes the server away, holds
 * back its answers and reads what was asked of it. What it sends is on its way when the call returns.
 */
import { untilAborted } from '../../base/abort.ts';
import { CoalescingTopic } from '../../base/coalescing-queue.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { ManagedKind, ManagedObject } from '../../objects/managed-kind.ts';
import { ObjectNotFoundError, WatchRefusedError } from '../../objects/object-errors.ts';
import { type ObjectId, objectKey } from '../../objects/object-id.ts';
import type { ObjectManager } from '../../objects/object-manager.ts';
import type { ObjectEvent, ObjectSource, WatchOptions, WatchScope } from '../../objects/object-source.ts';

interface Watch<T> {
  readonly scope: WatchScope;
  readonly options: WatchOptions;
  readonly events: ObjectEvent<T>[];
  isListed: boolean;
  wake: () => void;
}

export class ScriptedObjectSource<T extends ManagedObject> implements ObjectSource<T> {
  /** Every request in order: `get shop/a`, `get shop/a cached`, `uid shop/a`, `list shop/a`, `watch shop/a`, `list shop`. */
  readonly requests: string[] = [];
  readonly #resource: string;
  readonly #objects = new Map<string, T>();
  readonly #watches = new Set<Watch<T>>();
  #revision = 0;
  #away: Error | undefined;
  #isHeld = false;
  #refused: (scope: WatchScope) => boolean = () => false;
  #getting: ((object: T | undefined) => Promise<void>) | undefined;

  constructor(resource: string) {
    this.#resource = resource;
  }

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

  /** The scopes that are watched now, sorted. */
  get watched(): readonly string[] {
    return [...this.#watches].map(({ scope }) => textOf(scope)).toSorted();
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

  /** Watches of these scopes, also those under way, are refused. */
  refuse(refused: (scope: WatchScope) => boolean): void {
    this.#refused = refused;
    for (const watch of this.#watches) {
      if (refused(watch.scope)) this.#interrupt(watch, refusal(watch.scope));
      else if (!watch.isListed) this.#list(watch);
    }
  }

  /** A short interruption, after which the watches go on where they were. */
  blink(): void {
    for (const watch of this.#watches) watch.options.interrupted(new Error('connection reset'));
    for (const watch of this.#watches) watch.options.contact();
  }

  /** Sends any event to whoever watches the scope: for servers that misbehave. */
  send(scope: WatchScope, event: ObjectEvent<T>): void {
    for (const watch of this.#watches) if (textOf(watch.scope) === textOf(scope)) push(watch, event);
  }

  /** Runs between a get's reading of the object and its answer. */
  whileGetting(step: ((object: T | undefined) => Promise<void>) | undefined): void {
    this.#getting = step;
  }

  async get(id: ObjectId, { mayBeCached }: { readonly mayBeCached: boolean }, signal: AbortSignal): Promise<T> {
    this.requests.push(`get ${textOf(id)}${mayBeCached ? ' cached' : ''}`);
    signal.throwIfAborted();
    if (this.#away !== undefined) throw this.#away;
    const object = this.#objects.get(objectKey(id));
    await this.#getting?.(object);
    if (object === undefined) throw ObjectNotFoundError.of(this.#resource, id.name);
    return object;
  }

  async uidOf(id: ObjectId, signal: AbortSignal): Promise<string | undefined> {
    this.requests.push(`uid ${textOf(id)}`);
    signal.throwIfAborted();
    if (this.#away !== undefined) throw this.#away;
    return Promise.resolve(this.#objects.get(objectKey(id))?.metadata.uid);
  }

  async *watch(scope: WatchScope, options: WatchOptions, signal: AbortSignal): AsyncGenerator<ObjectEvent<T>> {
    const watch: Watch<T> = { scope, options, events: [], isListed: false, wake: () => {} };
    const abort = (): void => watch.wake();
    signal.addEventListener('abort', abort, { once: true });
    this.#watches.add(watch);
    try {
      const { notBefore } = options;
      this.requests.push(`list ${textOf(scope)}${notBefore === undefined ? '' : ` not before ${notBefore}`}`);
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
    const { scope } = watch;
    if (this.#away !== undefined) return watch.options.interrupted(this.#away);
    if (this.#refused(scope)) return watch.options.interrupted(refusal(scope));
    if (this.#isHeld) return;
    watch.isListed = true;
    watch.options.contact();
    const objects = [...this.#objects.values()].filter((object) => isIn(scope, object));
    push(watch, { kind: 'replaced', objects, resourceVersion: String(this.#revision) });
    this.requests.push(`watch ${textOf(scope)}`);
  }

  #interrupt(watch: Watch<T>, error: Error): void {
    watch.isListed = false;
    // What was sent and not taken is lost with the connection.
    watch.events.length = 0;
    watch.options.interrupted(error);
  }

  #send(event: Extract<ObjectEvent<T>, { readonly object: T }>): void {
    for (const watch of this.#watches) if (watch.isListed && isIn(watch.scope, event.object)) push(watch, event);
  }
}

function push<T>(watch: Watch<T>, event: ObjectEvent<T>): void {
  watch.events.push(event);
  watch.wake();
}

function refusal(scope: WatchScope): Error {
  return new WatchRefusedError(`${textOf(scope)} is forbidden`);
}

function isIn({ namespace, name }: WatchScope, { metadata }: ManagedObject): boolean {
  return metadata.namespace === namespace && (name === undefined || metadata.name === name);
}

function textOf({ namespace, name }: WatchScope): string {
  return name === undefined ? namespace : `${namespace}/${name}`;
}

/** An object manager without a server: a test says what there is, and sees who registered. */
export class FakeObjectManager<T extends ManagedObject> implements ObjectManager<T> {
  readonly #kind: ManagedKind<T>;
  readonly #objects = new Map<string, T>();
  readonly #pods = new Map<string, Pod>();
  readonly #feed = new CoalescingTopic<ObjectId>(objectKey);
  #failure: Error | undefined;

  constructor(kind: ManagedKind<T>) {
    this.#kind = kind;
  }

  put(object: T): void {
    const { namespace = '', name } = object.metadata;
    this.#objects.set(objectKey({ namespace, name }), object);
    this.#feed.publish({ namespace, name });
  }

  remove(id: ObjectId): void {
    if (this.#objects.delete(objectKey(id))) this.#feed.publish(id);
  }

  /** Every get fails with this error, until it is undefined again. */
  fail(error: Error | undefined): void {
    this.#failure = error;
  }

  /** The uids of the registered pods. */
  get registered(): readonly string[] {
    return [...this.#pods.keys()];
  }

  async get(namespace: string, name: string, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    if (this.#failure !== undefined) throw this.#failure;
    const object = this.#objects.get(objectKey({ namespace, name }));
    if (object === undefined) throw ObjectNotFoundError.of(this.#kind.singular, name);
    return Promise.resolve(object);
  }

  registerPod(pod: Pod): void {
    this.#pods.set(pod.metadata.uid ?? '', pod);
  }

  unregisterPod(pod: Pod): void {
    this.#pods.delete(pod.metadata.uid ?? '');
  }

  changes(signal: AbortSignal): AsyncIterable<ObjectId> {
    return this.#feed.follow(signal);
  }

  ageOf(namespace: string, name: string): number | undefined {
    return this.#objects.has(objectKey({ namespace, name })) ? 0 : undefined;
  }

  run(signal: AbortSignal): Promise<void> {
    return untilAborted(signal);
  }
}
