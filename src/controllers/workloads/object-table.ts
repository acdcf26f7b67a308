/**
 * The objects of one kind as the loops of workloads see them: by key, by the uid of their controller, and in a namespace. A watch
 * fills it, which may lag behind. What this process wrote itself is shown at once, so that no loop creates a second time what it
 * does not see yet, nor deletes another object because the first is still shown:
 *
 *   written ──▶ assumed ──the watch reports it, or something newer──▶ seen
 *                  └────────5 minutes without a word of it──────────▶ seen
 */
import { Timers } from '../../base/timers.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { controllerOf, isOlder } from '../../kube/schema/meta.ts';
import { timestamp } from '../../kube/values/times.ts';
import type { Clock } from '../../base/clock.ts';
import { type Cluster, type Kind, type ObjectChange } from '../cluster/cluster.ts';

/** As long as client-go's controllers wait for what they expect. */
const assumedMs = 5 * 60_000;
/** Of objects that went while the answer to their creation was on its way. */
const goneMax = 4_096;

interface Assumption<T> {
  readonly object: T;
  /** What the watch reports includes what was written. */
  isMet(seen: T): boolean;
}

type TableFollower<T> = (key: string, object: T | undefined, before: T | undefined) => void;

interface TableDeps {
  readonly cluster: Cluster;
  readonly clock: Clock;
  readonly timers: Timers;
}

export class ObjectTable<T extends KubeObject = KubeObject> {
  readonly kind: Kind;
  readonly #deps: TableDeps;
  readonly #seen = new Map<string, T>();
  readonly #assumed = new Map<string, Assumption<T>>();
  /** Uids. */
  readonly #gone = new Set<string>();
  readonly #ofController = new Groups();
  /** Those without a controller. */
  readonly #orphans = new Groups();
  readonly #ofNamespace = new Groups();
  readonly #followers = new Set<TableFollower<T>>();

  constructor(kind: Kind, deps: TableDeps) {
    this.kind = kind;
    this.#deps = deps;
  }

  keyOf({ metadata: { namespace = '', name } }: Pick<KubeObject, 'metadata'>): string {
    return this.keyAt(namespace, name);
  }

  keyAt(namespace: string, name: string): string {
    return this.#deps.cluster.keyOf(this.kind, namespace, name);
  }

  get(key: string): T | undefined {
    return this.#assumed.get(key)?.object ?? this.#seen.get(key);
  }

  controlledBy(uid: string): readonly T[] {
    return this.#all(this.#ofController.keys(uid));
  }

  orphansIn(namespace: string): readonly T[] {
    return this.#all(this.#orphans.keys(namespace));
  }

  inNamespace(namespace: string): readonly T[] {
    return this.#all(this.#ofNamespace.keys(namespace));
  }

  /** Reports each change; a table is followed before it is filled. */
  follow(follower: TableFollower<T>): void {
    this.#followers.add(follower);
  }

  /** From the watch. */
  see({ key, type, object }: ObjectChange): void {
    const now = object as T;
    const assumed = this.#assumed.get(key);
    this.#replace(key, () => {
      if (type === 'put') this.#seen.set(key, now);
      else {
        this.#seen.delete(key);
        this.#bury(now.metadata.uid ?? '');
      }
      const isOver = type === 'put' ? assumed?.isMet(now) : assumed?.object.metadata.uid === now.metadata.uid;
      if (isOver === true) this.#assumed.delete(key);
    });
  }

  /** As the server answered. */
  created(object: T): void {
    const { resourceVersion } = object.metadata;
    this.#assume(object, (seen) => !isOlder(seen.metadata.resourceVersion, resourceVersion));
  }

  /** What an update wrote, with the version that it was made from. */
  changed(object: T): void {
    const { resourceVersion } = object.metadata;
    this.#assume(object, (seen) => isOlder(resourceVersion, seen.metadata.resourceVersion));
  }

  /** Its deletion was accepted. */
  deleted(object: T): void {
    const { uid, deletionTimestamp = timestamp(this.#deps.clock.now()) } = object.metadata;
    const ending = { ...object, metadata: { ...object.metadata, deletionTimestamp } };
    this.#assume(ending, ({ metadata }) => metadata.uid !== uid || metadata.deletionTimestamp !== undefined);
  }

  #assume(object: T, isMet: (seen: T) => boolean): void {
    const key = this.keyOf(object);
    const seen = this.#seen.get(key);
    if (this.#gone.has(object.metadata.uid ?? '') || (seen !== undefined && isMet(seen))) return;
    const assumption = { object, isMet };
    this.#replace(key, () => void this.#assumed.set(key, assumption));
    this.#deps.timers.after(assumedMs, () => {
      if (this.#assumed.get(key) === assumption) this.#replace(key, () => void this.#assumed.delete(key));
    });
  }

  #replace(key: string, act: () => void): void {
    const before = this.get(key);
    act();
    const now = this.get(key);
    if (before !== undefined) this.#index(key, before, 'remove');
    if (now !== undefined) this.#index(key, now, 'add');
    for (const follower of this.#followers) follower(key, now, before);
  }

  #index(key: string, { metadata }: T, act: 'add' | 'remove'): void {
    const { namespace = '' } = metadata;
    const controller = controllerOf(metadata);
    this.#ofNamespace[act](namespace, key);
    if (controller === undefined) this.#orphans[act](namespace, key);
    else this.#ofController[act](controller.uid, key);
  }

  #bury(uid: string): void {
    this.#gone.add(uid);
    const [oldest] = this.#gone;
    if (this.#gone.size > goneMax && oldest !== undefined) this.#gone.delete(oldest);
  }

  #all(keys: Iterable<string>): readonly T[] {
    return [...keys].flatMap((key) => this.get(key) ?? []);
  }
}

/** Keys by a word that some of them share. */
class Groups {
  readonly #groups = new Map<string, Set<string>>();

  keys(word: string): Iterable<string> {
    return this.#groups.get(word) ?? [];
  }

  add(word: string, key: string): void {
    this.#groups.set(word, (this.#groups.get(word) ?? new Set()).add(key));
  }

  remove(word: string, key: string): void {
    const keys = this.#groups.get(word);
    keys?.delete(key);
    if (keys?.size === 0) this.#groups.delete(word);
  }
}

/** One table for each kind, made when a loop first asks for it and filled when all loops have asked. */
export class WorkloadView {
  readonly #cluster: Cluster;
  readonly #deps: TableDeps;
  /** By group and plural. */
  readonly #tables = new Map<string, ObjectTable>();

  constructor(cluster: Cluster, clock: Clock) {
    this.#cluster = cluster;
    this.#deps = { cluster, clock, timers: new Timers(clock) };
  }

  table<T extends KubeObject>(kind: Kind): ObjectTable<T> {
    const name = `${kind.group}/${kind.plural}`;
    const known = this.#tables.get(name) ?? new ObjectTable(kind, this.#deps);
    this.#tables.set(name, known);
    // A table of a kind holds the objects of that kind.
    return known as unknown as ObjectTable<T>;
  }

  /** All kinds are known before the first is reported: an owner that is not known yet would be taken for gone. */
  async run(signal: AbortSignal): Promise<void> {
    const tables = [...this.#tables.values()];
    await this.#cluster.ready(tables.map(({ kind }) => kind));
    const stops = tables.map((table) => this.#cluster.watch(table.kind, (change) => table.see(change)));
    try {
      await this.#deps.timers.run(signal);
    } finally {
      for (const stop of stops) stop();
    }
  }
}
