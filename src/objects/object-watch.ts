/**
 * One object: what is known of it, and the watch that keeps that current. The watch runs from start() to stop() and survives
 * whatever the server does in between.
 *
 *   new ──observed──▶ synced ──unsync──▶ unsynced     Invariant: what was known once stays known, as the last resort for
 *                        ▲                   │        when the server is away.
 *                        └─────observed──────┘
 */
import { onAbort } from '../base/abort.ts';
import { BackOff } from '../base/back-off.ts';
import { type Pausing, pauseOf } from '../base/clock.ts';
import type { Semaphore } from '../base/semaphore.ts';
import { isOlder } from '../kube/schema/meta.ts';
import type { ManagedObject, ObjectChange, ObjectEvent, ObjectId, ObjectSource } from './object-manager.ts';

export interface ObjectWatchDeps<T extends ManagedObject> extends Pausing {
  readonly source: Pick<ObjectSource<T>, 'watch'>;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** How many first answers may be outstanding at once, so that a node full of pods does not overrun the server. */
  readonly starts: Semaphore;
  readonly changed: (change: ObjectChange) => void;
}

interface Known<T> {
  /** Undefined: there is no such object. */
  readonly object: T | undefined;
  readonly resourceVersion: string | undefined;
}

/** As client-go's reflector: 0.8 s, doubling up to 30 s, each up to twice as long by chance. */
const retries = { firstMs: 800, msMax: 30_000 };
/** A server that takes longer for a list must not keep others from starting. */
const startMsMax = 10_000;
/** A reason of our own: the usual one has a stack, and would be kept for as long as the watch. */
const over = 'over';

export class ObjectWatch<T extends ManagedObject> {
  readonly id: ObjectId;
  /** A read failed because nothing was known in time: the next observation is reported as a change. */
  hasFailedReader = false;
  readonly #deps: ObjectWatchDeps<T>;
  readonly #waiters = new Set<() => void>();
  #known: Known<T> | undefined;
  #isSynced = false;
  #interruption: { readonly error: unknown } | undefined;
  #stop: AbortController | undefined;
  #ended: Promise<void>;

  /** Begins no sooner than `after` has resolved: two watches of one object never overlap. */
  constructor({ namespace, name }: ObjectId, deps: ObjectWatchDeps<T>, after: Promise<void> = Promise.resolve()) {
    this.id = { namespace, name };
    this.#deps = deps;
    this.#ended = after;
  }

  get known(): Known<T> | undefined {
    return this.#known;
  }

  /** What is known is good to answer with. */
  get isSynced(): boolean {
    return this.#isSynced;
  }

  /** The last failure, as long as nothing was observed since. */
  get interruption(): { readonly error: unknown } | undefined {
    return this.#interruption;
  }

  start(): void {
    if (this.#stop !== undefined) return;
    this.#stop = new AbortController();
    this.#ended = this.#run(this.#ended, this.#stop.signal);
  }

  /** Resolves when nothing of the watch is running any more. */
  stop(): Promise<void> {
    this.#stop?.abort();
    this.#stop = undefined;
    return this.#ended;
  }

  /** What is known may be wrong by now: readers have to wait for the next observation. */
  unsync(): void {
    this.#isSynced = false;
    this.#interruption = undefined;
  }

  /** Resolves when something is known, and also when the signal aborts or the readers are released. */
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

  releaseReaders(): void {
    for (const wake of this.#waiters) wake();
  }

  async #run(before: Promise<void>, signal: AbortSignal): Promise<void> {
    const { random } = this.#deps;
    const backOff = new BackOff({ ...retries, jitter: { spread: 1, random } });
    await before;
    while (!signal.aborted) {
      try {
        await this.#follow(signal);
      } catch (error) {
        if (!signal.aborted) this.#interruption = { error };
      }
      if (!signal.aborted) await pauseOf(this.#deps)(backOff.next(), signal).catch(() => {});
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { source, starts, clock } = this.#deps;
    const release = await starts.acquire(signal);
    const started = new AbortController();
    const limit = clock.sleep(startMsMax, started.signal).then(release, release);
    const interrupted = (error: unknown): void => {
      started.abort(over);
      if (!signal.aborted) this.#interruption = { error };
    };
    try {
      const options = { notBefore: this.#known?.resourceVersion, interrupted };
      for await (const event of source.watch(this.id, options, signal)) {
        if (signal.aborted) return;
        started.abort(over);
        this.#deliver(event);
      }
    } finally {
      started.abort(over);
      await limit;
    }
  }

  #deliver(event: ObjectEvent<T>): void {
    if (event.kind === 'replaced') {
      // Believed even if it is older: a server that was restored from a backup counts from there.
      const object = event.objects.find((one) => this.#isOurs(one));
      return this.#observe(object, object?.metadata.resourceVersion ?? event.resourceVersion);
    }
    const { resourceVersion } = event.object.metadata;
    if (!this.#isOurs(event.object)) return;
    if (this.#isSynced && isOlder(resourceVersion, this.#known?.resourceVersion)) return;
    this.#observe(event.kind === 'changed' ? event.object : undefined, resourceVersion);
  }

  /** A server that ignores the selector must not make a pod read what is not meant for it. */
  #isOurs({ metadata: { namespace, name } }: T): boolean {
    return namespace === this.id.namespace && name === this.id.name;
  }

  #observe(object: T | undefined, resourceVersion: string | undefined): void {
    const before = this.#known;
    const isChange = this.hasFailedReader || (before !== undefined && !isSame(before.object, object));
    this.#known = { object, resourceVersion };
    this.#isSynced = true;
    this.#interruption = undefined;
    this.hasFailedReader = false;
    this.releaseReaders();
    if (isChange) this.#deps.changed({ ...this.id, resourceVersion: object?.metadata.resourceVersion });
  }
}

/** Objects without a version are never the same: nothing says that they are. */
function isSame(one: ManagedObject | undefined, other: ManagedObject | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  const [a, b] = [one.metadata, other.metadata];
  return a.uid === b.uid && a.resourceVersion !== undefined && a.resourceVersion === b.resourceVersion;
}
