/** The loops of storage on a store: what the rules say, from every state that a crash may leave. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { newClaim, newVolume, podWithClaims } from '../../testing/fakes/storage-builders.ts';
import { problemsAtRest } from '../../testing/worlds/storage-invariants.ts';
import { StorageWorld } from '../../testing/worlds/storage-world.ts';

async function worldOf(t: TestContext, ...objects: readonly KubeObject[]): Promise<StorageWorld> {
  const world = await StorageWorld.open();
  t.after(() => world.close());
  await add(world, ...objects);
  return world;
}

async function add(world: StorageWorld, ...objects: readonly KubeObject[]): Promise<void> {
  for (const object of objects) {
    const { spec } = object as PersistentVolume & Pod;
    const kind = spec.capacity ? 'PersistentVolume' : spec.containers ? 'Pod' : 'PersistentVolumeClaim';
    await world.create('v1', kind, object);
  }
}

/** `claim volume`, with the phases of both. */
async function pair(world: StorageWorld, claim = 'data', volume = 'one'): Promise<string> {
  const [one, other] = [
    await world.get<PersistentVolumeClaim>('PersistentVolumeClaim', claim),
    await world.get<PersistentVolume>('PersistentVolume', volume),
  ];
  const isMutual = one?.spec.volumeName === volume && other?.spec.claimRef?.uid === one.metadata.uid;
  return `${one?.status?.phase} ${other?.status?.phase} ${isMutual ? 'mutual' : 'apart'}`;
}

const writes = ['the claim of the volume', 'its phase', 'the volume of the claim', 'its phase'];
for (const [made, write] of writes.entries()) {
  test(`a binding that was cut short before write ${made + 1}, ${write}, is completed without a new event`, async (t) => {
    const world = await worldOf(t, newVolume('one'));
    await world.rest();
    // Each write of a binding is the next point, in order; the first three leave a state of their own.
    world.fault = { point: world.points.length + made + 1, moment: 'before', victim: 'all' };
    await add(world, newClaim());
    await world.rest();
    const [claim] = world.all<PersistentVolumeClaim>('v1', 'PersistentVolumeClaim');
    const [volume] = world.all<PersistentVolume>('v1', 'PersistentVolume');
    const states = [
      volume?.spec.claimRef?.uid === claim?.metadata.uid,
      volume?.status?.phase === 'Bound',
      claim?.spec.volumeName === 'one',
      claim?.status?.phase === 'Bound',
    ];
    assert.deepEqual(
      states,
      [0, 1, 2, 3].map((at) => at < made),
      'what was written before the crash',
    );
    const { revision } = world.store;
    world.start();
    await world.rest();
    assert.equal(await pair(world), 'Bound Bound mutual');
    assert.ok(world.store.revision > revision);
    assert.deepEqual(problemsAtRest(world), []);
  });
}

test('a claim gets the volume with the fewest access modes before the smallest', async (t) => {
  const shared = { accessModes: ['ReadWriteOnce', 'ReadOnlyMany'] };
  const world = await worldOf(t, newVolume('small', shared), newVolume('large', { size: '10Gi' }), newClaim());
  await world.rest();
  assert.equal(await pair(world, 'data', 'large'), 'Bound Bound mutual');
  const claim = await world.get<PersistentVolumeClaim>('PersistentVolumeClaim', 'data');
  assert.equal(claim?.status?.capacity?.['storage'], '10Gi', 'it shows what it has, not what it asked for');
});

test('the condition Unused is left alone while a resizer works on the claim', async (t) => {
  const world = await worldOf(t, newVolume('one'), newClaim());
  await world.rest();
  const conditions = async (): Promise<readonly string[]> => {
    const claim = await world.get<PersistentVolumeClaim>('PersistentVolumeClaim', 'data');
    return (claim?.status?.conditions ?? []).map(({ type, status }) => `${type} ${status}`);
  };
  assert.deepEqual(await conditions(), ['Unused True']);
  const write = (allocatedResourceStatuses: object, types: readonly string[]): Promise<void> =>
    world.user.update(
      world.key('PersistentVolumeClaim', 'data'),
      (object) => {
        const claim = object as PersistentVolumeClaim;
        const written = types.map((type) => ({ type, status: 'True' }));
        return { ...claim, status: { ...claim.status, allocatedResourceStatuses, conditions: written } } as KubeObject;
      },
      'status',
    );
  await write({ storage: 'ControllerResizeInProgress' }, ['Resizing']);
  await world.rest();
  assert.deepEqual(await conditions(), ['Resizing True']);
  await write({}, []);
  await world.rest();
  assert.deepEqual(await conditions(), ['Unused True']);
  // Those that do not recover from a failed expansion write nothing but conditions.
  for (const type of ['Resizing', 'FileSystemResizePending']) {
    await write({}, [type]);
    await world.rest();
    assert.deepEqual(await conditions(), [`${type} True`]);
  }
  await write({}, []);
  await world.rest();
  assert.deepEqual(await conditions(), ['Unused True']);
});

