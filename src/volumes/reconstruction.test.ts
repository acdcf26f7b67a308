/** What a node makes of what an earlier process left: with plugins that touch nothing and directories of the test's own. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { untilAborted } from '../base/abort.ts';
import type { Node } from '../kube/kinds/node.ts';
import { volumeDirectory } from '../kube/values/node-layout.ts';
import { PluginRegistry } from '../plugins/registry.ts';
import { ScriptedError, ScriptedPlugin, storageSpec } from '../testing/fakes/scripted-plugin.ts';
import {
  FakePodsOnDisk,
  PodTreeProblem,
  VolumeWorld,
  type VolumeWorldSettings,
  claimVolume,
  plainVolume,
  podUsing,
} from '../testing/worlds/volume-world.ts';
import { ActualState } from './actual-state.ts';
import type { VolumeNotice } from './notices.ts';
import type { NodeReader } from './operation.ts';
import type { VolumeAction } from './plan.ts';
import { Reconstruction } from './reconstruction.ts';
import { asPodUid, asVolumeName } from './volume-name.ts';

const signal = new AbortController().signal;
const [plainName, diskName] = ['example.com/plain', 'example.com/disk'];
const disk1 = asVolumeName('example.com/disk/d1');

/** One start of a node, as far as the scan goes. */
class Start {
  readonly disk = new FakePodsOnDisk();
  readonly plain = new ScriptedPlugin({ follows: () => [] });
  readonly shared: ScriptedPlugin;
  readonly actual: ActualState;
  readonly notices: VolumeNotice[] = [];
  readonly started: VolumeAction[] = [];
  readonly wanted = new Set<string>();
  readonly populator = { hasAddedPods: true, isUnresolved: (uid: string) => this.unresolved.has(uid) };
  readonly unresolved = new Set<string>();
  readonly reconstruction: Reconstruction;
  node: Node = { metadata: { name: 'node-1' }, status: {} };

  constructor(shared = new ScriptedPlugin({ kind: 'device' })) {
    this.shared = shared;
    const { registry } = PluginRegistry.of([this.plain, shared]);
    this.actual = new ActualState(registry, () => {});
    this.reconstruction = new Reconstruction({
      disk: this.disk,
      plugins: registry,
      node: { name: 'node-1', current: () => this.node, read: async () => this.node },
      desired: { hasSpecName: (podUid, name) => this.wanted.has(`${podUid}/${name}`) },
      actual: this.actual,
      operations: {
        start: (action) => {
          this.started.push(action);
          return 'started';
        },
      },
      populator: this.populator,
      clock: { now: () => 0, sleep: async () => {} },
      notify: (notice) => this.notices.push(notice),
    });
  }

  /** `d1: pod-a uncertain, pod-b uncertain; device uncertain at /plugins/d1`. */
  listed(): readonly string[] {
    return [...this.actual.volumes()].map(({ volume, mounts, device, deviceMountPath }) => {
      const pods = [...mounts.values()].map(({ podUid, state }) => `${podUid} ${state}`).join(', ');
      return `${volume}: ${pods}; device ${device}${deviceMountPath === '' ? '' : ` at ${deviceMountPath}`}`;
    });
  }

  noticesOf<Kind extends VolumeNotice['kind']>(kind: Kind): readonly Extract<VolumeNotice, { kind: Kind }>[] {
    return this.notices.filter((one): one is Extract<VolumeNotice, { kind: Kind }> => one.kind === kind);
  }
}

test('two pods of one volume are one volume with two uncertain pods, and its status is requested twice', async () => {
  const start = new Start();
  start.disk.leave('a', diskName, 'd1');
  start.disk.leave('b', diskName, 'd1');
  await start.reconstruction.scan(signal);
  assert.deepEqual(start.listed(), [`${disk1}: a uncertain, b uncertain; device uncertain at /plugins/d1`]);
  assert.deepEqual([start.actual.mountedOf(asPodUid('a')), start.actual.mountedOf(asPodUid('b'))], [[], []]);
  assert.deepEqual(start.reconstruction.awaitingStatus, [disk1, disk1]);
  assert.ok(start.actual.isReconstructed({ volume: disk1, podUid: asPodUid('b') }));
  assert.equal(start.actual.volume(disk1)?.attachable, 'uncertain');
});

