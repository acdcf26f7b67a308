/**
 * The objects of one reflector, as they are now. `follow` feeds it; readers that act on changes
 * subscribe. It asks the server nothing.
 */
import { onAbort } from '../base/abort.ts';
import { type ApiObject, objectKey } from './api/resource-reference.ts';
import { type ReflectorDeps, type ReflectorTarget, reflect } from './reflector.ts';

export interface ObjectChange<T> {
  readonly key: string;
  /** Undefined when it is gone. */
  readonly object: T | undefined;
  /** Undefined when it is new. */
  readonly previous: T | undefined;
}

type ObjectListener<T> = (change: ObjectChange<T>) => void;

export class ObjectCache<T extends ApiObject> {
  readonly #objects = new Map<string, T>();
  readonly #listeners = new Set<ObjectListener<T>>();
  readonly #waiting = new Set<() => void>();
  #isSynced = false;

  /** Keeps the cache equal to the server until the signal aborts. What is in it then stays. */
  async follow(deps: ReflectorDeps, target: ReflectorTarget<T>, signal: AbortSignal): Promise<void> {
    for await (const reflection of reflect(deps, target, signal)) {
      if (reflection.kind === 'replaced') this.#replace(reflection.objects);
      else if (reflection.kind === 'changed') this.#set(objectKey(reflection.object), reflection.object);
      else this.#delete(objectKey(reflection.object));
    }
  }

  /** The first list has come: what is not here does not exist. */
  get isSynced(): boolean {
    return this.#isSynced;
  }

  whenSynced(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#isSynced) return resolve();
      if (signal.aborted) return reject(signal.reason);
      const onSync = (): void => {
        stopListening();
        resolve();
      };
      const stopListening = onAbort(signal, () => {
        this.#waiting.delete(onSync);
        reject(signal.reason);
      });
      this.#waiting.add(onSync);
    });
  }

  /** `namespace/name`, or the name of a cluster-wide object. */
  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  list(): readonly T[] {
    return [...this.#objects.values()];
  }

  get size(): number {
    return this.#objects.size;
  }

  /** Hears of every change from now on, in order; the cache already has it then. Answers how to stop. */
  subscribe(listener: ObjectListener<T>): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #replace(objects: readonly T[]): void {
    const next = new Map(objects.map((object) => [objectKey(object), object]));
    const gone = [...this.#objects.keys()].filter((key) => !next.has(key));
    for (const key of gone) this.#delete(key);
    for (const [key, object] of next) this.#set(key, object);
    this.#isSynced = true;
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  #set(key: string, object: T): void {
    const previous = this.#objects.get(key);
    this.#objects.set(key, object);
    if (previous === undefined || !isSameVersion(previous, object)) this.#emit({ key, object, previous });
  }

  #delete(key: string): void {
    const previous = this.#objects.get(key);
    if (this.#objects.delete(key)) this.#emit({ key, object: undefined, previous });
  }

  #emit(change: ObjectChange<T>): void {
    for (const listener of this.#listeners) listener(change);
  }
}

/** A list repeats what we know. One deleted and made again has a new version too, as all versions of a server differ. */
function isSameVersion(one: ApiObject, other: ApiObject): boolean {
  const { uid, resourceVersion } = one.metadata;
  return (
    resourceVersion !== undefined && resourceVersion === other.metadata.resourceVersion && uid === other.metadata.uid
  );
}
