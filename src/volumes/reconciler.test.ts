/** The life of volumes through the whole manager, with scripted plugins. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../kube/kinds/node.ts';
import { FilesystemMismatchError } from '../plugins/plugin.ts';
import { type PluginStep, ScriptedError, ScriptedPlugin } from '../testing/fakes/scripted-plugin.ts';
import {
  FakePodsOnDisk,
  VolumeWorld,
  type VolumeWorldSettings,
  claimVolume,
  plainVolume,
  podUsing,
} from '../testing/worlds/volume-world.ts';
import { asPodUid, asVolumeName, podUidOf } from './volume-name.ts';

const diskName = asVolumeName('example.com/disk/disk');

function attachable(t: Parameters<typeof newWorld>[0], by: 'controller' | 'node'): World {
  return newWorld(t, new ScriptedPlugin({ kind: 'attachable', byNodeAlone: by === 'node' }));
}

class World extends VolumeWorld {
  shared = this.disk;
}

function newWorld(
  t: ConstructorParameters<typeof VolumeWorld>[0],
  shared: ScriptedPlugin,
  settings: VolumeWorldSettings = {},
): World {
  const world: World = new World(t, { plugins: [shared, new ScriptedPlugin({ follows: () => [] })], ...settings });
  world.shared = shared;
  world.claims.bind('disk');
  return world;
}

/** The controller has attached the disk, and the node has said that it uses it. */
async function attachByController(world: World): Promise<void> {
  world.node = { ...world.node, status: { volumesAttached: [{ name: diskName, devicePath: '/dev/disk' }] } };
  world.manager.markReportedInUse([diskName]);
  world.manager.nodeChanged();
  await world.settle();
}

test('a node without pods calls no plugin', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  await world.advance(200_000);
  assert.deepEqual([...world.plain.calls, ...world.disk.calls], []);
  assert.ok(world.notices.some(({ kind }) => kind === 'DesiredStateComplete'));
});

test('a plain volume is mounted, reported and unmounted again', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  await world.put(podUsing('web', [plainVolume('data')]));
  assert.deepEqual(world.states(), ['web/data: mounted']);
  assert.deepEqual(world.plain.calls, ['setUp web/data']);
  const { isRemount, directory, isReconstructed } = world.plain.requests[0] ?? {};
  assert.deepEqual(
    [isRemount, isReconstructed, directory],
    [false, false, '/root/pods/web/volumes/example.com~plain/data'],
  );
  await world.remove('web');
  assert.deepEqual(world.states(), []);
  assert.deepEqual(world.plain.calls, ['setUp web/data', 'tearDown web/data']);
  assert.deepEqual(world.subPathsCleaned, ['web/data']);
  assert.equal(world.manager.queries.isAttached(asVolumeName('example.com/plain/web-data')), false);
  const told = new Set(world.notices.flatMap((notice) => ('message' in notice ? [notice.message] : [])));
  assert.ok(
    told.has(
      'UnmountVolume.TearDown succeeded for volume "example.com/plain/web-data" pod "web" (UID: "web"). ' +
        'InnerVolumeSpecName "data". PluginName "example.com/plain", VolumeGIDValue ""',
    ),
  );
  assert.ok(
    told.has(
      'Volume detached for volume "data" (UniqueName: "example.com/plain/web-data") on node "node-1" DevicePath ""',
    ),
  );
});

const life = ['waitForAttach disk', 'mountDevice disk', 'setUp web/disk', 'tearDown web/disk', 'unmountDevice disk'];

test('where only the node can attach, each step is done exactly once', async (t) => {
  const world = attachable(t, 'node');
  await world.start();
  await world.put(podUsing('web', [claimVolume('data', 'disk')]));
  assert.deepEqual(world.states(), ['web/disk: mounted']);
  await world.remove('web');
  assert.deepEqual(world.shared.calls, ['attach disk', ...life, 'detach disk']);
  assert.deepEqual(world.shared.violations, []);
  assert.deepEqual(world.events(), ['SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "disk" ']);
});

