/**
 * Claims, volumes and pods on a store in memory, with the loops that look after them in parties that can be killed. A party is
 * what is one process elsewhere. Everything that a party does to the outside, a write to the API server or a change of the
 * disk, is a point with a number: a test that has counted them in one run can strike at each of them in another.
 */
import assert from 'node:assert/strict';
import { setMaxListeners } from 'node:events';
import { followServiceClaims } from '../../apiserver/admission/service-claims.ts';
import { standardAdmission } from '../../apiserver/admission/standard-admission.ts';
import { ResourceTable } from '../../apiserver/model/resource.ts';
import { objectPrefix, placeOfKey } from '../../apiserver/model/stored-objects.ts';
import { deleteObject } from '../../apiserver/rest/delete.ts';
import { resources } from '../../apiserver/resources/resources.ts';
import { StoreCluster } from '../../apiserver/serving/store-cluster.ts';
import type { Cluster, ControllerDeps, Kind, ObjectChange } from '../../controllers/cluster/cluster.ts';
import { kindNamed } from '../../controllers/cluster/cluster.ts';
import { ensureDefaultObjects, runCompanion, serviceAccounts } from '../../controllers/default-objects.ts';
import { runGarbageCollector } from '../../controllers/garbage-collector.ts';
import { runNamespaceDeletion } from '../../controllers/namespace-deletion.ts';
import { runScheduler } from '../../controllers/scheduling/scheduler.ts';
import { runEphemeralClaims } from '../../controllers/storage/ephemeral-claims.ts';
import { type LocalPath, runLocalPath } from '../../controllers/storage/local-path.ts';
import { runClaimProtection, runVolumeProtection } from '../../controllers/storage/protection.ts';
import { runStorage } from '../../controllers/storage/storage.ts';
import { runVolumeBinder } from '../../controllers/storage/volume-binder.ts';
import { runVolumeExpander } from '../../controllers/storage/volume-expander.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { isTerminated } from '../../kube/references/claims.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { ServiceRange, defaultServiceRange } from '../../kube/values/service-range.ts';
import { FakeClock } from '../fakes/fake-clock.ts';
import { memoryStore } from '../servers/stores.ts';
import { openAuthorizer } from '../servers/test-api-server.ts';
import { ClaimDisk, runClaimNode } from './claim-node.ts';

export const namespace = 'shop';
export const nodeName = 'here';

/** `before`: the write, or the change of the disk, was not made. `after`: it was, and the answer is not used. */
export interface Fault {
  /** Its number, from the world's beginning; or a part of its text, for the next one of that kind. */
  readonly point: number | string;
  readonly moment: 'before' | 'after';
  /** The party that was at work dies, or all of them; or they live, and the API server is gone for this one answer. */
  readonly victim: 'party' | 'all' | 'server';
}

export interface PartyDeps extends ControllerDeps {
  readonly localPath: LocalPath;
  readonly disk: ClaimDisk;
  /** Makes a change of the disk a point. */
  readonly effect: <Result>(text: string, act: () => Promise<Result>) => Promise<Result>;
}

export type Party = (deps: PartyDeps, signal: AbortSignal) => Promise<unknown>;

const storageLoops = [
  runScheduler,
  runVolumeBinder,
  runClaimProtection,
  runVolumeProtection,
  runEphemeralClaims,
  runVolumeExpander,
];

export const claimParties: Readonly<Record<string, Party>> = {
  controllers: (deps, signal) =>
    Promise.all([
      runCompanion(serviceAccounts, deps, signal),
      runNamespaceDeletion(deps, signal),
      runGarbageCollector(deps, signal),
      runStorage(deps, [...storageLoops, runLocalPath(deps.localPath)], true, signal),
    ]),
  node: (deps, signal) => runClaimNode(deps, nodeName, signal),
};
const server = { authorityPem: 'pem', endpoint: { address: '10.0.0.1', port: 443, serviceAddress: '10.96.0.1' } };

/** Turns of the event loop without any activity after which nothing is under way: a look needs a few for its promises. */
const quietTurns = 12;
const turnsMax = 5_000;

class KilledError extends Error {}

/** One process, from its start to its end. */
class Life {
  readonly party: string;
  readonly stop = new AbortController();
  ended: Promise<unknown> = Promise.resolve();

  constructor(party: string) {
    this.party = party;
    setMaxListeners(0, this.stop.signal);
  }

  /** Nothing that it does later reaches the world. */
  requireAlive(): void {
    if (this.stop.signal.aborted) throw new KilledError(`${this.party} was killed`);
  }
}

