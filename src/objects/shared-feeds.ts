/**
 * The watch scope `auto`: a watch for each object until a namespace has enough of them, then one for the whole namespace if the
 * server allows it. Whether it does is found out by trying: the refusal itself is the one answer that counts, and an access
 * review could be refused as well.
 *
 *   own ──enough objects──▶ trying ──first list──▶ shared        The old watches run until the new one has listed, and
 *    ▲                        │                      │           listeners never go back in time, so a switch loses no
 *    └──────────refused───────┴───────refused────────┘           update and shows none twice.
 */
import { Feed } from './feed.ts';
import type { FeedDeps, FeedListener } from './feed.ts';
import { OwnFeeds } from './feeds.ts';
import type { Feeds } from './feeds.ts';
import type { ManagedObject } from './managed-kind.ts';
import { WatchRefusedError } from './object-errors.ts';

interface Namespace<T extends ManagedObject> {
  readonly name: string;
  readonly listeners: Set<FeedListener<T>>;
  state: 'own' | 'trying' | 'shared';
  feed: Feed<T> | undefined;
  retryAtMs: number;
}

/** Fewer watches are not worth reading a whole namespace for, of which a node may need little. */
const sharedFrom = 10;
/** Rights change seldom, and asking costs one refused list. */
const refusalMs = 600_000;

export class SharedFeeds<T extends ManagedObject> implements Feeds<T> {
  readonly #deps: FeedDeps<T>;
  readonly #own: OwnFeeds<T>;
  readonly #namespaces = new Map<string, Namespace<T>>();
  readonly #ending = new Set<Promise<void>>();

  constructor(deps: FeedDeps<T>) {
    this.#deps = deps;
    this.#own = new OwnFeeds(deps);
  }

  join(listener: FeedListener<T>): void {
    const namespace = this.#namespaceOf(listener);
    if (namespace.listeners.has(listener)) return;
    namespace.listeners.add(listener);
    if (namespace.state !== 'shared') this.#own.join(listener);
    namespace.feed?.join(listener);
    const isEnough = namespace.listeners.size >= sharedFrom && this.#deps.clock.now() >= namespace.retryAtMs;
    if (namespace.state === 'own' && isEnough) this.#try(namespace);
  }

  leave(listener: FeedListener<T>): void {
    const namespace = this.#namespaces.get(listener.id.namespace);
    if (namespace?.listeners.delete(listener) !== true) return;
    this.#own.leave(listener);
    namespace.feed?.leave(listener);
    if (namespace.listeners.size > 0) return;
    this.#drop(namespace);
    this.#namespaces.delete(namespace.name);
  }

  isShared({ id }: FeedListener<T>): boolean {
    return this.#namespaces.get(id.namespace)?.state === 'shared';
  }

  async ended(): Promise<void> {
    await Promise.all([this.#own.ended(), ...this.#ending]);
  }

  #namespaceOf({ id: { namespace: name } }: FeedListener<T>): Namespace<T> {
    let namespace = this.#namespaces.get(name);
    if (namespace === undefined) {
      namespace = { name, listeners: new Set(), state: 'own', feed: undefined, retryAtMs: 0 };
      this.#namespaces.set(name, namespace);
    }
    return namespace;
  }

  #try(namespace: Namespace<T>): void {
    const feed = new Feed({ namespace: namespace.name }, this.#deps, {
      listed: () => {
        namespace.state = 'shared';
        for (const listener of namespace.listeners) this.#own.leave(listener);
      },
      interrupted: (error) => {
        if (namespace.feed !== feed) return false;
        // While we try, every listener still has its own watch, and that one is fine for all we know.
        const isTold = namespace.state === 'shared';
        if (error instanceof WatchRefusedError) this.#fallBack(namespace);
        return isTold;
      },
    });
    namespace.state = 'trying';
    namespace.feed = feed;
    for (const listener of namespace.listeners) feed.join(listener);
  }

  #fallBack(namespace: Namespace<T>): void {
    this.#drop(namespace);
    namespace.state = 'own';
    namespace.retryAtMs = this.#deps.clock.now() + refusalMs * (1 + this.#deps.random() / 2);
    for (const listener of namespace.listeners) this.#own.join(listener);
  }

  #drop(namespace: Namespace<T>): void {
    const { feed } = namespace;
    namespace.feed = undefined;
    if (feed === undefined) return;
    feed.stop();
    const ending = feed.ended.finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }
}