test('volumes of one pod get the names that the populator gives them', async () => {
  const start = new Start();
  start.disk.leave('a', plainName, 'data');
  start.disk.leave('b', plainName, 'data');
  await start.reconstruction.scan(signal);
  assert.deepEqual(start.listed(), [
    'example.com/plain/a-data: a uncertain; device not-mounted',
    'example.com/plain/b-data: b uncertain; device not-mounted',
  ]);
});

test('the directory of an unknown plugin is listed as failed, and nothing of it as mounted', async () => {
  const start = new Start();
  start.disk.leave('a', 'example.com/other', 'data');
  await start.reconstruction.scan(signal);
  assert.deepEqual(start.listed(), []);
  assert.deepEqual(
    start.reconstruction.failed.map(({ podUid, pluginName, volumeName }) => [podUid, pluginName, volumeName]),
    [['a', 'example.com/other', 'data']],
  );
  assert.equal(start.reconstruction.isApplied(), true, 'no volume waits for the status of the node');
  assert.deepEqual(
    start.noticesOf('VolumeReconstructed').map(({ problem }) => problem),
    ['no volume plugin matched name: example.com/other'],
  );
});

const failures = [
  {
    it: 'no guess',
    arrange: ({ plain, disk }: Start) => {
      plain.reconstruct = () => undefined as never;
      disk.leave('a', plainName, 'data');
    },
    says: `failed to reconstruct volume for plugin "${plainName}" (spec.Name: "data") pod "a" (UID: "a"): the plugin leaves no directory`,
  },
  {
    it: 'a raw device of a plugin without raw devices',
    arrange: ({ disk }: Start) => disk.leave('a', diskName, 'data', 'volumeDevices'),
    says: `could not find block volume plugin "${diskName}" (spec.Name: "data") pod "a" (UID: "a")`,
  },
  {
    it: 'a plugin that fails',
    arrange: ({ plain, disk }: Start) => {
      plain.reconstruct = () => {
        throw new TypeError('a bug of the plugin');
      };
      disk.leave('a', plainName, 'data');
    },
    says: 'a bug of the plugin',
  },
];
for (const { it, arrange, says } of failures) {
  test(`a volume fails by ${it}, and the others are found all the same`, async () => {
    const start = new Start();
    arrange(start);
    start.disk.leave('b', diskName, 'd1');
    await start.reconstruction.scan(signal);
    assert.deepEqual(
      start.noticesOf('VolumeReconstructed').map(({ problem }) => problem),
      [says, undefined],
    );
    assert.deepEqual([start.reconstruction.failed.length, start.listed().length], [1, 1]);
  });
}

test('a failed volume that is wanted is left alone, an unwanted one is torn down once; then the list is empty', async () => {
  const start = new Start();
  start.plain.reconstruct = () => undefined as never;
  start.disk.leave('a', plainName, 'wanted');
  start.disk.leave('b', plainName, 'left');
  start.wanted.add('a/wanted');
  await start.reconstruction.scan(signal);
  await start.reconstruction.run(() => {}, signal);
  start.reconstruction.cleanFailed();
  assert.deepEqual(start.started, [
    {
      kind: 'unmount',
      volume: 'left',
      podUid: 'b',
      pluginName: plainName,
      volumeName: 'left',
      gid: '',
      spec: undefined,
    },
  ]);
  assert.deepEqual(start.reconstruction.failed, []);
  assert.equal(start.noticesOf('FailedVolumeCleaned').length, 1);
});

