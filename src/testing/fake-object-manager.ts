/** An object manager without a server: a test says what there is, and sees who registered. */
import { untilAborted } from '../base/until-aborted.ts';
import { ChangeFeed } from '../objects/change-feed.ts';
import { ObjectNotFoundError } from '../objects/object-errors.ts';
import { objectKey } from '../objects/object-id.ts';
import type { ObjectId } from '../objects/object-id.ts';
import type { ManagedKind, ManagedObject } from '../objects/managed-kind.ts';
import type { ObjectManager } from '../objects/object-manager.ts';
import type { Pod } from '../kube/objects/pod.ts';

export class FakeObjectManager<T extends ManagedObject> implements ObjectManager<T> {
  readonly #kind: ManagedKind<T>;
  readonly #objects = new Map<string, T>();
  readonly #pods = new Map<string, Pod>();
  readonly #feed = new ChangeFeed<ObjectId>();
  #failure: Error | undefined;

  constructor(kind: ManagedKind<T>) {
    this.#kind = kind;
  }

  put(object: T): void {
    const { namespace = '', name } = object.metadata;
    this.#objects.set(objectKey({ namespace, name }), object);
    this.#feed.publish(objectKey({ namespace, name }), { namespace, name });
  }

  remove(id: ObjectId): void {
    if (this.#objects.delete(objectKey(id))) this.#feed.publish(objectKey(id), id);
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
    return this.#feed.changes(signal);
  }

  ageOf(namespace: string, name: string): number | undefined {
    return this.#objects.has(objectKey({ namespace, name })) ? 0 : undefined;
  }

  run(signal: AbortSignal): Promise<void> {
    return untilAborted(signal);
  }
}
