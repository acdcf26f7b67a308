/** The loops need nothing of the API server's process: here they run over HTTP, against a server that was started without them. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { resources } from '../apiserver/resources/resources.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import { ConflictError, NotFoundError } from '../client/api/api-errors.ts';
import type { ResourceReference } from '../client/api/resource-reference.ts';
import { reflect } from '../client/reflector.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { runningApiServer } from '../testing/servers/test-api-server.ts';
import { memoryStore } from '../testing/servers/stores.ts';
import type { Cluster, ClusterObject, ControllerDeps, Kind, ObjectChange } from './cluster/cluster.ts';
import { ensureDefaultObjects } from './default-objects.ts';
import { runGarbageCollector } from './garbage-collector.ts';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { runNodeLife } from './node-life.ts';
import { runNodeTaints } from './node-taints.ts';
import { runScheduler } from './scheduler.ts';
import { runStorage } from './storage/storage.ts';

const served = resources.filter(({ isStored, viewOf }) => isStored && viewOf === undefined);

/** The cluster as a client has it. */
class HttpCluster implements Cluster {
  readonly kinds = served;
  readonly #client: ApiClient;
  readonly #signal: AbortSignal;

  constructor(client: ApiClient, signal: AbortSignal) {
    this.#client = client;
    this.#signal = signal;
  }

  kindOf(apiVersion: string, name: string): Kind | undefined {
    return served.find(
      ({ group, version, kind }) => kind === name && (group === '' ? version : `${group}/${version}`) === apiVersion,
    );
  }

  keyOf({ group, plural, namespaced }: Kind, namespace: string, name: string): string {
    return [group, plural, namespaced ? namespace : '', name].join('/');
  }

  placeOf(key: string): { kind: Kind | undefined; namespace: string; name: string } {
    const [group, plural, namespace = '', name = ''] = key.split('/');
    return { kind: served.find((kind) => kind.group === group && kind.plural === plural), namespace, name };
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
    return items.map((item) => this.#entry(kind, item));
  }

  watch(kind: Kind | undefined, report: (change: ObjectChange) => void): () => void {
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, this.#signal]);
    const deps = { client: this.#client, clock: systemClock, random: Math.random, notify: () => {} };
    for (const each of kind === undefined ? served : [kind]) {
      const follow = async (): Promise<void> => {
        for await (const reflection of reflect(deps, { resource: referenceOf(each) }, signal)) {
          const objects = reflection.kind === 'replaced' ? reflection.objects : [reflection.object];
          for (const object of objects as readonly KubeObject[]) {
            report({
              ...this.#entry(each, object),
              type: reflection.kind === 'deleted' ? 'delete' : 'put',
              isInitial: reflection.kind === 'replaced',
              mentions: (word) => JSON.stringify(object).includes(`"${word}"`),
            });
          }
        }
      };
      void follow();
    }
    return () => stop.abort();
  }

  async create(kind: Kind, namespace: string, object: KubeObject): Promise<void> {
    await this.#client.create(referenceOf(kind), { namespace }, object, this.#signal);
  }

  async update(key: string, change: (object: KubeObject) => KubeObject, subresource?: string): Promise<void> {
    const { resource, place } = this.#reach(key);
    for (;;) {
      const current = await this.#client.get(resource, place, this.#signal);
      const changed = change(current);
      if (changed === current) return;
      try {
        const at = subresource === undefined ? place : { ...place, subresource };
        await this.#client.update(resource, at, changed, this.#signal);
        return;
      } catch (error) {
        if (!(error instanceof ConflictError)) throw error;
      }
    }
  }

  async delete(key: string, preconditions = {}, grace = {}): Promise<void> {
    const { resource, place } = this.#reach(key);
    const options = {
      kind: 'DeleteOptions',
      apiVersion: 'v1',
      preconditions,
      propagationPolicy: 'Background',
      ...grace,
    };
    await this.#client.delete(resource, place, options, this.#signal);
  }

  async bind(key: string, podUid: string, nodeName: string): Promise<void> {
    const { resource, place } = this.#reach(key);
    const target = { apiVersion: 'v1', kind: 'Node', name: nodeName };
    const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name: place.name, uid: podUid }, target };
    await this.#client.create(resource, { ...place, subresource: 'binding' }, binding, this.#signal);
  }

  #entry(kind: Kind, object: KubeObject): ClusterObject {
    return { key: this.keyOf(kind, object.metadata.namespace ?? '', object.metadata.name), object };
  }

  #reach(key: string): { resource: ResourceReference; place: { namespace?: string; name: string } } {
    const { kind, namespace, name } = this.placeOf(key);
    assert.ok(kind, key);
    return { resource: referenceOf(kind), place: kind.namespaced ? { namespace, name } : { name } };
  }
}

