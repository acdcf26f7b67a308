/** Hands the store's changes to watches: first those of the past that a watch asks for, then each as it comes. */
import type { Change, Store } from '../store/store.ts';
import { SharedChange } from './watch-events.ts';

export interface WatchFeed {
  /** Everything up to here has been handed to everybody. */
  readonly revision: number;
  /**
   * Changes below the prefix with a greater revision, in order, each once; the past ones before this returns. Throws a
   * CompactedError when some of them are gone. Returns how to stop.
   */
  open(prefix: string, afterRevision: number, listener: (changes: readonly SharedChange[]) => void): () => void;
}

interface Subscriber {
  /** Changes up to and including this one were handed over from the log. */
  readonly afterRevision: number;
  readonly listener: (changes: readonly SharedChange[]) => void;
}

export class StoreWatchFeed implements WatchFeed {
  readonly #store: Store;
  /** By prefix, so that a change is not offered to watches of other kinds. */
  readonly #subscribers = new Map<string, Set<Subscriber>>();
  #revision: number;

  constructor(store: Store) {
    this.#store = store;
    this.#revision = store.revision;
  }

  get revision(): number {
    return this.#revision;
  }

  /** Returns how to stop. */
  start(): () => void {
    this.#revision = this.#store.revision;
    return this.#store.subscribe((changes) => this.#dispatch(changes));
  }

  open(prefix: string, afterRevision: number, listener: (changes: readonly SharedChange[]) => void): () => void {
    const past = [...this.#store.changesAfter(afterRevision, prefix)];
    // What is committed but not yet dispatched was in the log already.
    const subscriber = { afterRevision: past.at(-1)?.revision ?? afterRevision, listener };
    if (past.length > 0) listener(past.map((change) => new SharedChange(change)));
    let group = this.#subscribers.get(prefix);
    if (group === undefined) this.#subscribers.set(prefix, (group = new Set()));
    group.add(subscriber);
    const members = group;
    return () => {
      members.delete(subscriber);
      if (members.size === 0) this.#subscribers.delete(prefix);
    };
  }

  #dispatch(changes: readonly Change[]): void {
    const shared = new Map<string, { change: SharedChange; revision: number }[]>();
    for (const change of changes) {
      const entry = { change: new SharedChange(change), revision: change.revision };
      for (const prefix of prefixesOf(change.key)) {
        if (!this.#subscribers.has(prefix)) continue;
        const list = shared.get(prefix);
        if (list === undefined) shared.set(prefix, [entry]);
        else list.push(entry);
      }
      this.#revision = Math.max(this.#revision, change.revision);
    }
    for (const [prefix, entries] of shared) {
      for (const { afterRevision, listener } of this.#subscribers.get(prefix) ?? []) {
        const news = entries.filter(({ revision }) => revision > afterRevision).map(({ change }) => change);
        if (news.length > 0) listener(news);
      }
    }
  }
}

/** Of the kind, and of the namespace in it. */
function prefixesOf(key: string): string[] {
  const parts = key.split('/');
  const kind = `${parts.slice(0, 4).join('/')}/`;
  return parts.length > 5 ? [kind, `${kind}${parts[4]}/`] : [kind];
}