test('what failed waits for all pods to be known, and for the volumes of its own pod to be resolved', async () => {
  const start = new Start();
  start.plain.reconstruct = () => undefined as never;
  start.disk.leave('a', plainName, 'data');
  start.populator.hasAddedPods = false;
  start.unresolved.add('a');
  await start.reconstruction.scan(signal);
  await start.reconstruction.run(() => {}, signal);
  assert.deepEqual(start.started, []);
  start.populator.hasAddedPods = true;
  start.reconstruction.cleanFailed();
  assert.deepEqual(start.started, []);
  start.unresolved.clear();
  start.reconstruction.cleanFailed();
  assert.equal(start.started.length, 1);
});

test('the status of the node fills in devices and attachments, and nothing is unmounted before', async () => {
  const start = new Start(new ScriptedPlugin({ kind: 'attachable' }));
  start.disk.leave('a', diskName, 'd1');
  start.disk.leave('a', diskName, 'd2');
  await start.reconstruction.scan(signal);
  assert.equal(start.reconstruction.isApplied(), false);
  start.node = { metadata: { name: 'node-1' }, status: { volumesAttached: [{ name: disk1, devicePath: '/dev/x' }] } };
  const seen: unknown[] = [];
  await start.reconstruction.run(() => {
    const facts = [...start.actual.volumes()].map(({ attachable, devicePath }) => [attachable, devicePath]);
    seen.push(facts, start.reconstruction.isApplied());
  }, signal);
  assert.deepEqual(seen, [
    [
      ['yes', '/dev/x'],
      ['no', ''],
    ],
    true,
  ]);
  assert.deepEqual(start.reconstruction.awaitingStatus, []);
});

test('a node without an API server knows no status: nothing is attached, and nothing waits for it', async () => {
  const start = new Start(new ScriptedPlugin({ kind: 'attachable' }));
  start.disk.leave('a', diskName, 'd1');
  start.node = { metadata: { name: 'node-1' } };
  await start.reconstruction.scan(signal);
  await start.reconstruction.run(() => {}, signal);
  assert.equal(start.actual.volume(disk1)?.attachable, 'no');
  assert.ok(start.reconstruction.isApplied());
});

for (const { who, byNodeAlone, attachable } of [
  { who: 'only the node can attach', byNodeAlone: true, attachable: 'yes' },
  { who: 'a controller attaches', byNodeAlone: false, attachable: 'no' },
]) {
  test(`what ${who} and no status lists is ${attachable === 'yes' ? 'still' : 'not'} attached`, async () => {
    const start = new Start(new ScriptedPlugin({ kind: 'attachable', byNodeAlone }));
    start.disk.leave('a', diskName, 'd1');
    await start.reconstruction.scan(signal);
    await start.reconstruction.run(() => {}, signal);
    assert.equal(start.actual.volume(disk1)?.attachable, attachable);
  });
}

test('a raw device is listed with the place where it is mapped', async () => {
  const block = {
    globalMapPathOf: () => '/plugins/map/d1',
    reconstruct: (_podUid: string, name: string) => storageSpec(name, { volumeMode: 'Block' }),
  };
  const start = new Start(new ScriptedPlugin({ kind: 'device', block }));
  start.disk.leave('a', diskName, 'd1', 'volumeDevices');
  await start.reconstruction.scan(signal);
  assert.deepEqual(start.listed(), [`${disk1}: a uncertain; device uncertain at /plugins/map/d1`]);
});

test('unreadable pod directories are reported and do not prevent the start', async () => {
  const start = new Start();
  start.disk.failure = new PodTreeProblem('open /root/pods: no such file or directory');
  await start.reconstruction.scan(signal);
  assert.ok(start.reconstruction.isApplied());
  assert.deepEqual(
    start.noticesOf('ReconstructionProblem').map(({ message }) => message),
    [
      'Cannot get volumes from disk, skip sync states for volume reconstruction: open /root/pods: no such file or directory',
    ],
  );
});