function referenceOf({ group, version, plural, kind, namespaced }: Kind): ResourceReference {
  return { group, version, plural, kind, isNamespaced: namespaced };
}

async function start(
  t: TestContext,
  loop: (deps: ControllerDeps, signal: AbortSignal) => Promise<unknown>,
  clock: Clock = systemClock,
): Promise<{ cluster: HttpCluster; kind: (name: string) => Kind }> {
  const stop = new AbortController();
  const failures: unknown[] = [];
  let running: Promise<unknown> = Promise.resolve();
  // Before the server ends: a loop that is about to write must not fail.
  t.after(async () => {
    stop.abort();
    await running;
    assert.deepEqual(failures, []);
  });
  const server = await runningApiServer(t, memoryStore(), {
    controllers: (host, signal) => ({ settled: ensureDefaultObjects(host, signal), done: Promise.resolve() }),
  });
  const client = server.client({ rate: { perSecond: 1_000, burst: 1_000 } });
  running = loop(
    {
      clusterFor: (_, signal) => new HttpCluster(client, signal),
      clock,
      random: { suffix: () => 'abcde' },
      notify: ({ error }) => failures.push(error),
    },
    stop.signal,
  );
  const cluster = new HttpCluster(client, stop.signal);
  const kind = (name: string): Kind => cluster.kindOf('v1', name) ?? assert.fail(name);
  return { cluster, kind };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await holds()); tries += 1) {
    assert.ok(tries < 500, 'it does not happen');
    await sleep(20);
  }
}

test('the garbage collector deletes what has lost its owners, over HTTP', async (t) => {
  const { cluster, kind } = await start(t, runGarbageCollector);
  const maps = kind('ConfigMap');
  const keyOf = (name: string): string => cluster.keyOf(maps, 'default', name);
  await cluster.create(maps, 'default', { metadata: { name: 'owner' } });
  const uid = (await cluster.get(keyOf('owner')))?.metadata.uid ?? '';
  const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid }];
  await cluster.create(maps, 'default', { metadata: { name: 'dependent', ownerReferences } });
  await cluster.create(maps, 'default', { metadata: { name: 'free' } });
  await cluster.delete(keyOf('owner'));
  await until(async () => (await cluster.get(keyOf('dependent'))) === undefined);
  assert.ok(await cluster.get(keyOf('free')));
});

test('the scheduler gives a pod a node, over HTTP', async (t) => {
  const { cluster, kind } = await start(t, (deps, signal) =>
    runStorage(deps, undefined, (storage) => runScheduler(deps, storage, signal), signal),
  );
  const containers = [{ name: 'main', image: 'none' }];
  const key = cluster.keyOf(kind('Pod'), 'default', 'web');
  const pod = { metadata: { name: 'web' }, spec: { containers } } as KubeObject;
  await cluster.create(kind('Pod'), 'default', pod);
  const read = async (): Promise<{ spec: { nodeName?: string }; status?: { conditions?: { reason?: string }[] } }> =>
    (await cluster.get(key)) as never;
  await until(async () => (await read()).status?.conditions?.[0]?.reason === 'Unschedulable');
  await cluster.create(kind('Node'), '', { metadata: { name: 'one' } });
  const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
  await cluster.update(
    cluster.keyOf(kind('Node'), '', 'one'),
    (node) => ({ ...node, status: ready }) as KubeObject,
    'status',
  );
  await until(async () => (await read()).spec.nodeName === 'one');
  const events = await cluster.list(kind('Event'), 'default');
  const reasons = events.map(({ object }) => (object as KubeObject & { reason?: string }).reason);
  assert.ok(reasons.includes('FailedScheduling'));
});