export class StorageWorld {
  readonly store = memoryStore();
  readonly #services = followServiceClaims(this.store, ServiceRange.parse(defaultServiceRange) ?? assert.fail()).claims;
  readonly clock = new FakeClock();
  readonly disk = new ClaimDisk(
    (volumeName) => this.#isClaimed(volumeName),
    (podUid) => this.all<Pod>('v1', 'Pod').some((pod) => pod.metadata.uid === podUid && !isTerminated(pod)),
  );
  /** What was done to the outside, in order. */
  readonly points: string[] = [];
  readonly failures: string[] = [];
  /** The user's, and the test's own. */
  readonly user: Cluster;
  /** Strikes once. */
  fault: Fault | undefined;
  /** The point that was struck. */
  struck: string | undefined;
  /** Every update is computed once on what is there, and again some turns later, as after a conflict. */
  conflicts = false;
  readonly #lives = new Map<string, Life>();
  readonly #lags = new Map<string, number>();
  readonly #feeds = new Set<Feed>();
  readonly #ending: Promise<unknown>[] = [];
  /** Requests of all parties, of any kind. */
  activity = 0;
  #suffixes = 0;
  /** The revision at which a party last listed all pods, by the name it writes under. */
  readonly podLists = new Map<string, number>();

  readonly #parties: Readonly<Record<string, Party>>;

  private constructor(parties: Readonly<Record<string, Party>>) {
    this.#parties = parties;
    this.user = this.#clusterFor('user', new AbortController().signal);
  }

