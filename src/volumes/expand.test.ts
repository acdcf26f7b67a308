/** Volumes that grow, through the whole manager, with a scripted plugin. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../kube/kinds/storage/persistent-volume-claim.ts';
import { ExpansionRefusedError } from '../plugins/plugin.ts';
import { ScriptedBlockMapper } from '../testing/fakes/scripted-block-mapper.ts';
import { ScriptedPlugin } from '../testing/fakes/scripted-plugin.ts';
import {
  FakeClaims,
  ScriptedClaimWriter,
  VolumeWorld,
  claimVolume,
  podUsing,
  podWithDevices,
} from '../testing/worlds/volume-world.ts';

type Mode = 'Filesystem' | 'Block';
const gibibyte = 1024n ** 3n;

class GrowingWorld extends VolumeWorld {
  readonly plugin: ScriptedPlugin;
  readonly writer: ScriptedClaimWriter;
  readonly bound: FakeClaims;
  readonly mode: Mode;

  constructor(t: TestContext, mode: Mode = 'Filesystem') {
    const plugin = new ScriptedPlugin({ kind: 'device', block: 'scripted' });
    const claims = new FakeClaims();
    const writer = new ScriptedClaimWriter(claims.claims);
    const mapper = new ScriptedBlockMapper(plugin.calls);
    super(t, {
      plugins: [plugin],
      deps: {
        claims,
        blockMapper: mapper,
        claimWriter: writer,
      },
    });
    this.plugin = plugin;
    this.writer = writer;
    this.bound = claims;
    this.mode = mode;
    claims.bind('disk', { volumeMode: mode });
  }

  pod(uid: string, readOnly = false): Pod {
    const volumes = [claimVolume('data', 'disk', readOnly)];
    return this.mode === 'Block' ? podWithDevices(uid, volumes) : podUsing(uid, volumes);
  }

  /** The storage has grown, and the controller has updated the PersistentVolume. */
  grow(size: string, status: Partial<PersistentVolumeClaim['status']> = {}): void {
    const [volume, claim] = [this.bound.volumes.get('disk'), this.bound.claims.get('disk')];
    assert.ok(volume && claim);
    this.bound.volumes.set('disk', { ...volume, spec: { ...volume.spec, capacity: { storage: size } } });
    this.bound.claims.set('disk', { ...claim, status: { ...claim.status, ...status } });
  }

  /** A pod's own sync looks through its volumes again. */
  async sync(pod: Pod): Promise<void> {
    this.pods.put(pod);
    await this.manager.waitForMounted(pod, new AbortController().signal);
    await this.settle();
  }

  capacity(): unknown {
    return this.bound.claims.get('disk')?.status?.capacity?.['storage'];
  }

  waits(): number {
    return this.notices.filter(({ kind }) => kind === 'VolumeNotGrown').length;
  }
}

const byPod = 'MountVolume.NodeExpandVolume succeeded for volume "disk" node-1';
const success = [`FileSystemResizeSuccessful: ${byPod}`, `FileSystemResizeSuccessful: ${byPod}`];

for (const mode of ['Filesystem', 'Block'] as const) {
  test(`a ${mode} volume that grew while it is mounted is grown once`, async (t) => {
    const world = new GrowingWorld(t, mode);
    await world.start();
    await world.put(world.pod('web'));
    assert.equal(world.plugin.count('expand'), 0);
    world.grow('2Gi');
    await world.sync(world.pod('web'));
    assert.equal(world.plugin.count('expand'), 1);
    assert.equal(world.capacity(), '2Gi');
    assert.deepEqual(world.events().slice(-2), success);
    const [request] = world.plugin.expansions;
    const isBlock = mode === 'Block';
    assert.deepEqual(
      [request?.sizeBytes, request?.directory, request?.deviceMountPath, request?.devicePath],
      [
        2n * gibibyte,
        isBlock ? undefined : '/root/pods/web/volumes/example.com~disk/disk',
        isBlock ? undefined : '/plugins/disk',
        isBlock ? '/dev/disk' : '',
      ],
    );
    await world.advance(120_000);
    await world.sync(world.pod('web'));
    assert.equal(world.plugin.count('expand'), 1);
    assert.deepEqual(world.plugin.violations, []);
  });

  test(`a ${mode} volume that is mounted read-only is not grown`, async (t) => {
    const world = new GrowingWorld(t, mode);
    await world.start();
    const pod = world.pod('web', true);
    await world.put(pod);
    world.grow('2Gi');
    await world.sync(pod);
    await world.advance(120_000);
    assert.equal(world.plugin.count('expand'), 0);
  });
}

test('the claim of an ephemeral volume is grown too', async (t) => {
  const world = new GrowingWorld(t);
  await world.start();
  const ephemeral = podUsing('web', [{ name: 'data', ephemeral: { volumeClaimTemplate: { spec: {} } } }]);
  world.bound.bind('web-data');
  const claim = world.bound.claims.get('web-data');
  assert.ok(claim);
  const owner = { apiVersion: 'v1', kind: 'Pod', name: 'web', uid: 'web', controller: true };
  world.bound.claims.set('web-data', { ...claim, metadata: { ...claim.metadata, ownerReferences: [owner] } });
  await world.put(ephemeral);
  assert.deepEqual(world.states(), ['web/web-data: mounted']);
  const volume = world.bound.volumes.get('web-data');
  assert.ok(volume);
  world.bound.volumes.set('web-data', { ...volume, spec: { ...volume.spec, capacity: { storage: '3Gi' } } });
  await world.sync(ephemeral);
  assert.equal(world.plugin.count('expand'), 1);
  assert.equal(world.bound.claims.get('web-data')?.status?.capacity?.['storage'], '3Gi');
});

