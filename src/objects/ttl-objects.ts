/**
 * The strategy `Cache`: a copy of each object that is asked for, used until its time to live has passed. Nothing is fetched
 * before somebody asks. One fetch at a time for each object; different objects do not wait for each other.
 *
 * A copy outlives the API server: while that is away, reads get the last one and ask again each time.
 */
import { untilAborted } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';
import { CoalescingTopic } from '../base/coalescing-queue.ts';
import { Semaphore } from '../base/semaphore.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { isOlder } from '../kube/schema/meta.ts';
import type { ManagedKind, ManagedObject } from './managed-kind.ts';
import { ttlMsOfNode } from './node-ttl.ts';
import { ObjectNotFoundError, ObjectNotRegisteredError } from './object-errors.ts';
import { type ObjectId, type ObjectKey, objectKey } from './object-id.ts';
import type { ObjectManager } from './object-manager.ts';
import type { ObjectSource } from './object-source.ts';
import { type Reference, ReferenceCounts, type ReferenceHolder } from './reference-counts.ts';

const ttlMsDefault = 60_000;

export interface TtlObjectsDeps<T extends ManagedObject> {
  readonly source: Pick<ObjectSource<T>, 'get'>;
  readonly clock: Clock;
  /** Our own node as last seen, from memory. */
  readonly ownNode: () => Node | undefined;
}

interface Entry<T> {
  references: number;
  copy: Copy<T>;
  /** What get() answered last, which a change is a change from. */
  answered: string | undefined;
}

type Known<T> = { readonly object: T; readonly missing?: never } | { readonly missing: ObjectNotFoundError };

interface Answer<T> {
  readonly known: Known<T>;
  readonly atMs: number;
}

class Copy<T> {
  readonly turn = new Semaphore(1);
  answer: Answer<T> | undefined;
  /** For when there is no other because the server is away. Never fresh, and never a reason to accept a cached answer. */
  readonly lastResort: Answer<T> | undefined;

  constructor(lastResort?: Answer<T>) {
    this.lastResort = lastResort;
  }

  get best(): Answer<T> | undefined {
    return this.answer ?? this.lastResort;
  }
}

export class TtlObjects<T extends ManagedObject> implements ObjectManager<T>, ReferenceHolder {
  readonly #deps: TtlObjectsDeps<T>;
  readonly #references: ReferenceCounts;
  readonly #entries = new Map<ObjectKey, Entry<T>>();
  readonly #feed = new CoalescingTopic<ObjectId>(objectKey);

  constructor(kind: ManagedKind<T>, deps: TtlObjectsDeps<T>) {
    this.#deps = deps;
    this.#references = new ReferenceCounts(kind.kind, this);
  }

  registerPod(pod: Pod): void {
    this.#references.registerPod(pod);
  }

  unregisterPod(pod: Pod): void {
    this.#references.unregisterPod(pod);
  }

  addReference(reference: Reference): void {
    const key = objectKey(reference);
    const entry = this.#entries.get(key) ?? { references: 0, copy: new Copy(), answered: undefined };
    entry.references += 1;
    // A pod that is new to the object must not start with an old copy. A read under way keeps to the copy it began with.
    entry.copy = new Copy(entry.copy.best);
    this.#entries.set(key, entry);
  }

  releaseReference(reference: Reference): void {
    const entry = this.#entries.get(objectKey(reference));
    if (entry === undefined) return;
    entry.references -= 1;
    if (entry.references === 0) this.#entries.delete(objectKey(reference));
  }

  async get(namespace: string, name: string, signal: AbortSignal): Promise<T> {
    const id = { namespace, name };
    const entry = this.#entries.get(objectKey(id));
    if (entry === undefined) throw new ObjectNotRegisteredError(id);
    const { copy } = entry;
    const release = await copy.turn.acquire(signal);
    try {
      const { answer } = copy;
      const known =
        answer !== undefined && this.#isFresh(answer) ? answer.known : await this.#refresh(id, copy, signal);
      this.#tellChange(id, entry, known);
      if (known.missing !== undefined) throw known.missing;
      return known.object;
    } finally {
      release();
    }
  }

  changes(signal: AbortSignal): AsyncIterable<ObjectId> {
    return this.#feed.follow(signal);
  }

  ageOf(namespace: string, name: string): number | undefined {
    const answer = this.#entries.get(objectKey({ namespace, name }))?.copy.best;
    return answer === undefined ? undefined : this.#deps.clock.now() - answer.atMs;
  }

  /** There is no background work: an object is looked at when it is asked for. */
  run(signal: AbortSignal): Promise<void> {
    return untilAborted(signal);
  }

  /** An object that is missing is looked for at every read: only copies of objects live for a time. */
  #isFresh({ known, atMs }: Answer<T>): boolean {
    const ttlMs = ttlMsOfNode(this.#deps.ownNode()) ?? ttlMsDefault;
    return known.missing === undefined && this.#deps.clock.now() < atMs + ttlMs;
  }

  async #refresh(id: ObjectId, copy: Copy<T>, signal: AbortSignal): Promise<Known<T>> {
    const old = copy.answer?.known.missing === undefined ? copy.answer?.known : undefined;
    let known: Known<T>;
    try {
      const object = await this.#deps.source.get(id, { mayBeCached: old !== undefined }, signal);
      // The server's own copy may be older than ours. The time is not stamped, so that the next read asks again.
      if (old !== undefined && isOlder(object.metadata.resourceVersion, old.object.metadata.resourceVersion))
        return old;
      known = { object };
    } catch (error) {
      if (!(error instanceof ObjectNotFoundError)) {
        if (copy.best === undefined || signal.aborted) throw error;
        return copy.best.known;
      }
      known = { missing: error };
    }
    copy.answer = { known, atMs: this.#deps.clock.now() };
    return known;
  }

  #tellChange(id: ObjectId, entry: Entry<T>, known: Known<T>): void {
    const version = known.missing === undefined ? versionOf(known.object) : 'missing';
    const before = entry.answered;
    entry.answered = version;
    if (before !== undefined && before !== version) this.#feed.publish(id);
  }
}

function versionOf({ metadata: { uid = '', resourceVersion = '' } }: ManagedObject): string {
  return `${uid}/${resourceVersion}`;
}