test('where a controller attaches, the node neither attaches nor detaches', async (t) => {
  const world = attachable(t, 'controller');
  await world.start();
  await world.put(podUsing('web', [claimVolume('data', 'disk')]));
  await attachByController(world);
  assert.deepEqual(world.states(), ['web/disk: mounted']);
  await world.remove('web');
  assert.deepEqual(world.shared.calls, life);
  assert.equal(world.manager.queries.isAttached(diskName), false);
});

test('without a controller the pod learns why its volume is not attached', async (t) => {
  const world = newWorld(t, new ScriptedPlugin({ kind: 'attachable' }), { controllerAttach: false });
  await world.start();
  await world.put(podUsing('web', [claimVolume('data', 'disk')]));
  assert.deepEqual(world.events(), [
    'FailedAttachVolume: AttachVolume.Attach failed for volume "disk" : attaching volumes from the kubelet is not supported; a controller does it where enableControllerAttachDetach is true',
  ]);
  await world.remove('web');
  assert.deepEqual([world.states(), world.shared.calls], [[], []]);
});

test('a volume that is not reported in use waits, and no delay builds up', async (t) => {
  const world = attachable(t, 'controller');
  await world.start();
  await world.put(podUsing('web', [claimVolume('data', 'disk')]));
  await world.advance(200_000);
  assert.deepEqual(world.shared.calls, []);
  assert.deepEqual(world.manager.queries.volumesInUse(), [diskName]);
  world.manager.markReportedInUse([diskName]);
  await world.advance(200_000);
  assert.deepEqual(world.shared.calls, [], 'nor before the node status lists it as attached');
  assert.ok(!world.notices.some(({ kind }) => kind === 'OperationFailed'));
  await attachByController(world);
  assert.deepEqual(world.states(), ['web/disk: mounted'], 'at once, without a delay');
});

const timeout = (): Error => new ScriptedError('uncertain');
const final = (): Error => new ScriptedError('final');

interface Failing {
  readonly it: string;
  readonly step: PluginStep;
  readonly ends: readonly (Error | undefined)[];
  readonly state: string;
  readonly unmounts: number;
  readonly devices: number;
}
const failing: readonly Failing[] = [
  {
    it: 'a device mount that timed out',
    step: 'mountDevice',
    ends: [timeout()],
    state: 'uncertain',
    unmounts: 0,
    devices: 1,
  },
  {
    it: 'a device mount that failed',
    step: 'mountDevice',
    ends: [final()],
    state: 'not-mounted',
    unmounts: 0,
    devices: 0,
  },
  {
    it: 'a device mount that timed out, then failed',
    step: 'mountDevice',
    ends: [timeout(), final()],
    state: 'not-mounted',
    unmounts: 0,
    devices: 0,
  },
  { it: 'a set-up that timed out', step: 'setUp', ends: [timeout()], state: 'uncertain', unmounts: 1, devices: 1 },
  { it: 'a set-up that failed', step: 'setUp', ends: [final()], state: 'not-mounted', unmounts: 0, devices: 1 },
  {
    it: 'a set-up that timed out, then failed',
    step: 'setUp',
    ends: [timeout(), final()],
    state: 'not-mounted',
    unmounts: 0,
    devices: 1,
  },
  {
    it: 'a set-up that decided nothing',
    step: 'setUp',
    ends: [new ScriptedError('transient')],
    state: 'not-mounted',
    unmounts: 0,
    devices: 1,
  },
  {
    it: 'a set-up whose uncertain error was wrapped, which is final',
    step: 'setUp',
    ends: [new Error('wrapped', { cause: timeout() })],
    state: 'not-mounted',
    unmounts: 0,
    devices: 1,
  },
];
for (const { it, step, ends, state, unmounts, devices } of failing) {
  test(`${it} leaves ${state}, ${unmounts} unmounts and ${devices} of the device`, async (t) => {
    const world = newWorld(t, new ScriptedPlugin({ kind: 'device' }));
    world.shared.script(step, ...ends);
    await world.start();
    await world.put(podUsing('web', [claimVolume('data', 'disk')]));
    // Each attempt but the last is over before the next one is due.
    if (ends.length > 1) await world.advance(501);
    const expected = step === 'setUp' ? state : 'not-mounted';
    assert.deepEqual(world.states(), [`web/disk: ${expected}`]);
    await world.remove('web');
    assert.deepEqual([world.shared.count('tearDown'), world.shared.count('unmountDevice')], [unmounts, devices]);
    assert.deepEqual(world.states(), []);
    assert.equal(world.manager.queries.isAttached(diskName), false);
  });
}

