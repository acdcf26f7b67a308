/** Which volumes are wanted, for which pods and until when. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { Volume } from '../kube/kinds/pod/volume.ts';
import { aContainer, aPod } from '../testing/fakes/builders.ts';
import { ScriptedPlugin } from '../testing/fakes/scripted-plugin.ts';
import { VolumeWorld, claimVolume, plainVolume, podUsing } from '../testing/worlds/volume-world.ts';
import { asPodUid, asVolumeName } from './volume-name.ts';

const wanted = (world: VolumeWorld): readonly string[] =>
  world.manager.queries
    .statuses()
    .filter(({ isWanted }) => isWanted)
    .map(({ podUid, podVolumeNames }) => `${podUid}/${podVolumeNames.join('+')}`)
    .sort();

for (const { it, complete, state, isAdded } of [
  { it: 'a terminating pod before all pods were read', complete: false, state: 'terminating', isAdded: true },
  { it: 'a terminated pod before all pods were read', complete: false, state: 'terminated', isAdded: false },
  { it: 'a terminating pod later', complete: true, state: 'terminating', isAdded: false },
  { it: 'a terminated pod later', complete: true, state: 'terminated', isAdded: false },
] as const) {
  test(`${it} is ${isAdded ? '' : 'not '}added`, async (t) => {
    const world = new VolumeWorld(t);
    world.pods.ready = complete;
    await world.start();
    assert.equal(world.manager.hasAddedPods(), complete);
    world.pods[state].add('web');
    await world.put(podUsing('web', [plainVolume('data')]));
    assert.deepEqual(wanted(world), isAdded ? ['web/data'] : []);
  });
}

test('a pod without a waiter is retried until its claim can be read', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  await world.put(podUsing('web', [claimVolume('data', 'disk'), plainVolume('other')]));
  assert.deepEqual(wanted(world), ['web/other'], 'the other volumes are mounted meanwhile');
  const reads = world.claims.reads;
  await world.advance(100);
  assert.equal(world.claims.reads, reads + 1);
  world.claims.bind('disk');
  await world.advance(200);
  assert.deepEqual(wanted(world), ['web/data', 'web/other']);
  const after = world.claims.reads;
  await world.advance(30_000);
  assert.equal(world.claims.reads, after, 'and not again');
});

test('a pod that is waited for is tried once for each wait', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  const pod = podUsing('web', [claimVolume('data', 'disk')]);
  world.pods.put(pod);
  const waits = async (): Promise<string> => {
    try {
      await world.manager.waitForMounted(pod, new AbortController().signal);
      return 'mounted';
    } catch (error) {
      return (error as Error).message;
    }
  };
  const notFound =
    'unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: ' +
    'error processing PVC shop/disk: failed to fetch PVC from API server: persistentvolumeclaims "disk" not found';
  assert.equal(await waits(), notFound);
  const { reads } = world.claims;
  await world.advance(50_000);
  assert.equal(world.claims.reads, reads, 'no hot loop');
  assert.equal(await waits(), notFound);
  assert.equal(world.claims.reads, reads + 1);
});

test('a pod that was deleted stays wanted until its containers are gone', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  await world.put(podUsing('web', [plainVolume('data')]));
  world.pods.remove('web');
  world.manager.podChanged(asPodUid('web'));
  await world.settle();
  assert.deepEqual(wanted(world), ['web/data']);
  world.pods.terminated.add('web');
  world.manager.podChanged(asPodUid('web'));
  await world.settle();
  assert.deepEqual(world.states(), []);
});

test('waiting for a pod that is gone leaves nothing behind', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  const pod = podUsing('web', [plainVolume('data')]);
  await world.put(pod);
  await world.remove('web');
  await world.manager.waitForUnmounted(pod, new AbortController().signal);
  await world.settle();
  // Had the wait left a mark, this pod of the same UID would count as seen and be left with its error.
  world.pods.terminated.clear();
  await world.put(podUsing('web', [claimVolume('data', 'disk')]));
  world.claims.bind('disk');
  await world.advance(100);
  assert.deepEqual(world.states(), ['web/disk: mounted']);
});

test('a finished pod that is still known is unwanted only once it was mounted', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  world.plain.script('setUp', new Error('not yet'));
  await world.put(podUsing('web', [plainVolume('data')]));
  world.pods.terminated.add('web');
  world.manager.podChanged(asPodUid('web'));
  await world.settle();
  assert.deepEqual(world.states(), ['web/data: not-mounted']);
  await world.advance(501);
  assert.deepEqual(world.states(), [], 'mounted, and with that unwanted and unmounted');
  assert.deepEqual(world.plain.calls, ['setUp web/data', 'setUp web/data', 'tearDown web/data']);
});

test('an uncertain mount does not keep a deleted pod wanted', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  world.plain.script('setUp', Object.assign(new Error('timed out'), { failureClass: 'uncertain' }));
  await world.put(podUsing('web', [plainVolume('data')]));
  assert.deepEqual(world.states(), ['web/data: uncertain']);
  await world.remove('web');
  assert.deepEqual(world.states(), []);
  assert.equal(world.plain.count('tearDown'), 1);
});

test('a plugin that no longer attaches changes the volume in place', async (t) => {
  const disk = new ScriptedPlugin({ kind: 'attachable' });
  const world = new VolumeWorld(t, { plugins: [disk] });
  world.claims.bind('disk');
  await world.start();
  await world.put(podUsing('web', [claimVolume('data', 'disk')]));
  assert.deepEqual(world.manager.queries.volumesInUse(), [asVolumeName('example.com/disk/disk')]);
  disk.canAttach = false;
  world.manager.podChanged(asPodUid('web'));
  await world.settle();
  assert.deepEqual(world.manager.queries.volumesInUse(), []);
  assert.deepEqual(world.states(), ['web/disk: mounted'], 'nothing is waited for any more');
});

test('an ephemeral claim that the pod does not own is refused', async (t) => {
  const world = new VolumeWorld(t);
  world.claims.bind('web-data');
  await world.start();
  const ephemeral: Volume = { name: 'data', ephemeral: { volumeClaimTemplate: { spec: {} } } };
  const pod = podUsing('web', [ephemeral]);
  await world.put(pod);
  await assert.rejects(world.manager.waitForMounted(pod, new AbortController().signal), {
    message:
      'unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: ' +
      'PVC shop/web-data was not created for pod shop/web (pod is not owner)',
  });
  assert.deepEqual(wanted(world), []);
});

const asDevice = (uid: string, volume: Volume): Pod =>
  aPod({
    metadata: { name: uid, uid },
    volumes: [volume],
    containers: [aContainer({ volumeDevices: [{ name: volume.name, devicePath: '/dev/x' }] })],
  });
for (const { mode, pod, refusal } of [
  { mode: 'Filesystem', pod: podUsing('web', [claimVolume('data', 'disk')]), refusal: undefined },
  { mode: 'Block', pod: asDevice('web', claimVolume('data', 'disk')), refusal: undefined },
  {
    mode: 'Block',
    pod: podUsing('web', [claimVolume('data', 'disk')]),
    refusal: 'volume data has volumeMode Block, but is specified in volumeMounts',
  },
  {
    mode: 'Filesystem',
    pod: asDevice('web', claimVolume('data', 'disk')),
    refusal: 'volume data has volumeMode Filesystem, but is specified in volumeDevices',
  },
]) {
  test(`a ${mode} claim is ${refusal ?? 'accepted'}`, async (t) => {
    const world = new VolumeWorld(t);
    world.claims.bind('disk', { volumeMode: mode });
    await world.start();
    await world.put(pod);
    assert.deepEqual(wanted(world), refusal === undefined ? ['web/data'] : []);
    const told = world.notices.find(({ kind }) => kind === 'VolumeNotProcessed');
    assert.equal(told?.kind === 'VolumeNotProcessed' ? told.message : undefined, refusal);
  });
}

for (const { it, readOnly, expands } of [
  { it: 'a volume that grew', readOnly: false, expands: true },
  { it: 'a read-only volume that grew', readOnly: true, expands: false },
]) {
  test(`${it} is ${expands ? '' : 'not '}grown on the node`, async (t) => {
    const grown: string[] = [];
    const world = new VolumeWorld(t);
    world.disk.expand = {
      async expand({ sizeBytes }) {
        grown.push(`${world.claims.claims.get('disk')?.status?.capacity?.['storage'] ?? ''} to ${sizeBytes}`);
        throw new Error('once is enough');
      },
    };
    world.claims.bind('disk', { capacity: { storage: '1' } });
    await world.start();
    const pod = podUsing('web', [claimVolume('data', 'disk', readOnly)]);
    await world.put(pod);
    const volume = world.claims.volumes.get('disk');
    if (volume !== undefined) {
      world.claims.volumes.set('disk', { ...volume, spec: { ...volume.spec, capacity: { storage: '2' } } });
    }
    await world.manager.waitForMounted(pod, new AbortController().signal);
    await world.settle();
    assert.deepEqual(grown, expands ? ['1 to 2'] : []);
  });
}

test('volumes of kinds that a CSI driver has taken over are wanted and mounted as volumes of that driver', async (t) => {
  const world = new VolumeWorld(t, { plugins: [new ScriptedPlugin({ kind: 'device' })] });
  world.claims.bind('disk');
  const found = world.claims.volumes.get('disk') ?? assert.fail();
  const { csi: _, ...spec } = found.spec;
  world.claims.volumes.set('disk', { ...found, spec: { ...spec, awsElasticBlockStore: { volumeID: 'aws:///vol-1' } } });
  await world.start();
  const inline: Volume = { name: 'scratch', cinder: { volumeID: 'c-1', readOnly: true } };
  const pod = podUsing('web', [claimVolume('data', 'disk', true), inline]);
  await world.put(pod);
  await world.manager.waitForMounted(pod, new AbortController().signal);
  assert.deepEqual(world.states(), ['web/cinder.csi.openstack.org-c-1: mounted', 'web/disk: mounted']);
  const volumes = world.manager.queries
    .statuses()
    .map(({ volume, podVolumeNames }) => `${volume} ${podVolumeNames.join()}`);
  assert.deepEqual(volumes.sort(), ['example.com/disk/c-1 scratch', 'example.com/disk/vol-1 data']);
  const ended = world.notices.flatMap((notice) => (notice.kind === 'OperationEnded' ? [notice.isMigrated] : []));
  assert.deepEqual([...new Set(ended)], [true]);
  world.pods.put({ ...pod, metadata: { ...pod.metadata, labels: { a: 'b' } } });
  world.manager.podChanged(asPodUid('web'));
  await world.settle();
  assert.equal(world.states().length, 2, 'a pod that changes keeps them');
});

test('a volume that has no form for its CSI driver is an error of its pod', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  const azureDisk = { diskName: 'd', diskURI: '/d', kind: 'Shared' };
  const pod = podUsing('web', [{ name: 'data', azureDisk }, plainVolume('other')]);
  await world.put(pod);
  await assert.rejects(world.manager.waitForMounted(pod, new AbortController().signal), {
    message:
      'unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: ' +
      'failed to translate in-tree pv to CSI: kind(Shared) is not supported in csi migration',
  });
  assert.deepEqual(wanted(world), ['web/other']);
});

test('a volume that no container uses is never resolved', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  const pod = podUsing('web', [plainVolume('data')]);
  const volumes = [...(pod.spec.volumes ?? []), claimVolume('unused', 'nowhere')];
  await world.put({ ...pod, spec: { ...pod.spec, volumes } });
  assert.deepEqual(world.states(), ['web/data: mounted']);
  assert.equal(world.claims.reads, 0);
});

test('a claim that is read slowly holds up its own pod alone', async (t) => {
  const world = new VolumeWorld(t);
  world.claims.bind('disk');
  let answer = (): void => {};
  const read = world.claims.claim.bind(world.claims);
  world.claims.claim = async (namespace, name) => {
    await new Promise<void>((resolve) => (answer = resolve));
    return read(namespace, name);
  };
  await world.start();
  await world.put(podUsing('slow', [claimVolume('data', 'disk')]), podUsing('web', [plainVolume('data')]));
  assert.deepEqual(world.states(), ['web/data: mounted']);
  answer();
  await world.settle();
  // The operation that lists the volume reads the claim once more, and so does the mount.
  for (let reads = 0; reads < 2; reads += 1) {
    answer();
    await world.settle();
  }
  assert.deepEqual(world.states(), ['slow/disk: mounted', 'web/data: mounted']);
});

test('a pod that goes while its claim is read is not wanted afterwards', async (t) => {
  const world = new VolumeWorld(t);
  world.claims.bind('disk');
  let answer = (): void => {};
  const read = world.claims.claim.bind(world.claims);
  world.claims.claim = async (namespace, name) => {
    await new Promise<void>((resolve) => (answer = resolve));
    return read(namespace, name);
  };
  await world.start();
  await world.put(podUsing('web', [claimVolume('data', 'disk')]));
  await world.remove('web');
  answer();
  await world.settle();
  assert.deepEqual(world.states(), []);
});

test('what an unresolved pod has mounted stays, until it is resolved or its containers are gone', async (t) => {
  const world = new VolumeWorld(t);
  world.claims.bind('disk');
  await world.start();
  const pod = podUsing('web', [claimVolume('data', 'disk')]);
  await world.put(pod);
  assert.deepEqual(world.states(), ['web/disk: mounted']);
  world.claims.failure = new Error('connection refused');
  await assert.doesNotReject(world.manager.waitForMounted(pod, new AbortController().signal));
  await world.settle();
  assert.deepEqual(world.states(), ['web/disk: mounted']);
  await world.remove('web');
  assert.deepEqual(world.states(), []);
});

test('the sweep catches changes that were not reported', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  world.pods.put(podUsing('web', [plainVolume('data')]));
  await world.settle();
  assert.deepEqual(world.states(), []);
  await world.advance(60_000);
  assert.deepEqual(world.states(), ['web/data: mounted']);
  world.pods.terminated.add('web');
  world.pods.remove('web');
  await world.advance(60_000);
  assert.deepEqual(world.states(), []);
});
