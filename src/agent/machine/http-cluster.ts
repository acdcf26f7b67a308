/**
 * A cluster as the loops of controllers/ need it, over HTTP: any API server will do. All loops of a process share one watch for each
 * kind, and what it has seen, so that an object which vanished while the connection was down is reported as deleted.
 */
import type { Clock } from '../../base/clock.ts';
import { runTask } from '../../base/run-task.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { ConflictError, NotFoundError } from '../../client/api/api-errors.ts';
import type { ResourceReference } from '../../client/api/resource-reference.ts';
import { DiscoveredResources } from '../../client/discovery.ts';
import { InitialEventsSupport } from '../../client/initial-list.ts';
import { ObjectCache } from '../../client/object-cache.ts';
import type { ReflectorNotice } from '../../client/reflector.ts';
import {
  CannotRunError,
  type Cluster,
  type ClusterObject,
  type ControllerFailed,
  type DeletionOptions,
  type Kind,
  type ObjectChange,
} from '../../controllers/cluster/cluster.ts';
import { type KubeObject, apiVersionOf } from '../../kube/schema/kind.ts';

interface HttpClusterDeps {
  readonly client: ApiClient;
  readonly clock: Clock;
  /** 0 to 1. */
  readonly random: () => number;
  readonly notify: (notice: ReflectorNotice | ControllerFailed) => void;
}

type Report = (change: ObjectChange) => void;

/** As often as client-go repeats an update. Beyond that the loop looks again, after a pause. */
const conflictsMax = 5;

/** What all loops of a process share. Its watches live until the signal aborts. */
export class SharedCluster {
  readonly deps: HttpClusterDeps;
  readonly #signal: AbortSignal;
  #known: readonly Kind[];
  readonly #watches = new Map<string, SharedWatch>();
  readonly #initialEvents = new InitialEventsSupport();

  private constructor(deps: HttpClusterDeps, known: readonly Kind[], signal: AbortSignal) {
    this.deps = deps;
    this.#known = known;
    this.#signal = signal;
  }

  /** Groups that do not answer are reported and left out: only the loops that need them do without. */
  static async connect(deps: HttpClusterDeps, signal: AbortSignal): Promise<SharedCluster> {
    const without = (path: string, error: unknown): void =>
      deps.notify({ kind: 'WatchFailed', what: path, error, isExpected: false });
    const discovered = await DiscoveredResources.ask(deps.client, signal, without);
    return new SharedCluster(deps, kindsOf(discovered), signal);
  }

  /** `beforeWrite` throws when nothing may be written any more. */
  for(controller: string, signal: AbortSignal, beforeWrite: () => void = () => {}): Cluster {
    return new HttpCluster(this, controller, beforeWrite, signal);
  }

  /** Of the version that was asked for, or of another one of its group: the objects are the same. */
  kind(apiVersion: string, name: string): Kind | undefined {
    const group = apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
    const found = this.#known.filter((kind) => kind.kind === name && kind.group === group);
    return found.find((kind) => apiVersionOf(kind) === apiVersion) ?? found[0];
  }

  kindAt(group: string, plural: string): Kind | undefined {
    return this.#known.find((kind) => kind.group === group && kind.plural === plural);
  }

  /** Asked anew: kinds come and go with the definitions of users. */
  async kinds(signal: AbortSignal): Promise<readonly Kind[]> {
    this.#known = kindsOf(await DiscoveredResources.ask(this.deps.client, signal));
    return this.#known;
  }

  /** Those that a loop follows which follows all. Events have no owners, and there are many. */
  followed(): readonly Kind[] {
    return this.#known.filter(({ plural }) => plural !== 'events');
  }