test('a volume that becomes free is not kept for a claim that names another one', async (t) => {
  const world = await worldOf(t, newClaim({ name: 'choosy', volumeName: 'elsewhere' }), newClaim());
  await world.rest();
  await add(world, newVolume('one'));
  await world.rest();
  assert.equal(await pair(world), 'Bound Bound mutual');
});

test('a volume that becomes free goes to the next claim when the first one in line is deleted meanwhile', async (t) => {
  const world = await worldOf(t, newClaim({ name: 'first' }));
  await world.rest();
  await add(world, newClaim());
  await world.rest();
  // The line is woken by the volume's phase, and its first claim is gone before anything looked at it.
  world.lag('persistentvolumes', 50);
  await add(world, newVolume('one'));
  await world.rest();
  await world.user.delete(world.key('PersistentVolumeClaim', 'first'));
  world.catchUp();
  await world.rest();
  assert.equal(await pair(world), 'Bound Bound mutual');
});

test('a finished pod protects its claim until it is deleted', async (t) => {
  const world = await worldOf(t, newVolume('one'), newClaim(), podWithClaims('web', ['data']));
  await world.rest();
  await world.user.update(
    world.key('Pod', 'web'),
    (pod) => ({ ...pod, status: { phase: 'Succeeded' } }) as KubeObject,
    'status',
  );
  await world.rest();
  assert.equal(world.disk.mounts.size, 0, 'what has ended holds no mount');
  await world.user.delete(world.key('PersistentVolumeClaim', 'data'));
  await world.rest();
  assert.ok(await world.get('PersistentVolumeClaim', 'data'));
  await world.user.delete(world.key('Pod', 'web'));
  await world.rest();
  assert.equal(await world.get('PersistentVolumeClaim', 'data'), undefined);
  assert.equal((await world.get<PersistentVolume>('PersistentVolume', 'one'))?.status?.phase, 'Released');
});

test('a pod without a node protects nothing', async (t) => {
  const gated = podWithClaims('web', ['data']) as Pod;
  const waiting = { ...gated, spec: { ...gated.spec, schedulingGates: [{ name: 'example.com/wait' }] } };
  const world = await worldOf(t, newVolume('one'), newClaim(), waiting);
  await world.rest();
  await world.user.delete(world.key('PersistentVolumeClaim', 'data'));
  await world.rest();
  assert.equal(await world.get('PersistentVolumeClaim', 'data'), undefined);
  assert.ok(await world.get('Pod', 'web'));
});

test('of two pods that want a claim for one pod, only one gets a node, also with a view that lags behind', async (t) => {
  for (const changes of [0, 50]) {
    const world = await worldOf(
      t,
      newVolume('one', { accessModes: ['ReadWriteOncePod'] }),
      newClaim({ accessModes: ['ReadWriteOncePod'] }),
    );
    await world.rest();
    const claimed = (): readonly Pod[] =>
      world.all<Pod>('v1', 'Pod').filter(({ spec }) => (spec.nodeName ?? '') !== '');
    await add(world, podWithClaims('first', ['data']), podWithClaims('second', ['data']));
    world.lag('pods', changes);
    await world.rest();
    assert.equal(claimed().length, 1);
    world.catchUp();
    await world.rest();
    assert.equal(claimed().length, 1);
    await world.user.delete(world.key('Pod', claimed()[0]?.metadata.name ?? ''));
    await world.rest();
    assert.equal(claimed().length, 1, 'the other one');
    assert.equal(world.all('v1', 'Pod').length, 1);
  }
});

test('a directory that was made for a claim that went before it got its volume is removed', async (t) => {
  for (const victim of ['all', 'server'] as const) {
    const world = await worldOf(t, newClaim({ storageClassName: 'local-path' }));
    await world.rest();
    world.fault = { point: 'make directory', moment: 'after', victim };
    await add(world, podWithClaims('web', ['data']));
    while (world.struck === undefined) await world.turns(1);
    assert.equal(world.disk.directoryNames.length, 1);
    await world.user.delete(world.key('Pod', 'web'));
    await world.user.delete(world.key('PersistentVolumeClaim', 'data'));
    await world.rest();
    world.start();
    await world.rest();
    assert.deepEqual([world.all('v1', 'PersistentVolume'), world.disk.directoryNames], [[], []]);
  }
});