test('entries that are not volumes are reported', async () => {
  const start = new Start();
  start.disk.skipped.push({ path: '/root/pods/file', why: 'it is not what belongs there' });
  await start.reconstruction.scan(signal);
  assert.deepEqual(start.noticesOf('EntrySkipped'), [
    { kind: 'EntrySkipped', path: '/root/pods/file', message: 'it is not what belongs there' },
  ]);
});

test('an unknown device mount path loses the device, not the pods that have the volume', async () => {
  const start = new Start();
  Object.assign(start.shared.deviceMount ?? {}, {
    pathOf: () => {
      throw new PodTreeProblem('local volume source is nil or local path is not set');
    },
  });
  start.disk.leave('a', diskName, 'd1');
  await start.reconstruction.scan(signal);
  assert.deepEqual(start.listed(), [`${disk1}: a uncertain; device not-mounted`]);
  assert.equal(start.noticesOf('ReconstructionProblem').length, 1);
});

/** A node that starts where another one had these mounted; with the plugins' view of the machine. */
async function restarted(
  t: TestContext,
  left: readonly (readonly [pod: string, plugin: string, name: string])[],
  settings: VolumeWorldSettings & { readonly before?: (world: VolumeWorld, disk: FakePodsOnDisk) => void } = {},
): Promise<VolumeWorld & { readonly directories: FakePodsOnDisk }> {
  const { before = () => {}, deps, ...rest } = settings;
  const podsOnDisk = new FakePodsOnDisk();
  const world = new VolumeWorld(t, { ...rest, deps: { podsOnDisk, ...deps } });
  for (const [pod, plugin, name] of left) {
    podsOnDisk.leave(pod, plugin, name);
    const machine = plugin === plainName ? world.plain : world.disk;
    machine.mounted.add(volumeDirectory('/root', pod, plugin, name));
    if (plugin === diskName) machine.devices.add(`/plugins/${name}`);
  }
  before(world, podsOnDisk);
  await world.start();
  return Object.assign(world, { directories: podsOnDisk });
}

test('what is found and wanted is set up once, is mounted then, and is never torn down', async (t) => {
  const world = await restarted(t, [['web', diskName, 'd1']], {
    before: ({ pods, claims }) => {
      claims.bind('d1');
      pods.put(podUsing('web', [claimVolume('data', 'd1')]));
    },
  });
  assert.deepEqual(world.states(), ['web/d1: mounted']);
  assert.deepEqual(world.disk.calls, ['mountDevice d1', 'setUp web/d1']);
  assert.deepEqual(
    world.disk.requests.map(({ isReconstructed, isRemount }) => [isReconstructed, isRemount]),
    [[true, false]],
  );
});

for (const step of ['setUp', 'mountDevice'] as const) {
  test(`when ${step} fails finally, what was found stays uncertain and is unmounted once it is unwanted`, async (t) => {
    const world = await restarted(t, [['web', diskName, 'd1']], {
      before: ({ pods, claims, disk }) => {
        claims.bind('d1');
        pods.put(podUsing('web', [claimVolume('data', 'd1')]));
        disk.script(step, ...Array.from({ length: 20 }, () => new ScriptedError('final')));
      },
    });
    await world.advance(30_000);
    assert.deepEqual(world.states(), ['web/d1: uncertain']);
    assert.equal(world.disk.count('tearDown'), 0);
    assert.equal(world.disk.count('unmountDevice'), 0);
    if (step === 'setUp') assert.ok(world.disk.requests.every(({ isReconstructed }) => isReconstructed));
    await world.remove('web');
    await world.advance(1000);
    assert.deepEqual(world.states(), []);
    assert.deepEqual([world.disk.count('tearDown'), world.disk.count('unmountDevice')], [1, 1]);
    assert.deepEqual([[...world.disk.mounted], [...world.disk.devices]], [[], []]);
    assert.deepEqual(world.disk.violations, []);
  });
}