  watchOf(kind: Kind): SharedWatch {
    const key = `${kind.group}/${kind.plural}`;
    let watch = this.#watches.get(key);
    if (watch === undefined) {
      watch = new SharedWatch(kind);
      this.#watches.set(key, watch);
      // It never rejects, and ends with the signal.
      void watch.run({ ...this.deps, initialEvents: this.#initialEvents }, this.#signal);
    }
    return watch;
  }
}

/** Those whose objects can be followed and removed: reviews, tables of figures and the like are not objects that are kept. */
function kindsOf({ all }: DiscoveredResources): readonly Kind[] {
  return all
    .filter(({ verbs }) => ['get', 'list', 'watch', 'delete'].every((verb) => verbs.includes(verb)))
    .map(({ group, version, kind, plural, isNamespaced }) => ({
      group,
      version,
      kind,
      plural,
      namespaced: isNamespaced,
    }));
}

class SharedWatch {
  readonly #kind: Kind;
  readonly #cache = new ObjectCache<KubeObject>();
  readonly #reports = new Set<Report>();

  constructor(kind: Kind) {
    this.#kind = kind;
  }

  run(deps: HttpClusterDeps & { readonly initialEvents: InitialEventsSupport }, signal: AbortSignal): Promise<void> {
    const isInitial = (): boolean => !this.#cache.isSynced;
    this.#cache.subscribe(({ object, previous }) => {
      // Deleted and made again while nobody looked: those who knew the first have to hear that it is gone.
      const isAnother = object?.metadata.uid !== previous?.metadata.uid;
      if (previous !== undefined && isAnother) this.#emit(new SeenChange(this.#kind, previous, 'delete', false));
      if (object !== undefined) this.#emit(new SeenChange(this.#kind, object, 'put', isInitial()));
    });
    const failed = (error: unknown): void =>
      deps.notify({ kind: 'WatchFailed', what: this.#kind.plural, error, isExpected: false });
    return runTask(
      `the watch of ${this.#kind.plural}`,
      // A server that was away is asked again as soon as it is back.
      (until) =>
        this.#cache.follow(
          { ...deps, pause: (ms, over) => deps.client.pause(ms, over) },
          { resource: referenceOf(this.#kind) },
          until,
        ),
      { clock: deps.clock, notify: ({ error }) => failed(error) },
      signal,
    );
  }

  ready(signal: AbortSignal): Promise<void> {
    return this.#cache.whenSynced(signal);
  }

  add(report: Report): () => void {
    for (const object of this.#cache.list()) report(new SeenChange(this.#kind, object, 'put', true));
    this.#reports.add(report);
    return () => void this.#reports.delete(report);
  }

  #emit(change: ObjectChange): void {
    for (const report of this.#reports) report(change);
  }
}

class SeenChange implements ObjectChange {
  readonly key: string;
  readonly object: KubeObject;
  readonly type: ObjectChange['type'];
  readonly isInitial: boolean;
  #text: string | undefined;

  constructor(kind: Kind, object: KubeObject, type: ObjectChange['type'], isInitial: boolean) {
    this.key = keyOf(kind, object.metadata.namespace ?? '', object.metadata.name);
    this.object = object;
    this.type = type;
    this.isInitial = isInitial;
  }

  mentions(word: string): boolean {
    this.#text ??= JSON.stringify(this.object);
    return this.#text.includes(`"${word}"`);
  }
}

class HttpCluster implements Cluster {
  readonly #shared: SharedCluster;
  readonly #client: ApiClient;
  readonly #controller: string;
  readonly #beforeWrite: () => void;
  readonly #signal: AbortSignal;

  constructor(shared: SharedCluster, controller: string, beforeWrite: () => void, signal: AbortSignal) {
    this.#shared = shared;
    this.#client = shared.deps.client;
    this.#controller = controller;
    this.#beforeWrite = beforeWrite;
    this.#signal = signal;
  }

  kinds(): Promise<readonly Kind[]> {
    return this.#shared.kinds(this.#signal);
  }

  kindOf(apiVersion: string, kind: string): Kind | undefined {
    return this.#shared.kind(apiVersion, kind);
  }

  keyOf(kind: Kind, namespace: string, name: string): string {
    return keyOf(kind, namespace, name);
  }

  placeOf(key: string): { readonly kind: Kind | undefined; readonly namespace: string; readonly name: string } {
    const [group = '', plural = '', namespace = '', name = ''] = key.split('/');
    return { kind: this.#shared.kindAt(group, plural), namespace, name };
  }

  async get(key: string): Promise<KubeObject | undefined> {
    const { resource, place } = this.#reach(key);
    try {
      return await this.#client.get(resource, place, this.#signal);
    } catch (error) {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    }
  }

  async list(kind: Kind, namespace?: string): Promise<readonly ClusterObject[]> {
    const { items } = await this.#client.list(referenceOf(kind), { namespace }, this.#signal);
    return items.map((object) => ({ key: keyOf(kind, object.metadata.namespace ?? '', object.metadata.name), object }));
  }

  async ready(wanted: readonly Kind[] | undefined): Promise<void> {
    if (wanted === undefined) await this.kinds();
    const kinds = wanted ?? this.#shared.followed();
    await Promise.all(kinds.map((kind) => this.#shared.watchOf(kind).ready(this.#signal)));
  }

  watch(kind: Kind | undefined, report: Report): () => void {
    const { notify } = this.#shared.deps;
    const guarded = (change: ObjectChange): void => {
      try {
        if (!this.#signal.aborted) report(change);
      } catch (error) {
        // An object that one loop cannot read must not keep the others from it.
        notify({ kind: 'ControllerFailed', controller: this.#controller, object: change.key, error });
      }
    };
    const kinds = kind === undefined ? this.#shared.followed() : [kind];
    const stops = kinds.map((each) => this.#shared.watchOf(each).add(guarded));
    return () => {
      for (const stop of stops) stop();
    };
  }

  async create(kind: Kind, namespace: string, object: KubeObject): Promise<KubeObject> {
    this.#beforeWrite();
    const whole = { apiVersion: apiVersionOf(kind), kind: kind.kind, ...object };
    const place = { ...(kind.namespaced && { namespace }), fieldManager: this.#controller };
    return await this.#client.create(referenceOf(kind), place, whole, this.#signal);
  }

  async update(key: string, change: (object: KubeObject) => KubeObject, subresource?: string): Promise<void> {
    const { resource, place } = this.#reach(key);
    const at = { ...place, ...(subresource !== undefined && { subresource }), fieldManager: this.#controller };
    for (let attempt = 1; ; attempt += 1) {
      const current = await this.#client.get(resource, place, this.#signal);
      const changed = change(current);
      if (changed === current) return;
      this.#beforeWrite();
      try {
        await this.#client.update(resource, at, changed, this.#signal);
        return;
      } catch (error) {
        if (!(error instanceof ConflictError) || attempt === conflictsMax) throw error;
      }
    }
  }

  async delete(
    key: string,
    preconditions: { readonly uid?: string; readonly resourceVersion?: string } = {},
    given: DeletionOptions = {},
  ): Promise<void> {
    this.#beforeWrite();
    const { resource, place } = this.#reach(key);
    const policy = { preconditions, propagationPolicy: 'Background', ...given };
    await this.#client.delete(resource, place, { kind: 'DeleteOptions', apiVersion: 'v1', ...policy }, this.#signal);
  }

  async bind(key: string, podUid: string, nodeName: string): Promise<void> {
    this.#beforeWrite();
    const { resource, place } = this.#reach(key);
    const target = { apiVersion: 'v1', kind: 'Node', name: nodeName };
    const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { ...place, uid: podUid }, target };
    await this.#client.create(resource, { ...place, subresource: 'binding' }, binding, this.#signal);
  }

  #reach(key: string): {
    readonly resource: ResourceReference<KubeObject>;
    readonly place: { readonly namespace?: string; readonly name: string };
  } {
    const { kind, namespace, name } = this.placeOf(key);
    if (kind === undefined)
      throw new CannotRunError(`it needs the kind of ${key}, which this API server does not have`);
    return { resource: referenceOf(kind), place: kind.namespaced ? { namespace, name } : { name } };
  }
}

/** Names have no slash. */
function keyOf({ group, plural, namespaced }: Kind, namespace: string, name: string): string {
  return [group, plural, namespaced ? namespace : '', name].join('/');
}

function referenceOf({ group, version, plural, kind, namespaced }: Kind): ResourceReference<KubeObject> {
  return { group, version, plural, kind, isNamespaced: namespaced };
}