  static async open(parties = claimParties): Promise<StorageWorld> {
    const world = new StorageWorld(parties);
    const { signal } = new AbortController();
    const deps = { ...world.#deps(new Life('set-up')), ...server, clusterFor: world.#clusterFor.bind(world) };
    await ensureDefaultObjects(deps, signal);
    await world.create('v1', 'Namespace', { metadata: { name: namespace } });
    await world.create('v1', 'Node', { metadata: { name: nodeName, labels: { 'kubernetes.io/hostname': nodeName } } });
    await world.setReady(nodeName, true);
    world.start();
    await world.rest();
    return world;
  }

  /** Those that do not run. */
  start(): void {
    for (const [name, run] of Object.entries(this.#parties)) {
      if (this.#lives.has(name)) continue;
      const life = new Life(name);
      this.#lives.set(name, life);
      life.ended = run(this.#deps(life), life.stop.signal).catch((error: unknown) => {
        if (!(error instanceof KilledError)) this.failures.push(`${name}: ${String(error)}`);
      });
    }
  }

  /** kill -9. */
  kill(...names: readonly string[]): void {
    for (const name of names) {
      const life = this.#lives.get(name);
      if (life === undefined) continue;
      this.#lives.delete(name);
      life.stop.abort();
      this.#ending.push(life.ended);
    }
  }

  get parties(): readonly string[] {
    return Object.keys(this.#parties);
  }

  /** Watches of this kind hold this many changes back. */
  lag(plural: string, changes: number): void {
    this.#lags.set(plural, changes);
    for (const feed of this.#feeds) feed.deliver();
  }

  /** All watches are up to date. */
  catchUp(): void {
    for (const plural of this.#lags.keys()) this.lag(plural, 0);
  }

  /** Until nothing is done any more. Time passes for retries, and never as much as would bring a sweep. */
  async rest(): Promise<void> {
    await this.#quiet();
    for (const ms of [100, 400]) {
      await this.clock.advance(ms);
      await this.#quiet();
    }
  }

  /** A moment in which things are under way. */
  async turns(count: number): Promise<void> {
    for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }

  async close(): Promise<void> {
    this.kill(...this.parties);
    await this.clock.advance(0);
    await Promise.all(this.#ending);
    await this.store.close();
  }

  async #quiet(): Promise<void> {
    let [seen, quiet] = [-1, 0];
    for (let turn = 0; quiet < quietTurns; turn += 1) {
      if (turn > turnsMax) throw new Error(`it never comes to rest: ${this.points.slice(-20).join('\n')}`);
      await this.turns(1);
      const now = this.activity + this.store.revision;
      quiet = now === seen ? quiet + 1 : 0;
      seen = now;
    }
  }

  #deps(life: Life): PartyDeps {
    const effect = async <Result>(text: string, act: () => Promise<Result>): Promise<Result> => {
      life.requireAlive();
      const fault = this.#arrive(life, text);
      const result = await act();
      this.#leave(life, fault);
      return result;
    };
    return {
      clusterFor: (name, signal) => new Gate(this.#clusterFor(name, signal), life, this.#gateWorld(name)),
      clock: this.clock,
      random: { suffix: () => `s${(this.#suffixes += 1)}` },
      notify: ({ controller, object, error }) => this.failures.push(`${controller} ${object}: ${String(error)}`),
      disk: this.disk,
      effect,
      localPath: { nodeName, directories: this.disk.directories(effect) },
    };
  }

  #gateWorld(name: string): GateWorld {
    return {
      arrive: (life, text) => this.#arrive(life, text),
      leave: (life, fault) => this.#leave(life, fault),
      hasConflicts: () => this.conflicts,
      touch: () => void (this.activity += 1),
      listed: (kind) => void (kind.kind === 'Pod' && this.podLists.set(name, this.store.revision)),
      feed: (kind, report) => {
        const feed = new Feed(report, () => (kind === undefined ? 0 : (this.#lags.get(kind.plural) ?? 0)));
        this.#feeds.add(feed);
        return { feed, end: () => void this.#feeds.delete(feed) };
      },
    };
  }

  /** The next point. Throws where the fault strikes before anything is done. */
  #arrive(life: Life, text: string): Fault | undefined {
    const number = this.points.push(`${life.party}: ${text}`);
    const { fault } = this;
    const isHere = typeof fault?.point === 'string' ? text.includes(fault.point) : fault?.point === number;
    if (fault === undefined || !isHere) return undefined;
    this.fault = undefined;
    this.struck = this.points.at(-1);
    if (fault.moment === 'before') this.#strike(life, fault);
    return fault;
  }

  #leave(life: Life, fault: Fault | undefined): void {
    if (fault?.moment === 'after') this.#strike(life, fault);
    life.requireAlive();
  }

  #strike(life: Life, { victim }: Fault): never {
    if (victim === 'server') throw new Error('the connection was lost');
    this.kill(...(victim === 'all' ? this.parties : [life.party]));
    throw new KilledError(`${life.party} was killed`);
  }

  #clusterFor(name: string, signal: AbortSignal): StoreCluster {
    const { store, clock } = this;
    const random = this.#random();
    const admission = standardAdmission({ store, clock, random, services: this.#services, authorizer: openAuthorizer });
    const table = new ResourceTable(resources);
    return new StoreCluster({ store, clock, random, admission, resources: table }, name, signal);
  }

  #isClaimed(volumeName: string): boolean {
    const claims = this.all<PersistentVolumeClaim>('v1', 'PersistentVolumeClaim');
    return claims.some(({ metadata, spec }) => `pvc-${metadata.uid}` === volumeName && spec.volumeName === volumeName);
  }

  // What a user does, and sees.

  async create(apiVersion: string, kind: string, object: KubeObject): Promise<void> {
    await this.user.create(kindNamed(this.user, apiVersion, kind), object.metadata.namespace ?? '', object);
  }

  /** Without a policy as a client does that says nothing. */
  async remove(key: string, propagationPolicy?: string): Promise<void> {
    const { store, clock } = this;
    const { namespace: home, ...place } = placeOfKey(key);
    const resource = new ResourceTable(resources).byPlural({ group: place.group, version: 'v1' }, place.plural);
    if (resource === undefined) throw new Error(`no ${place.plural}`);
    const deps = { store, clock, random: this.#random(), admission: [] };
    const options = propagationPolicy === undefined ? {} : { propagationPolicy };
    const user = { name: 'user', uid: '', groups: ['system:masters'], extra: {} };
    await deleteObject(deps, {
      resource,
      namespace: home,
      name: place.name,
      options,
      context: { user, dryRun: false },
    });
  }

  #random(): { readonly uuid: () => string; readonly suffix: () => string } {
    return { uuid: () => `uid-${(this.#suffixes += 1)}`, suffix: () => `s${(this.#suffixes += 1)}` };
  }

  key(kind: string, name: string): string {
    const found = kindNamed(this.user, kind === 'StorageClass' ? 'storage.k8s.io/v1' : 'v1', kind);
    return this.user.keyOf(found, found.namespaced ? namespace : '', name);
  }

  async get<T extends KubeObject>(kind: string, name: string): Promise<T | undefined> {
    return (await this.user.get(this.key(kind, name))) as T | undefined;
  }

  /** At this moment. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows the shape of the kind
  all<T extends KubeObject>(apiVersion: string, kind: string): readonly T[] {
    const prefix = objectPrefix(kindNamed(this.user, apiVersion, kind));
    return this.store.list({ prefix }).items.map(({ value }): T => JSON.parse(value));
  }

  async setReady(name: string, isReady: boolean): Promise<void> {
    const conditions = [{ type: 'Ready', status: isReady ? 'True' : 'False' }];
    await this.user.update(
      this.key('Node', name),
      (node) => ({ ...node, status: { conditions } }) as KubeObject,
      'status',
    );
  }
}

function frozen(value: unknown): void {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
}

/** The changes of one watch, some of which may be held back. */
class Feed {
  readonly #report: (change: ObjectChange) => void;
  readonly #lag: () => number;
  readonly #held: ObjectChange[] = [];

  constructor(report: (change: ObjectChange) => void, lag: () => number) {
    this.#report = report;
    this.#lag = lag;
  }

  push(change: ObjectChange): void {
    this.#held.push(change);
    this.deliver();
  }

  deliver(): void {
    while (this.#held.length > this.#lag()) {
      const change = this.#held.shift();
      if (change !== undefined) this.#report(change);
    }
  }
}

interface GateWorld {
  arrive(life: Life, text: string): Fault | undefined;
  leave(life: Life, fault: Fault | undefined): void;
  hasConflicts(): boolean;
  touch(): void;
  listed(kind: Kind): void;
  feed(
    kind: Kind | undefined,
    report: (change: ObjectChange) => void,
  ): { readonly feed: Feed; readonly end: () => void };
}

/** The cluster as one life of a party has it: writes are points, and a life that has ended neither reads nor writes. */
class Gate implements Cluster {
  readonly #inner: StoreCluster;
  readonly #life: Life;
  readonly #world: GateWorld;

  constructor(inner: StoreCluster, life: Life, world: GateWorld) {
    this.#inner = inner;
    this.#life = life;
    this.#world = world;
  }

  kinds(): Promise<readonly Kind[]> {
    return this.#inner.kinds();
  }

  ready(): Promise<void> {
    return this.#inner.ready();
  }

  kindOf(apiVersion: string, kind: string): Kind | undefined {
    return this.#inner.kindOf(apiVersion, kind);
  }

  keyOf(kind: Kind, home: string, name: string): string {
    return this.#inner.keyOf(kind, home, name);
  }

  placeOf(key: string): ReturnType<Cluster['placeOf']> {
    return this.#inner.placeOf(key);
  }

  async get(key: string): Promise<KubeObject | undefined> {
    this.#begin();
    return await this.#inner.get(key);
  }

  async list(kind: Kind, home?: string): ReturnType<Cluster['list']> {
    this.#begin();
    this.#world.listed(kind);
    return await this.#inner.list(kind, home);
  }

  watch(kind: Kind | undefined, report: (change: ObjectChange) => void): () => void {
    const passOn = (change: ObjectChange): void => {
      // Others see the same object.
      frozen(change.object);
      if (!this.#life.stop.signal.aborted) report(change);
    };
    const { feed, end } = this.#world.feed(kind, passOn);
    // What is there when a watch begins is listed; only what happens later may come late.
    const stop = this.#inner.watch(kind, (change) => (change.isInitial ? passOn(change) : feed.push(change)));
    return () => {
      stop();
      end();
    };
  }

  async create(kind: Kind, home: string, object: KubeObject): Promise<KubeObject> {
    return await this.#write(`create ${kind.plural}/${object.metadata.name}`, () =>
      this.#inner.create(kind, home, object),
    );
  }

  async update(key: string, change: (object: KubeObject) => KubeObject, subresource?: string): Promise<void> {
    this.#begin();
    if (this.#world.hasConflicts()) {
      const seen = await this.#inner.get(key);
      if (seen !== undefined) change(seen);
      await new Promise((resolve) => setImmediate(resolve));
      this.#begin();
    }
    let fault: Fault | undefined;
    const counted = (object: KubeObject): KubeObject => {
      const changed = change(object);
      // An update that changes nothing writes nothing.
      if (changed !== object) fault = this.#world.arrive(this.#life, `update ${key} ${subresource ?? ''}`);
      return changed;
    };
    await this.#inner.update(key, counted, subresource);
    this.#world.leave(this.#life, fault);
  }

  async delete(key: string, ...rest: [preconditions?: object, options?: object]): Promise<void> {
    await this.#write(`delete ${key}`, () => this.#inner.delete(key, ...rest));
  }

  async bind(key: string, podUid: string, node: string): Promise<void> {
    await this.#write(`bind ${key}`, () => this.#inner.bind(key, podUid, node));
  }

  #begin(): void {
    this.#world.touch();
    this.#life.requireAlive();
  }

  async #write<Result>(text: string, act: () => Promise<Result>): Promise<Result> {
    this.#begin();
    const fault = this.#world.arrive(this.#life, text);
    const result = await act();
    this.#world.leave(this.#life, fault);
    return result;
  }
}
