/** Workloads survive what happens to those who look after them; and single stories of ownership and deletion. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { allWorkloads, checkRandomWorkloads, newWorkload } from '../../testing/worlds/random-workloads.ts';
import { StorageWorld, namespace } from '../../testing/worlds/storage-world.ts';

const seed = Number(process.env['SEED'] ?? 1);

test('whatever users do, and whenever the controllers are killed, workloads come to what was asked for', async (t) => {
  t.diagnostic(`seed ${seed}`);
  await checkRandomWorkloads(10, seed);
});

async function withWorld(body: (world: StorageWorld) => Promise<void>): Promise<void> {
  const world = await StorageWorld.open(allWorkloads);
  try {
    await body(world);
    assert.deepEqual(world.failures, []);
  } finally {
    await world.close();
  }
}

const owners = (pods: readonly Pod[]): readonly (string | undefined)[] =>
  pods.map(({ metadata }) => metadata.ownerReferences?.[0]?.name);

test('a pod with fitting labels is adopted, and one whose labels change is released, runs on and is replaced', async () => {
  await withWorld(async (world) => {
    const spec = { containers: [{ name: 'main', image: 'a' }] };
    const metadata = { name: 'first', namespace, labels: { app: 'old' } };
    await world.create('v1', 'Pod', { metadata, spec } as KubeObject);
    await world.create('v1', 'ReplicationController', newWorkload('old', 'a', 1, { app: 'old' }));
    await world.rest();
    assert.deepEqual(owners(world.all<Pod>('v1', 'Pod')), ['old']);
    const key = world.key('Pod', 'first');
    await world.user.update(key, (pod) => ({ ...pod, metadata: { ...pod.metadata, labels: { app: 'none' } } }));
    await world.rest();
    const pods = world.all<Pod>('v1', 'Pod');
    assert.deepEqual(owners(pods).toSorted(), ['old', undefined].toSorted());
    assert.equal((await world.get<Pod>('Pod', 'first'))?.metadata.deletionTimestamp, undefined);
  });
});

const endings = [
  { kind: 'ReplicationController', apiVersion: 'v1', selector: { app: 'w' }, policy: undefined, left: 2 },
  { kind: 'ReplicationController', apiVersion: 'v1', selector: { app: 'w' }, policy: 'Background', left: 0 },
  { kind: 'ReplicaSet', apiVersion: 'apps/v1', selector: { matchLabels: { app: 'w' } }, policy: 'Foreground', left: 0 },
  { kind: 'ReplicaSet', apiVersion: 'apps/v1', selector: { matchLabels: { app: 'w' } }, policy: 'Orphan', left: 2 },
  { kind: 'Deployment', apiVersion: 'apps/v1', selector: { matchLabels: { app: 'w' } }, policy: 'Foreground', left: 0 },
  { kind: 'Deployment', apiVersion: 'apps/v1', selector: { matchLabels: { app: 'w' } }, policy: 'Orphan', left: 2 },
] as const;
for (const { kind, apiVersion, selector, policy, left } of endings) {
  test(`a ${kind} that is deleted (${policy ?? 'without a word'}) leaves ${left} of its pods`, async () => {
    await withWorld(async (world) => {
      await world.create(apiVersion, kind, newWorkload('w', 'a', 2, selector));
      await world.rest();
      assert.equal(world.all('v1', 'Pod').length, 2);
      const found = world.user.kindOf(apiVersion, kind) ?? assert.fail();
      const key = world.user.keyOf(found, namespace, 'w');
      await world.remove(key, policy);
      await world.rest();
      assert.equal(world.all(apiVersion, kind).length, 0);
      const pods = world.all<Pod>('v1', 'Pod');
      assert.equal(pods.length, left);
      // Those of a Deployment still have their ReplicaSet.
      const isFree = kind !== 'Deployment';
      assert.ok(pods.every(({ metadata }) => (metadata.ownerReferences === undefined) === isFree));
    });
  });
}

test('objects that own each other in a circle go together when one is deleted in the foreground', async () => {
  await withWorld(async (world) => {
    const { user } = world;
    const kind = user.kindOf('v1', 'ConfigMap') ?? assert.fail();
    const key = (name: string): string => user.keyOf(kind, namespace, name);
    for (const name of ['a', 'b', 'c']) await world.create('v1', 'ConfigMap', { metadata: { name, namespace } });
    for (const [name, owner] of ['ab', 'bc', 'ca'].map(([one = '', two = '']) => [one, two] as const)) {
      const { uid = '' } = (await user.get(key(owner)))?.metadata ?? {};
      const reference = { apiVersion: 'v1', kind: 'ConfigMap', name: owner, uid, blockOwnerDeletion: true };
      await user.update(key(name), (object) => ({
        ...object,
        metadata: { ...object.metadata, ownerReferences: [reference] },
      }));
    }
    await world.rest();
    assert.equal(world.all('v1', 'ConfigMap').filter(({ metadata }) => metadata.name.length === 1).length, 3);
    await world.remove(key('a'), 'Foreground');
    for (let turn = 0; turn < 3; turn += 1) await world.rest();
    assert.equal(world.all('v1', 'ConfigMap').filter(({ metadata }) => metadata.name.length === 1).length, 0);
  });
});

test('an owner in another namespace is none: the object goes, and an Event says why', async () => {
  await withWorld(async (world) => {
    await world.create('v1', 'ConfigMap', { metadata: { name: 'owner', namespace: 'default' } });
    const owner = world.all('v1', 'ConfigMap').find(({ metadata }) => metadata.name === 'owner');
    const { uid = '' } = owner?.metadata ?? {};
    const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid }];
    await world.create('v1', 'ConfigMap', { metadata: { name: 'child', namespace, ownerReferences } });
    await world.rest();
    assert.equal(world.all('v1', 'ConfigMap').filter(({ metadata }) => metadata.name === 'child').length, 0);
    const events = world.all<KubeObject & { reason?: string; message?: string }>('v1', 'Event');
    const event = events.find(({ reason }) => reason === 'OwnerRefInvalidNamespace');
    const text = `[v1/ConfigMap, namespace: ${namespace}, name: owner, uid: ${uid}]`;
    assert.equal(event?.message, `ownerRef ${text} does not exist in namespace "${namespace}"`);
  });
});