test('a node takes as many volumes of a driver as it says, those that are still attached among them, over HTTP', async (t) => {
  const { cluster, kind } = await start(t, (deps, signal) =>
    runStorage(deps, undefined, (storage) => runScheduler(deps, storage, signal), signal),
  );
  const storage = (name: string): Kind => cluster.kindOf('storage.k8s.io/v1', name) ?? assert.fail(name);
  const make = (of: Kind, name: string, parts: object): Promise<void> =>
    cluster.create(of, of.namespaced ? 'default' : '', { metadata: { name }, ...parts });
  await make(kind('Node'), 'one', {});
  const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
  const node = cluster.keyOf(kind('Node'), '', 'one');
  await cluster.update(node, (object) => ({ ...object, status: ready }) as KubeObject, 'status');
  const driver = 'disks.example.com';
  await make(storage('CSINode'), 'one', {
    spec: { drivers: [{ name: driver, nodeID: 'n', allocatable: { count: 1 } }] },
  });
  const capacity = { storage: '1Gi' };
  const accessModes = ['ReadWriteOnce'];
  for (const name of ['old', 'new']) {
    const csi = { driver, volumeHandle: name };
    const storageClassName = name;
    await make(kind('PersistentVolume'), name, { spec: { capacity, accessModes, csi, storageClassName } });
  }
  const source = { persistentVolumeName: 'old' };
  const attachments = storage('VolumeAttachment');
  await make(attachments, 'old', { spec: { attacher: driver, nodeName: 'one', source } });
  await make(kind('PersistentVolumeClaim'), 'new', {
    spec: { accessModes, resources: { requests: capacity }, storageClassName: 'new' },
  });
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'new' } }];
  await make(kind('Pod'), 'web', { spec: { containers: [{ name: 'main', image: 'none' }], volumes } });
  const read = async (): Promise<{ spec: { nodeName?: string }; status?: { conditions?: { message?: string }[] } }> =>
    (await cluster.get(cluster.keyOf(kind('Pod'), 'default', 'web'))) as never;
  const full = '0/1 nodes are available: 1 node(s) exceed max volume count.';
  await until(async () => (await read()).status?.conditions?.[0]?.message === full);
  await cluster.delete(cluster.keyOf(attachments, '', 'old'));
  await until(async () => (await read()).spec.nodeName === 'one');
});

test('pods leave a node that has fallen silent, and are collected when it is gone, over HTTP', async (t) => {
  const clock = new FakeClock(Date.now());
  const loops = (deps: ControllerDeps, signal: AbortSignal): Promise<unknown> =>
    Promise.all([runNodeLife(deps, signal), runNodeTaints(deps, signal)]);
  const { cluster, kind } = await start(t, loops, clock);
  const node = cluster.keyOf(kind('Node'), '', 'one');
  await cluster.create(kind('Node'), '', { metadata: { name: 'one' } });
  const ready = { conditions: [{ type: 'Ready', status: 'True', lastHeartbeatTime: '2026-01-01T00:00:00Z' }] };
  await cluster.update(node, (object) => ({ ...object, status: ready }) as KubeObject, 'status');
  // Pods leave a node only where another one is ready.
  const other = cluster.keyOf(kind('Node'), '', 'two');
  await cluster.create(kind('Node'), '', { metadata: { name: 'two' } });
  const report = (): Promise<void> => {
    const lastHeartbeatTime = new Date(clock.now()).toISOString();
    const status = { conditions: [{ type: 'Ready', status: 'True', lastHeartbeatTime }] };
    return cluster.update(other, (object) => ({ ...object, status }) as KubeObject, 'status');
  };
  const placed = async (name: string, nodeName: string): Promise<string> => {
    const spec = { nodeName, containers: [{ name: 'main', image: 'none' }], terminationGracePeriodSeconds: 5 };
    await cluster.create(kind('Pod'), 'default', { metadata: { name }, spec } as KubeObject);
    return cluster.keyOf(kind('Pod'), 'default', name);
  };
  const patient = await placed('patient', 'one');
  const lost = await placed('lost', 'never-was');
  // In steps: what happens at one of them, and is seen over HTTP, sets the time of the next.
  const passes = async (holds: () => Promise<boolean>): Promise<void> =>
    until(async () => {
      await clock.advance(5_000);
      await report();
      return await holds();
    });
  await passes(async () => (await cluster.get(lost)) === undefined);
  const taints = async (): Promise<string | undefined> => {
    const found: Node | undefined = await cluster.get(node);
    return found?.spec?.taints?.map(({ key, effect }) => `${key}:${effect}`).join();
  };
  const unreachable = 'node.kubernetes.io/unreachable';
  await passes(async () => (await taints()) === `${unreachable}:NoSchedule,${unreachable}:NoExecute`);
  const stillThere = await cluster.get(patient);
  assert.equal(stillThere?.metadata.deletionTimestamp, undefined, 'it tolerates that for five minutes');
  await passes(async () => (await cluster.get(patient))?.metadata.deletionTimestamp !== undefined);
  // Its node will not come back to end it: an administrator says so.
  await cluster.update(node, (object) => {
    const { spec }: Node = object;
    const more = [...(spec?.taints ?? []), { key: 'node.kubernetes.io/out-of-service', effect: 'NoExecute' }];
    return { ...object, spec: { ...spec, taints: more } } as KubeObject;
  });
  await passes(async () => (await cluster.get(patient)) === undefined);
  const left = await placed('left', 'one');
  await cluster.delete(node);
  await passes(async () => (await cluster.get(left)) === undefined);
});