for (const [step, end] of [
  ['setUp', timeout()],
  ['setUp', final()],
  ['mountDevice', final()],
] as const) {
  test(`a mounted volume stays that when ${step} fails in a refresh (${end.message})`, async (t) => {
    const world = newWorld(t, new ScriptedPlugin({ kind: 'device', follows: () => [] }));
    await world.start();
    const pod = podUsing('web', [claimVolume('data', 'disk')]);
    await world.put(pod);
    world.shared.script(step, end);
    await world.manager.waitForMounted(pod, new AbortController().signal);
    await world.settle();
    assert.equal(world.shared.count('setUp'), 2);
    assert.deepEqual(world.states(), ['web/disk: mounted']);
    await world.remove('web');
    assert.deepEqual([world.shared.count('tearDown'), world.shared.count('unmountDevice')], [1, 1]);
    assert.equal(world.shared.count('mountDevice'), 1);
  });
}

test('a shared device stays until the last of its pods is gone', async (t) => {
  const world = newWorld(t, new ScriptedPlugin({ kind: 'device' }));
  await world.start();
  await world.put(podUsing('one', [claimVolume('data', 'disk')]), podUsing('two', [claimVolume('data', 'disk')]));
  assert.deepEqual(world.states(), ['one/disk: mounted', 'two/disk: mounted']);
  assert.equal(world.shared.count('mountDevice'), 1);
  await world.remove('one');
  assert.equal(world.shared.count('unmountDevice'), 0);
  await world.remove('two');
  assert.equal(world.shared.count('unmountDevice'), 1);
  assert.deepEqual(world.shared.violations, []);
});

test('mounts of a shared volume take turns, and a move unmounts first', async (t) => {
  const world = newWorld(t, new ScriptedPlugin({ kind: 'device' }));
  await world.start();
  const hold = world.shared.hold('setUp');
  await world.put(podUsing('one', [claimVolume('data', 'disk')]), podUsing('two', [claimVolume('data', 'disk')]));
  await hold.arrived;
  assert.deepEqual(world.shared.calls, ['mountDevice disk', 'setUp one/disk']);
  hold.release();
  await world.settle();
  assert.deepEqual(world.shared.calls, ['mountDevice disk', 'setUp one/disk', 'setUp two/disk']);
  world.shared.calls.length = 0;
  world.pods.terminated.add('one').add('two');
  world.pods.remove('one');
  world.pods.remove('two');
  world.pods.put(podUsing('three', [claimVolume('data', 'disk')]));
  for (const uid of ['three', 'two', 'one']) world.manager.podChanged(asPodUid(uid));
  const unmount = world.shared.hold('tearDown');
  await world.settle();
  assert.deepEqual(
    world.shared.calls.toSorted(),
    ['tearDown one/disk', 'tearDown two/disk'],
    'both at once, no mount yet',
  );
  unmount.release();
  await world.settle();
  assert.deepEqual(world.shared.calls.slice(2), ['setUp three/disk'], 'the device is used again');
});

test('mounts of plain volumes run beside each other', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  const hold = world.plain.hold('setUp');
  await world.put(podUsing('one', [plainVolume('a')]), podUsing('two', [plainVolume('a')]));
  await hold.arrived;
  assert.deepEqual(world.states(), ['one/a: not-mounted', 'two/a: mounted']);
  hold.release();
});

test('a pod whose mount of a shared volume always fails does not starve the others', async (t) => {
  const world = newWorld(t, new ScriptedPlugin({ kind: 'device' }));
  const failsForOne = world.shared.setUp.bind(world.shared);
  world.shared.setUp = (request, signal) =>
    request.pod.metadata.name === 'one' ? Promise.reject(new Error('not this one')) : failsForOne(request, signal);
  await world.start();
  await world.put(podUsing('one', [claimVolume('data', 'disk')]), podUsing('two', [claimVolume('data', 'disk')]));
  await world.advance(2000);
  assert.deepEqual(world.states(), ['one/disk: not-mounted', 'two/disk: mounted']);
});