// The order of things after a restart.

/** A node whose status is not known yet; a test decides when it is read, if ever. */
function unreadNode(answer: Promise<Node>): NodeReader {
  const read = (stop: AbortSignal): Promise<Node> =>
    Promise.race([answer, untilAborted(stop).then(() => Promise.reject(stop.reason as Error))]);
  return { name: 'node-1', current: () => undefined, read };
}

test('no operation starts before everything on disk was listed', async (t) => {
  let [scanned, started] = [false, false];
  const disk = new FakePodsOnDisk();
  for (let pod = 0; pod < 100; pod += 1) disk.leave(`gone-${pod}`, plainName, 'data');
  const plain = new ScriptedPlugin();
  const setUp = plain.setUp.bind(plain);
  plain.setUp = (request, stop) => {
    started = true;
    assert.ok(scanned, 'a volume was set up during the scan');
    return setUp(request, stop);
  };
  const world = new VolumeWorld(t, {
    plugins: [plain],
    deps: {
      podsOnDisk: Object.assign(disk, {
        *scan() {
          yield* FakePodsOnDisk.prototype.scan.call(disk);
          scanned = true;
        },
      }),
    },
  });
  world.pods.put(podUsing('web', [plainVolume('data')]));
  await world.start();
  await world.settle();
  assert.ok(started);
});

test('mounts start before all pods are known and before the status of the node is', async (t) => {
  const world = await restarted(t, [['web', plainName, 'data']], {
    deps: { node: unreadNode(new Promise(() => {})) },
    before: ({ pods }) => {
      pods.ready = false;
      pods.put(podUsing('web', [plainVolume('data')]));
    },
  });
  assert.deepEqual(world.states(), ['web/data: mounted']);
  assert.equal(world.manager.areStatesSynced(), false);
});

test('nothing is unmounted, detached or cleaned before all pods and the status of the node are known', async (t) => {
  let status: Error | undefined = new Error('connection refused');
  const node: Node = { metadata: { name: 'node-1' }, status: {} };
  const read = async (): Promise<Node> => {
    if (status !== undefined) throw status;
    return node;
  };
  const left = [
    ['gone', plainName, 'data'],
    ['gone', diskName, 'd1'],
    ['gone', plainName, 'odd'],
  ] as const;
  const world = await restarted(t, left, {
    deps: { node: { name: 'node-1', current: () => undefined, read } },
    before: ({ pods, plain }) => {
      const reconstruct = plain.reconstruct.bind(plain);
      plain.reconstruct = (name) => (name === 'odd' ? (undefined as never) : reconstruct(name));
      pods.ready = false;
      pods.terminated.add('gone');
    },
  });
  const calls = (): readonly string[] => [...world.plain.calls, ...world.disk.calls];
  assert.deepEqual(calls(), []);
  world.pods.ready = true;
  world.manager.sourcesChanged();
  await world.advance(60_000);
  assert.deepEqual(calls(), [], 'all pods are known, the status is not');
  assert.equal(world.manager.areStatesSynced(), false);
  assert.ok(world.notices.filter(({ kind }) => kind === 'NodeStatusUnread').length > 3);
  status = undefined;
  await world.advance(5_000);
  assert.equal(world.manager.areStatesSynced(), true);
  assert.deepEqual([...calls()].sort(), [
    'tearDown gone/d1',
    'tearDown gone/data',
    'tearDown gone/odd',
    'unmountDevice d1',
  ]);
  assert.deepEqual(world.states(), []);
});

test('the status of the node alone is not enough to unmount, detach or clean anything', async (t) => {
  const world = await restarted(t, [['gone', plainName, 'data']], { before: ({ pods }) => (pods.ready = false) });
  assert.equal(world.manager.areStatesSynced(), true);
  await world.advance(60_000);
  assert.deepEqual(world.states(), ['gone/data: uncertain, unwanted']);
  world.pods.ready = true;
  world.manager.sourcesChanged();
  await world.settle();
  assert.deepEqual(world.states(), []);
});