test('a volume that grows before it is mounted is grown within the mount, and not again', async (t) => {
  const world = new GrowingWorld(t);
  world.grow('2Gi');
  await world.start();
  await world.put(world.pod('web'));
  assert.deepEqual(world.states(), ['web/disk: mounted']);
  assert.deepEqual(world.plugin.calls, ['mountDevice disk', 'setUp web/disk', 'expand disk']);
  assert.equal(world.capacity(), '2Gi');
  await world.sync(world.pod('web'));
  await world.advance(120_000);
  assert.equal(world.plugin.count('expand'), 1);
  assert.deepEqual(world.events(), success);
});

for (const mode of ['Filesystem', 'Block'] as const) {
  test(`a ${mode} volume that cannot be grown is uncertain and its pod does not start`, async (t) => {
    const world = new GrowingWorld(t, mode);
    world.grow('2Gi');
    world.plugin.script('expand', new Error('no room'));
    await world.start();
    await world.put(world.pod('web'));
    assert.deepEqual(world.states(), ['web/disk: uncertain']);
    assert.equal(
      world.events().at(-1),
      mode === 'Block'
        ? 'FailedMapVolume: MapVolume.MarkVolumeAsMounted failed while expanding volume for volume "disk" : no room'
        : 'FailedMount: MountVolume.Setup failed while expanding volume for volume "disk" : no room',
    );
    await world.remove('web');
    assert.equal(world.plugin.count(mode === 'Block' ? 'unmapPodDevice' : 'tearDown'), 1);
    assert.deepEqual(world.states(), []);
  });
}

test('a volume that cannot be grown in use is never tried again', async (t) => {
  const world = new GrowingWorld(t);
  await world.start();
  await world.put(world.pod('web'));
  world.plugin.script('expand', new ExpansionRefusedError('in-use', 'in use'));
  world.grow('2Gi', {
    allocatedResources: { storage: '2Gi' },
    allocatedResourceStatuses: { storage: 'NodeResizePending' },
  });
  await world.sync(world.pod('web'));
  world.grow('3Gi');
  await world.sync(world.pod('web'));
  await world.advance(600_000);
  assert.equal(world.plugin.count('expand'), 1);
  assert.deepEqual(world.states(), ['web/disk: mounted']);
});

test('a failure to grow is reported to the pod and retried with growing delays', async (t) => {
  const world = new GrowingWorld(t);
  await world.start();
  await world.put(world.pod('web'));
  world.plugin.script('expand', new Error('no room'), new Error('no room'));
  world.grow('2Gi');
  await world.sync(world.pod('web'));
  assert.equal(
    world.events().at(-1),
    'VolumeResizeFailed: NodeExpandVolume.NodeExpandVolume failed for volume "disk" : no room',
  );
  assert.deepEqual(world.states(), ['web/disk: mounted']);
  await world.advance(400);
  assert.equal(world.plugin.count('expand'), 1);
  await world.advance(200);
  assert.equal(world.plugin.count('expand'), 2);
  await world.advance(1_100);
  assert.equal(world.plugin.count('expand'), 3);
  assert.equal(world.capacity(), '2Gi');
});

test('a volume whose controller is not ready is asked about now and then, and grown when it is', async (t) => {
  const world = new GrowingWorld(t);
  await world.start();
  await world.put(world.pod('web'));
  const steps = (status: string): Partial<PersistentVolumeClaim['status']> => ({
    allocatedResources: { storage: '2Gi' },
    allocatedResourceStatuses: { storage: status },
  });
  world.grow('2Gi', steps('ControllerResizeInProgress'));
  await world.sync(world.pod('web'));
  assert.equal(world.waits(), 1, 'it is not planned again at once');
  await world.advance(600_000);
  const waits = world.waits();
  assert.ok(waits > 15 && waits < 40, `${waits} attempts in ten minutes`);
  assert.equal(world.plugin.count('expand'), 0);
  assert.ok(!world.events().some((event) => event.startsWith('VolumeResizeFailed')));

  world.grow('2Gi', steps('NodeResizePending'));
  await world.advance(30_000);
  assert.equal(world.plugin.count('expand'), 1);
  assert.equal(world.capacity(), '2Gi');
  await world.advance(600_000);
  assert.equal(world.waits(), waits);
});

test('a volume that waits to be grown can be unmounted and is forgotten', async (t) => {
  const world = new GrowingWorld(t);
  await world.start();
  await world.put(world.pod('web'));
  world.grow('2Gi', { allocatedResources: { storage: '2Gi' }, allocatedResourceStatuses: { storage: 'x' } });
  await world.sync(world.pod('web'));
  await world.remove('web');
  assert.deepEqual(world.states(), []);
  await world.advance(600_000);
  assert.equal(world.waits(), 1);
});

test('a pod that may not write does not keep the volume of one that may from growing', async (t) => {
  const world = new GrowingWorld(t);
  await world.start();
  await world.put(world.pod('reader', true));
  await world.put(world.pod('writer'));
  world.grow('2Gi');
  await world.sync(world.pod('reader', true));
  await world.sync(world.pod('writer'));
  assert.equal(world.plugin.count('expand'), 1);
  assert.equal(world.capacity(), '2Gi');
});

test('a controller that stops short of the volume’s size is not followed in a loop', async (t) => {
  const world = new GrowingWorld(t);
  await world.start();
  await world.put(world.pod('web'));
  world.grow('3Gi', {
    allocatedResources: { storage: '2Gi' },
    allocatedResourceStatuses: { storage: 'NodeResizePending' },
  });
  await world.sync(world.pod('web'));
  assert.equal(world.capacity(), '2Gi');
  assert.equal(world.plugin.count('expand'), 1);
  assert.equal(world.waits(), 1);
});
