/**
 * Objects from the folder of manifests before those of the API server: what lies beside a static pod is meant for it. Where
 * the folder says nothing, the API server is asked, if there is one.
 */
import { ChangeFeed } from '../../objects/change-feed.ts';
import { ObjectNotFoundError } from '../../objects/object-errors.ts';
import type { ObjectId } from '../../objects/object-id.ts';
import type { ObjectManager } from '../../objects/object-manager.ts';
import type { ManagedObject } from '../../objects/managed-kind.ts';

/** `singular` is the kind in messages: `configmap`. */
export class FolderObjects<T extends ManagedObject> implements ObjectManager<T> {
  readonly #singular: string;
  readonly #base: ObjectManager<T> | undefined;
  readonly #changes = new ChangeFeed<ObjectId>();
  #objects: ReadonlyMap<string, T> = new Map();

  constructor(singular: string, base: ObjectManager<T> | undefined) {
    this.#singular = singular;
    this.#base = base;
  }

  /** What the folder has besides: for as long as pods of before may still need what is no longer there. */
  add(objects: readonly T[]): void {
    const added = new Set(objects.map((object) => keyOf(idOf(object))));
    this.replace([...[...this.#objects.values()].filter((object) => !added.has(keyOf(idOf(object)))), ...objects]);
  }

  /** What the folder has now. */
  replace(objects: readonly T[]): void {
    const before = this.#objects;
    this.#objects = new Map(objects.map((object) => [keyOf(idOf(object)), object]));
    for (const [key, object] of [...before, ...this.#objects]) {
      if (versionOf(before.get(key)) !== versionOf(this.#objects.get(key))) this.#changes.publish(key, idOf(object));
    }
  }

  async get(namespace: string, name: string, signal: AbortSignal): Promise<T> {
    const own = this.#objects.get(keyOf({ namespace, name }));
    if (own !== undefined) return own;
    if (this.#base === undefined) throw new ObjectNotFoundError(`${this.#singular} "${name}" not found`);
    return await this.#base.get(namespace, name, signal);
  }

  registerPod(...[pod]: Parameters<ObjectManager<T>['registerPod']>): void {
    this.#base?.registerPod(pod);
  }

  unregisterPod(...[pod]: Parameters<ObjectManager<T>['unregisterPod']>): void {
    this.#base?.unregisterPod(pod);
  }

  async *changes(signal: AbortSignal): AsyncIterable<ObjectId> {
    const merged = new ChangeFeed<ObjectId>();
    const forward = async (feed: AsyncIterable<ObjectId>): Promise<void> => {
      for await (const id of feed) merged.publish(keyOf(id), id);
    };
    const heard = merged.changes(signal);
    const forwarding = [this.#changes.changes(signal), this.#base?.changes(signal) ?? []].map((feed) =>
      forward(feed as AsyncIterable<ObjectId>),
    );
    yield* heard;
    await Promise.all(forwarding);
  }

  ageOf(namespace: string, name: string): number | undefined {
    return this.#objects.has(keyOf({ namespace, name })) ? 0 : this.#base?.ageOf(namespace, name);
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.#base?.run(signal);
  }
}

function idOf({ metadata: { namespace = '', name } }: ManagedObject): ObjectId {
  return { namespace, name };
}

function keyOf({ namespace, name }: ObjectId): string {
  return `${namespace}/${name}`;
}

function versionOf(object: ManagedObject | undefined): string | undefined {
  return object?.metadata.resourceVersion;
}