test('the list of volumes in use is not to be written before the status of the node was applied', async (t) => {
  let apply = (): void => {};
  const read = new Promise<Node>((resolve) => (apply = () => resolve({ metadata: { name: 'node-1' } })));
  const world = await restarted(t, [['web', diskName, 'd1']], {
    deps: { node: unreadNode(read) },
  });
  assert.equal(world.manager.areStatesSynced(), false);
  apply();
  await world.settle();
  assert.equal(world.manager.areStatesSynced(), true);
});

test('the volumes of a pod that is still terminating are kept until its containers are gone', async (t) => {
  const world = await restarted(t, [['web', plainName, 'data']], {
    before: ({ pods }) => {
      pods.put(podUsing('web', [plainVolume('data')]));
      pods.terminating.add('web');
    },
  });
  await world.advance(120_000);
  assert.deepEqual(world.states(), ['web/data: mounted']);
  assert.equal(world.plain.count('tearDown'), 0);
  await world.remove('web');
  assert.deepEqual(world.states(), []);
});

test('storage attached for no pod is unmounted and detached; storage that a pod uses is not touched', async (t) => {
  const loop = new ScriptedPlugin({ kind: 'attachable', byNodeAlone: true });
  for (const name of ['d1', 'd2']) {
    loop.attached.add(name);
    loop.devices.add(`/plugins/${name}`);
  }
  const podsOnDisk = new FakePodsOnDisk();
  podsOnDisk.leave('web', diskName, 'd2');
  loop.mounted.add(volumeDirectory('/root', 'web', diskName, 'd2'));
  const world = new VolumeWorld(t, { plugins: [loop], deps: { podsOnDisk } });
  world.claims.bind('d2');
  world.pods.put(podUsing('web', [claimVolume('data', 'd2')]));
  await world.start();
  assert.deepEqual(world.states(), ['web/d2: mounted']);
  assert.deepEqual([...loop.attached], ['d2']);
  assert.deepEqual(
    loop.calls.filter((call) => call.endsWith('d1')),
    ['unmountDevice d1', 'detach d1'],
  );
  await world.remove('web');
  assert.deepEqual([[...loop.attached], [...loop.devices], [...loop.mounted]], [[], [], []]);
  assert.deepEqual(loop.violations, []);
});

test('storage that was attached and that a pod wants is mounted, not detached', async (t) => {
  const loop = new ScriptedPlugin({ kind: 'attachable', byNodeAlone: true });
  loop.attached.add('d1');
  const world = new VolumeWorld(t, { plugins: [loop], deps: { podsOnDisk: new FakePodsOnDisk() } });
  world.claims.bind('d1');
  world.pods.put(podUsing('web', [claimVolume('data', 'd1')]));
  await world.start();
  assert.deepEqual(world.states(), ['web/d1: mounted']);
  assert.equal(loop.count('detach'), 0);
});

test('the sweep follows the unmounts: at the end no directory of a deleted pod is left', async (t) => {
  const world = await restarted(t, [['gone', plainName, 'data']], {
    before: ({ pods }) => pods.terminated.add('gone'),
  });
  assert.deepEqual([...world.directories.trees.keys()], []);
});

test('a node that is stopped while it looks through its disk stops, and has unmounted nothing', async (t) => {
  const podsOnDisk = new FakePodsOnDisk();
  for (let pod = 0; pod < 200; pod += 1) podsOnDisk.leave(`gone-${pod}`, plainName, 'data');
  const world = new VolumeWorld(t, { deps: { podsOnDisk } });
  const stop = new AbortController();
  const running = world.manager.run(stop.signal);
  stop.abort(new Error('the node stops'));
  await running;
  assert.deepEqual(world.plain.calls, []);
});