test('a volume that is wanted again while its device is unmounted is mounted again from the same path', async (t) => {
  const world = attachable(t, 'controller');
  await world.start();
  await world.put(podUsing('web', [claimVolume('data', 'disk')]));
  await attachByController(world);
  const hold = world.shared.hold('unmountDevice');
  await world.remove('web');
  await hold.arrived;
  await world.put(podUsing('next', [claimVolume('data', 'disk')]));
  hold.release();
  await world.settle();
  assert.deepEqual(world.states(), ['next/disk: mounted']);
  assert.equal(world.shared.count('mountDevice'), 2);
});

test('nothing is unmounted before every pod source was read', async (t) => {
  const world = new VolumeWorld(t);
  world.pods.ready = false;
  await world.start();
  await world.put(podUsing('web', [plainVolume('data')]));
  await world.remove('web');
  assert.deepEqual(world.states(), ['web/data: mounted, unwanted']);
  world.pods.ready = true;
  world.manager.sourcesChanged();
  await world.settle();
  assert.deepEqual(world.states(), []);
});

/** One plain volume of the pod `web` that an earlier process left. */
function leftOnDisk(): FakePodsOnDisk {
  const disk = new FakePodsOnDisk();
  disk.leave('web', 'example.com/plain', 'data');
  return disk;
}

test('nothing is unmounted before the status of the node was applied to what a restart found; mounts start at once', async (t) => {
  let apply = (): void => {};
  const node: Node = { metadata: { name: 'node-1' } };
  const read = new Promise<Node>((resolve) => (apply = () => resolve(node)));
  const deps = { podsOnDisk: leftOnDisk(), node: { name: 'node-1', current: () => node, read: () => read } };
  const world = new VolumeWorld(t, { deps });
  await world.start();
  await world.put(podUsing('new', [plainVolume('data')]));
  assert.deepEqual(world.states(), ['new/data: mounted', 'web/data: uncertain, unwanted']);
  assert.equal(world.manager.areStatesSynced(), false);
  apply();
  await world.settle();
  assert.deepEqual(world.states(), ['new/data: mounted']);
});

test('what a restart found is set up again as such, and never torn down while it is wanted', async (t) => {
  const world = new VolumeWorld(t, { deps: { podsOnDisk: leftOnDisk() } });
  world.pods.put(podUsing('web', [plainVolume('data')]));
  world.plain.script('setUp', final());
  await world.start();
  assert.deepEqual(world.states(), ['web/data: uncertain'], 'also a final failure leaves it to be unmounted one day');
  await world.advance(501);
  assert.deepEqual(world.states(), ['web/data: mounted']);
  assert.deepEqual(
    world.plain.requests.map(({ isReconstructed }) => isReconstructed),
    [true, true],
  );
  assert.deepEqual(world.plain.calls, ['setUp web/data', 'setUp web/data']);
});

test('what a restart found stays while the claims of its pod cannot be read', async (t) => {
  const world = new VolumeWorld(t, { deps: { podsOnDisk: leftOnDisk() } });
  world.claims.failure = new Error('connection refused');
  world.pods.put(podUsing('web', [claimVolume('data', 'disk')]));
  await world.start();
  await world.advance(60_000);
  assert.deepEqual(world.states(), ['web/data: uncertain, unwanted']);
  world.claims.failure = undefined;
  world.claims.bind('disk');
  await world.advance(10_000);
  assert.deepEqual(world.states(), ['web/disk: mounted'], 'now it is known that the pod has no such volume');
});

test('a failure inside the manager ends all of it', async (t) => {
  const world = new VolumeWorld(t, {
    deps: { node: { name: 'node-1', current: () => assert.fail('a bug'), read: () => assert.fail('a bug') } },
    plugins: [new ScriptedPlugin({ kind: 'attachable' })],
  });
  world.claims.bind('disk');
  world.pods.put(podUsing('web', [claimVolume('data', 'disk')]));
  const running = assert.rejects(world.manager.run(new AbortController().signal), { message: 'a bug' });
  await world.settle();
  world.manager.markReportedInUse([diskName]);
  await running;
});

