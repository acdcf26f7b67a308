/** How watched objects are spread over watches: one watch for each object, or one for all of a namespace. */
import { Feed } from './feed.ts';
import type { FeedDeps, FeedListener } from './feed.ts';
import type { ManagedObject } from './managed-kind.ts';
import { objectKey } from './object-id.ts';
import type { ObjectKey } from './object-id.ts';

export interface Feeds<T extends ManagedObject> {
  /** Who has joined already stays as it is. */
  join(listener: FeedListener<T>): void;
  leave(listener: FeedListener<T>): void;
  /** The listener's watch serves others too: leaving it would save nothing. */
  isShared(listener: FeedListener<T>): boolean;
  /** Resolves when every watch that was left has ended. */
  ended(): Promise<void>;
}

/** A watch for each object: all that the credentials of a node allow in a real cluster. */
export class OwnFeeds<T extends ManagedObject> implements Feeds<T> {
  readonly #deps: FeedDeps<T>;
  readonly #feeds = new Map<ObjectKey, Feed<T>>();
  readonly #ending = new Map<ObjectKey, Promise<void>>();

  constructor(deps: FeedDeps<T>) {
    this.#deps = deps;
  }

  join(listener: FeedListener<T>): void {
    const key = objectKey(listener.id);
    if (this.#feeds.has(key)) return;
    const feed = new Feed(listener.id, this.#deps, {}, this.#ending.get(key));
    feed.join(listener);
    this.#feeds.set(key, feed);
  }

  leave(listener: FeedListener<T>): void {
    const key = objectKey(listener.id);
    const feed = this.#feeds.get(key);
    if (feed === undefined) return;
    this.#feeds.delete(key);
    feed.stop();
    const ending = feed.ended.finally(() => {
      if (this.#ending.get(key) === ending) this.#ending.delete(key);
    });
    this.#ending.set(key, ending);
  }

  isShared(): boolean {
    return false;
  }

  async ended(): Promise<void> {
    await Promise.all(this.#ending.values());
  }
}

/** A watch for each namespace, for credentials that may read all of it. */
export class NamespaceFeeds<T extends ManagedObject> implements Feeds<T> {
  readonly #deps: FeedDeps<T>;
  readonly #feeds = new Map<string, Feed<T>>();
  readonly #ending = new Set<Promise<void>>();

  constructor(deps: FeedDeps<T>) {
    this.#deps = deps;
  }

  join(listener: FeedListener<T>): void {
    const { namespace } = listener.id;
    let feed = this.#feeds.get(namespace);
    if (feed === undefined) this.#feeds.set(namespace, (feed = new Feed({ namespace }, this.#deps)));
    feed.join(listener);
  }

  leave(listener: FeedListener<T>): void {
    const { namespace } = listener.id;
    const feed = this.#feeds.get(namespace);
    feed?.leave(listener);
    if (feed === undefined || !feed.isEmpty) return;
    this.#feeds.delete(namespace);
    feed.stop();
    const ending = feed.ended.finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  isShared(): boolean {
    return true;
  }

  async ended(): Promise<void> {
    await Promise.all(this.#ending);
  }
}
