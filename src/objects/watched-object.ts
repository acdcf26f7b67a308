/**
 * What is known of one watched object, and who holds on to it. It listens to one or, while a watch is exchanged for another,
 * two feeds; which ones, and when, is not its business.
 *
 *   new ──listed, fetched, changed, deleted──▶ synced ──unsync──▶ unsynced     Invariant: what was known once stays known, as
 *                                                ▲                    │        the last resort for when the server is away.
 *                                                └──listed, fetched───┘
 */
import { onAbort } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';
import { isOlder } from '../kube/schema/meta.ts';
import type { FeedListener } from './feed.ts';
import type { ManagedObject } from './managed-kind.ts';
import type { ObjectId } from './object-id.ts';
import type { Reference } from './reference-counts.ts';

interface Known<T> {
  /** Undefined: there is no such object. */
  readonly object: T | undefined;
  readonly resourceVersion: string | undefined;
}

/** Watched; left alone because nobody reads it; left alone because it cannot change. */
type WatchState = 'on' | 'idle' | 'immutable';

export class WatchedObject<T extends ManagedObject> implements FeedListener<T> {
  readonly id: ObjectId;
  state: WatchState = 'on';
  /** Zero: never. */
  lastReadMs = 0;
  /** Of an immutable object: when to look whether it is still the same. */
  recheckAtMs = 0;
  /** A reader went away empty-handed, and is to be told when there is something. */
  hasFailedReader = false;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #onChange: (id: ObjectId) => void;
  readonly #references = new Map<string, number>();
  readonly #waiters = new Set<() => void>();
  #shownBy = 0;
  #known: Known<T> | undefined;
  #isSynced = false;
  #interruption: { readonly error: unknown } | undefined;
  /** When what is known was last sure to be current; undefined: it is so now. */
  #currentAtMs: number | undefined;

  constructor({ namespace, name }: ObjectId, clock: Pick<Clock, 'now'>, onChange: (id: ObjectId) => void) {
    this.id = { namespace, name };
    this.#clock = clock;
    this.#onChange = onChange;
  }

  addReference({ podUid, use }: Reference): void {
    const key = `${use}/${podUid}`;
    this.#references.set(key, (this.#references.get(key) ?? 0) + 1);
    if (use === 'shown') this.#shownBy += 1;
  }

  /** Of a pod that holds none: no effect. */
  releaseReference({ podUid, use }: Reference): void {
    const key = `${use}/${podUid}`;
    const count = this.#references.get(key);
    if (count === undefined) return;
    if (count === 1) this.#references.delete(key);
    else this.#references.set(key, count - 1);
    if (use === 'shown') this.#shownBy -= 1;
  }

  get isReferenced(): boolean {
    return this.#references.size > 0;
  }

  /** Some volume shows the object, so its changes are wanted although nobody asks. */
  get isShown(): boolean {
    return this.#shownBy > 0;
  }

  get known(): Known<T> | undefined {
    return this.#known;
  }

  get isSynced(): boolean {
    return this.#isSynced;
  }

  get seenVersion(): string | undefined {
    return this.#known?.resourceVersion;
  }

  /** The last thing that went wrong, as long as nothing has gone right since. */
  get interruption(): { readonly error: unknown } | undefined {
    return this.#interruption;
  }

  get ageMs(): number | undefined {
    if (this.#known === undefined) return undefined;
    return this.#currentAtMs === undefined ? 0 : this.#clock.now() - this.#currentAtMs;
  }

  /** Nothing tells of changes any more. What is known counts as current up to now. */
  unwatched(): void {
    this.#currentAtMs ??= this.#clock.now();
  }

  /** It was asked for apart from any watch, and is the same. */
  confirmed(): void {
    this.#currentAtMs = this.#clock.now();
  }

  /** What is known may be wrong by now: readers have to wait for the next observation. */
  unsync(): void {
    this.#isSynced = false;
    this.#interruption = undefined;
  }

  /** Resolves when something is known, or when the waiting is over for another reason: look again. */
  async nextObservation(signal: AbortSignal): Promise<void> {
    if (this.#isSynced || signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        this.#waiters.delete(done);
        stopListening();
        resolve();
      };
      const stopListening = onAbort(signal, done);
      this.#waiters.add(done);
    });
  }

  /** Lets everyone go who waits. */
  release(): void {
    for (const wake of this.#waiters) wake();
  }

  listed(object: T | undefined, listVersion: string, isFirst: boolean): void {
    const version = object?.metadata.resourceVersion ?? listVersion;
    // A new watch may begin behind the one that it follows. Later lists are right even if they are older: a server that was
    // restored from a backup counts from there.
    if (isFirst && this.#isSynced && isOlder(version, this.seenVersion)) return this.resumed();
    this.#observe(object, version);
  }

  fetched(object: T | undefined): void {
    const version = object?.metadata.resourceVersion;
    // Synced already: an event overtook the answer. If it is the older of the two, the next event says so.
    if (this.#isSynced && (object === undefined || isOlder(version, this.seenVersion))) return;
    this.#observe(object, version);
  }

  changed(object: T): void {
    const { resourceVersion } = object.metadata;
    if (this.#isSynced && isOlder(resourceVersion, this.seenVersion)) return this.resumed();
    this.#observe(object, resourceVersion);
  }

  deleted({ metadata: { resourceVersion } }: T): void {
    if (this.#isSynced && isOlder(resourceVersion, this.seenVersion)) return this.resumed();
    this.#observe(undefined, resourceVersion);
  }

  interrupted(error: unknown): void {
    this.#interruption = { error };
    this.unwatched();
  }

  resumed(): void {
    this.#interruption = undefined;
    this.#currentAtMs = undefined;
  }

  #observe(object: T | undefined, resourceVersion: string | undefined): void {
    const before = this.#known;
    const isChange =
      before === undefined ? this.hasFailedReader : !isSame(before.object, object) || this.hasFailedReader;
    this.#known = { object, resourceVersion };
    this.#isSynced = true;
    this.hasFailedReader = false;
    this.resumed();
    this.release();
    if (isChange) this.#onChange(this.id);
  }
}

/** Objects without a version are never the same: nothing says that they are. */
function isSame(one: ManagedObject | undefined, other: ManagedObject | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  const [a, b] = [one.metadata, other.metadata];
  return a.uid === b.uid && a.resourceVersion !== undefined && a.resourceVersion === b.resourceVersion;
}