test('a failed tear-down leaves the volume uncertain, and is tried again after its delay', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  await world.put(podUsing('web', [plainVolume('data')]));
  world.plain.script('tearDown', final());
  await world.remove('web');
  assert.deepEqual(world.states(), ['web/data: uncertain, unwanted']);
  assert.deepEqual(world.events(), [], 'no event is told of an unmount');
  const failed = world.notices.find((notice) => notice.kind === 'OperationFailed');
  assert.match(
    failed?.error.message ?? '',
    /^UnmountVolume\.TearDown failed for volume "example\.com\/plain\/web-data" \(UniqueName: "example\.com\/plain\/web-data"\) pod "web" \(UID: "web"\) : final failure$/,
  );
  await world.advance(501);
  assert.deepEqual(world.states(), []);
});

test('an unmount that fails again and again names what holds the volume, and whose it is', async (t) => {
  const holder = 'process 4711 (sleep), by its working directory';
  const asked: string[] = [];
  const mountHolders = async (directory: string): Promise<readonly string[]> => {
    asked.push(directory);
    return [holder];
  };
  const world = new VolumeWorld(t, { deps: { mountHolders } });
  await world.start();
  const pod = podUsing('web', [plainVolume('data')]);
  await world.put(pod);
  world.plain.script('tearDown', final(), final(), final(), final());
  world.pods.terminated.add('web');
  world.manager.podChanged(podUidOf(pod));
  await world.settle();
  const stuck = (): readonly unknown[] =>
    world.notices.flatMap((notice) =>
      notice.kind === 'OperationFailed' ? [notice.stuck && { ...notice.stuck, pod: notice.pod }] : [],
    );
  await world.advance(501);
  assert.deepEqual(stuck(), [undefined, undefined], 'twice is no reason to look for more');
  await world.advance(1_001);
  const message = 'UnmountVolume.TearDown failed for volume "example.com/plain/web-data" : final failure';
  const found = { pod: { uid: 'web', namespace: 'shop', name: 'web' }, holders: [holder], message };
  assert.deepEqual(stuck(), [undefined, undefined, found]);
  assert.deepEqual(asked, ['/root/pods/web/volumes/example.com~plain/data']);
  world.pods.remove('web');
  world.manager.podChanged(podUidOf(pod));
  await world.advance(2_001);
  assert.deepEqual(stuck().at(-1), { ...found, pod: undefined }, 'a pod that is gone gets no Event');
  await world.advance(4_001);
  assert.deepEqual(world.states(), []);
});

test('a device that is still referenced, or open, is not detached', async (t) => {
  const world = attachable(t, 'node');
  await world.start();
  await world.put(podUsing('web', [claimVolume('data', 'disk')]));
  world.shared.references = ['/somewhere/else'];
  await world.remove('web');
  const errors = (): readonly string[] =>
    world.notices.flatMap((notice) => (notice.kind === 'OperationFailed' ? [notice.error.message] : []));
  const prefix = 'for volume "disk" (UniqueName: "example.com/disk/disk") on node "node-1" : ';
  assert.deepEqual(errors(), [
    `GetDeviceMountRefs check failed ${prefix}the device mount path "/plugins/disk" is still mounted by other references [/somewhere/else]`,
  ]);
  world.shared.references = ['/host/plugins/disk'];
  world.openDevices.add('/dev/disk');
  await world.advance(501);
  assert.equal(
    errors().at(-1),
    `UnmountDevice failed ${prefix}the device is in use when it was no longer expected to be in use`,
  );
  world.openDevices.clear();
  await world.advance(1001);
  assert.equal(world.shared.count('detach'), 1);
});

interface Refused {
  readonly it: string;
  readonly volume?: Parameters<VolumeWorld['claims']['bind']>[1];
  readonly fail?: PluginStep;
  readonly event: string;
}
const refusals: readonly Refused[] = [
  {
    it: 'the node is not one of its nodes',
    volume: {
      nodeAffinity: {
        required: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'zone', operator: 'In', values: ['b'] }] }] },
      },
    },
    event: 'FailedMount: MountVolume.NodeAffinity check failed for volume "disk" : no matching NodeSelectorTerms',
  },
  {
    it: 'it has mount options that its plugin does not know',
    volume: { mountOptions: ['noatime'] },
    event:
      'FailedMount: MountVolume.MountOptionSupport check failed for volume "disk" : mount options are not supported for this volume type',
  },
  {
    it: 'its device does not come',
    fail: 'waitForAttach',
    event: 'FailedMount: MountVolume.WaitForAttach failed for volume "disk" : final failure',
  },
  {
    it: 'its device is not mounted',
    fail: 'mountDevice',
    event: 'FailedMount: MountVolume.MountDevice failed for volume "disk" : final failure',
  },
  {
    it: 'it is not set up',
    fail: 'setUp',
    event: 'FailedMount: MountVolume.SetUp failed for volume "disk" : final failure',
  },
  {
    it: 'it is not attached',
    fail: 'attach',
    event: 'FailedAttachVolume: AttachVolume.Attach failed for volume "disk" : final failure',
  },
];
for (const { it, volume = {}, fail, event } of refusals) {
  test(`a volume is refused in the kubelet words when ${it}`, async (t) => {
    const disk = new ScriptedPlugin({ kind: 'attachable', byNodeAlone: true, supportsMountOptions: false });
    const world = newWorld(t, disk);
    world.claims.bind('disk', volume);
    if (fail !== undefined) world.shared.script(fail, final());
    await world.start();
    await world.put(podUsing('web', [claimVolume('data', 'disk')]));
    assert.deepEqual(
      world.events().filter((text) => text.startsWith('Failed')),
      [event],
    );
    assert.deepEqual(world.states(), ['web/disk: not-mounted']);
  });
}

test('storage for one pod alone is not given to a second one', async (t) => {
  const world = newWorld(t, new ScriptedPlugin({ kind: 'device' }));
  world.claims.bind('disk', { accessModes: ['ReadWriteOncePod'] });
  await world.start();
  await world.put(podUsing('one', [claimVolume('data', 'disk')]));
  await world.put(podUsing('two', [claimVolume('data', 'disk')]));
  assert.deepEqual(world.events(), [
    'FailedMount: MountVolume.SetUp failed for volume "disk" : volume uses the ReadWriteOncePod access mode and is already in use by another pod',
  ]);
  await world.remove('one');
  await world.advance(501);
  assert.deepEqual(world.states(), ['two/disk: mounted']);
});

test('a file system mismatch is reported for the volume, also when the error is wrapped', async (t) => {
  const world = newWorld(t, new ScriptedPlugin({ kind: 'device' }));
  world.shared.script('setUp', new Error('mount failed', { cause: new FilesystemMismatchError('ext4, not xfs') }));
  await world.start();
  await world.put(podUsing('web', [claimVolume('data', 'disk')]));
  assert.deepEqual(world.events(), [
    'FailedMountOnFilesystemMismatch: MountVolume failed for volume "disk" mount failed',
    'FailedMount: MountVolume.SetUp failed for volume "disk" : mount failed',
  ]);
});

test('a bug in a plugin delays its volume, emits no event, and leaves the others alone', async (t) => {
  const world = new VolumeWorld(t);
  world.plain.script('setUp', new TypeError('boom'));
  await world.start();
  await world.put(podUsing('web', [plainVolume('a'), plainVolume('b')]));
  assert.deepEqual(world.states(), ['web/a: not-mounted', 'web/b: mounted']);
  assert.deepEqual(world.events(), []);
  await world.advance(501);
  assert.deepEqual(world.states(), ['web/a: mounted', 'web/b: mounted']);
});

test('waiting for a device ends after ten minutes', async (t) => {
  const world = attachable(t, 'node');
  await world.start();
  const hold = world.shared.hold('waitForAttach');
  await world.put(podUsing('web', [claimVolume('data', 'disk')]));
  await hold.arrived;
  await world.advance(600_000);
  assert.deepEqual(world.events().slice(1), [
    'FailedMount: MountVolume.WaitForAttach failed for volume "disk" : operation WaitForAttach did not finish within 10m0s: context deadline exceeded',
  ]);
});

test('a node that stops ends what is going on, and a first set-up in the middle is uncertain', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  const hold = world.plain.hold('setUp');
  await world.put(podUsing('web', [plainVolume('data')]));
  await hold.arrived;
  await world.stop();
  assert.deepEqual(world.states(), ['web/data: uncertain']);
  assert.deepEqual(world.events(), [], 'which is no failure of the pod');
});
