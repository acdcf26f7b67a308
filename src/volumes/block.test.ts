/** Raw block devices through the whole manager, with a scripted plugin and machine. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import { ScriptedBlockMapper } from '../testing/fakes/scripted-block-mapper.ts';
import { ScriptedError, ScriptedPlugin, type ScriptedPluginSettings } from '../testing/fakes/scripted-plugin.ts';
import { VolumeWorld, claimVolume, podUsing, podWithDevices } from '../testing/worlds/volume-world.ts';
import { asPodUid, asVolumeName } from './volume-name.ts';

const diskName = asVolumeName('example.com/disk/disk');
const mapPath = '/plugins/volumeDevices/disk';

class BlockWorld extends VolumeWorld {
  readonly plugin: ScriptedPlugin;
  readonly mapper: ScriptedBlockMapper;

  constructor(t: TestContext, plugin: ScriptedPlugin) {
    const mapper = new ScriptedBlockMapper(plugin.calls);
    super(t, { plugins: [plugin], deps: { blockMapper: mapper } });
    this.plugin = plugin;
    this.mapper = mapper;
  }

  failures(): readonly string[] {
    return this.notices.flatMap((notice) => (notice.kind === 'OperationFailed' ? [notice.error.message] : []));
  }

  /** Everything is over: nothing is listed, mapped or called in a wrong way. */
  assertGone(): void {
    assert.deepEqual(this.states(), []);
    assert.deepEqual(this.mapper.left(), []);
    assert.deepEqual([...this.plugin.devices], []);
    assert.deepEqual(this.plugin.violations, []);
    assert.equal(this.manager.queries.isAttached(diskName), false);
  }
}

interface WorldParts extends ScriptedPluginSettings {
  readonly volume?: Partial<PersistentVolume['spec']>;
}

async function started(t: TestContext, parts: WorldParts = {}): Promise<BlockWorld> {
  const { volume = {}, ...settings } = parts;
  const world = new BlockWorld(t, new ScriptedPlugin({ kind: 'device', block: 'scripted', ...settings }));
  world.claims.bind('disk', { volumeMode: 'Block', ...volume });
  await world.start();
  return world;
}

const pod = (uid: string, readOnly = false) => podWithDevices(uid, [claimVolume('data', 'disk', readOnly)]);

const life = [
  'setUpDevice disk',
  'mapPodDevice web/disk',
  'map web',
  'unmap web',
  'unmapPodDevice web/disk',
  'tearDownDevice disk',
  'remove',
];

test('a raw device is mapped and taken away again, each step exactly once', async (t) => {
  const world = await started(t);
  await world.put(pod('web'));
  assert.deepEqual(world.states(), ['web/disk: mounted']);
  assert.deepEqual([...world.mapper.binds], [[`${mapPath}/web`, '/dev/disk']]);
  assert.deepEqual([...world.mapper.links], [['/root/pods/web/volumeDevices/example.com~disk/disk', '/dev/disk']]);
  assert.deepEqual(world.events(), [
    'SuccessfulMountVolume: MapVolume.MapPodDevice succeeded for volume "disk" globalMapPath "/plugins/volumeDevices/disk"',
    'SuccessfulMountVolume: MapVolume.MapPodDevice succeeded for volume "disk" volumeMapPath "/root/pods/web/volumeDevices/example.com~disk"',
  ]);
  await world.remove('web');
  assert.deepEqual(world.plugin.calls, life);
  world.assertGone();
  const told = world.notices.flatMap((notice) => (notice.kind === 'VolumeUnmounted' ? [notice.message] : []));
  assert.deepEqual(told, [
    'UnmapVolume succeeded for volume "example.com/disk/disk" pod "web" (UID: "web"). InnerVolumeSpecName "disk". PluginName "example.com/disk", VolumeGIDValue ""',
  ]);
});

test('where only the node can attach, a raw device is attached first and detached last', async (t) => {
  const world = await started(t, { kind: 'attachable', byNodeAlone: true });
  await world.put(pod('web'));
  await world.remove('web');
  assert.deepEqual(world.plugin.calls, ['attach disk', 'waitForAttach disk', ...life, 'detach disk']);
  world.assertGone();
});

test('where a controller attaches, the node neither attaches nor detaches', async (t) => {
  const world = await started(t, { kind: 'attachable' });
  await world.put(pod('web'));
  assert.deepEqual(world.plugin.calls, []);
  world.node = { ...world.node, status: { volumesAttached: [{ name: diskName, devicePath: '/dev/by-id/disk-7' }] } };
  world.plugin.script('setUpDevice', new ScriptedError('final', 'not this one'));
  world.manager.markReportedInUse([diskName]);
  world.manager.nodeChanged();
  await world.settle();
  await world.advance(1_000);
  assert.deepEqual(world.states(), ['web/disk: mounted']);
  await world.remove('web');
  assert.deepEqual(world.plugin.calls, ['waitForAttach disk', 'setUpDevice disk', 'waitForAttach disk', ...life]);
  world.assertGone();
});

test('the device of an attached volume is the one it was attached as, behind links', async (t) => {
  const block = {
    globalMapPathOf: () => mapPath,
    reconstruct: () => undefined,
  };
  const world = await started(t, { kind: 'attachable', block });
  world.node = { ...world.node, status: { volumesAttached: [{ name: diskName, devicePath: '/dev/by-id/disk-7' }] } };
  await world.put(pod('web'));
  world.manager.markReportedInUse([diskName]);
  await world.settle();
  assert.deepEqual([...world.mapper.binds], [[`${mapPath}/web`, '/dev/disk-7']]);
  world.openDevices.add('/dev/disk-7');
  await world.remove('web');
  assert.deepEqual(world.plugin.calls, ['waitForAttach disk', 'map web', 'unmap web', 'remove']);
  assert.deepEqual(world.failures(), [
    'UnmapDevice failed for volume "disk" (UniqueName: "example.com/disk/disk") on node "node-1" : the device is in use when it was no longer expected to be in use',
  ]);
  world.openDevices.clear();
  await world.advance(1_000);
  world.assertGone();
});

const nil = 'failed to find BlockVolumeMapper plugin. Volume plugin is nil. for volume';
const onPod = '"disk" (UniqueName: "example.com/disk/disk") pod "web" (UID: "web") ';

test('a kind without raw devices is reported in the kubelet’s words', async (t) => {
  const world = await started(t, { kind: 'attachable', byNodeAlone: true });
  const { block } = world.plugin;
  Reflect.deleteProperty(world.plugin, 'block');
  await world.put(pod('web'));
  assert.deepEqual(world.failures(), [`MapVolume.FindMapperPluginBySpec ${nil} ${onPod}`]);
  assert.equal(world.events().at(-1), `FailedMapVolume: MapVolume.FindMapperPluginBySpec ${nil} "disk" `);
  assert.deepEqual(world.states(), ['web/disk: not-mounted']);

  Reflect.set(world.plugin, 'block', block);
  await world.advance(1_000);
  assert.deepEqual(world.states(), ['web/disk: mounted']);
  Reflect.deleteProperty(world.plugin, 'block');
  await world.remove('web');
  const onUnmap = onPod.replace('"disk"', '"example.com/disk/disk"');
  assert.equal(world.failures().at(-1), `UnmapVolume.FindMapperPluginByName ${nil} ${onUnmap}`);
  assert.deepEqual(world.states(), ['web/disk: mounted, unwanted']);

  Reflect.set(world.plugin, 'block', block);
  const teardown = world.plugin.hold('unmapPodDevice');
  await world.advance(1_000);
  await teardown.arrived;
  Reflect.deleteProperty(world.plugin, 'block');
  teardown.release();
  await world.settle();
  const onDevice = '"disk" (UniqueName: "example.com/disk/disk") on node "node-1" ';
  assert.equal(world.failures().at(-1), `UnmapDevice.FindMapperPluginByName ${nil} ${onDevice}`);
  assert.equal(world.plugin.count('detach'), 0);
  Reflect.set(world.plugin, 'block', block);
  await world.advance(10_000);
  world.assertGone();
});

test('two pods share a raw device, which stays until both are gone', async (t) => {
  const world = await started(t);
  await world.put(pod('web'), pod('api'));
  assert.deepEqual(world.states(), ['api/disk: mounted', 'web/disk: mounted']);
  assert.equal(world.plugin.count('setUpDevice'), 1);
  assert.deepEqual([...world.mapper.binds.values()], ['/dev/disk', '/dev/disk']);
  await world.remove('web');
  assert.equal(world.plugin.count('tearDownDevice'), 0);
  assert.deepEqual([...world.mapper.binds.keys()], [`${mapPath}/api`]);
  await world.remove('api');
  assert.equal(world.plugin.count('tearDownDevice'), 1);
  world.assertGone();
});

test('a raw device is mounted after the wait, in use, and offered to containers', async (t) => {
  const world = await started(t, { kind: 'attachable', byNodeAlone: true });
  world.pods.put(pod('web', true));
  await world.manager.waitForMounted(pod('web'), new AbortController().signal);
  assert.deepEqual(world.manager.queries.volumesInUse(), [diskName]);
  const offered = world.manager.queries.mountedVolumesOf(asPodUid('web')).get('data');
  assert.deepEqual(
    [offered?.mode, offered?.path, offered?.link, offered?.readOnly],
    ['Block', undefined, '/root/pods/web/volumeDevices/example.com~disk/disk', true],
  );
});

test('a file system given as a device is an error, not mapped and not in use', async (t) => {
  const world = await started(t, {
    kind: 'attachable',
    byNodeAlone: true,
    volume: { volumeMode: 'Filesystem' },
  });
  world.pods.put(pod('web'));
  await assert.rejects(world.manager.waitForMounted(pod('web'), new AbortController().signal), {
    message:
      'unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: ' +
      'volume data has volumeMode Filesystem, but is specified in volumeDevices',
  });
  assert.deepEqual([world.manager.queries.volumesInUse(), world.plugin.calls], [[], []]);
});

const uncertain = new ScriptedError('uncertain');
const final = new ScriptedError('final');
const transient = new ScriptedError('transient');

/** What is asked of the plugin after each history of device set-ups, when the pod is gone. */
const deviceMatrix = [
  { ends: [uncertain], tornDown: 1 },
  { ends: [final], tornDown: 0 },
  { ends: [transient], tornDown: 0 },
  { ends: [uncertain, final], tornDown: 0 },
  { ends: [uncertain, transient], tornDown: 1 },
];
for (const { ends, tornDown } of deviceMatrix) {
  const told = ends.map(({ failureClass }) => failureClass).join(', then ');
  test(`block: after ${told} the device is torn down ${tornDown} times`, async (t) => {
    const world = await started(t);
    world.plugin.script('setUpDevice', ...ends, ...Array.from({ length: 9 }, () => transient));
    await world.put(pod('web'));
    for (let tries = 1; tries < ends.length; tries += 1) await world.advance(tries * 1_000);
    assert.equal(world.plugin.count('setUpDevice'), ends.length);
    assert.equal(
      world.events().at(-1),
      `FailedMapVolume: MapVolume.SetUpDevice failed for volume "disk" : ${ends.at(-1)?.message}`,
    );
    await world.remove('web');
    await world.advance(10_000);
    assert.equal(world.plugin.count('tearDownDevice'), tornDown);
    assert.equal(world.plugin.count('unmapPodDevice'), 0);
    assert.deepEqual(world.states(), []);
    assert.equal(world.manager.queries.isAttached(diskName), false);
  });
}

const podMatrix = [
  { ends: [uncertain], unmapped: 1 },
  { ends: [final], unmapped: 0 },
  { ends: [transient], unmapped: 0 },
  { ends: [uncertain, final], unmapped: 0 },
  { ends: [uncertain, transient], unmapped: 1 },
];
for (const { ends, unmapped } of podMatrix) {
  const told = ends.map(({ failureClass }) => failureClass).join(', then ');
  test(`block: after ${told} the pod is unmapped ${unmapped} times, the device once`, async (t) => {
    const world = await started(t);
    world.plugin.script('mapPodDevice', ...ends, ...Array.from({ length: 9 }, () => transient));
    await world.put(pod('web'));
    for (let tries = 1; tries < ends.length; tries += 1) await world.advance(tries * 1_000);
    assert.equal(
      world.events().at(-1),
      `FailedMapVolume: MapVolume.MapPodDevice failed for volume "disk" : ${ends.at(-1)?.message}`,
    );
    await world.remove('web');
    await world.advance(10_000);
    assert.equal(world.plugin.count('unmapPodDevice'), unmapped);
    assert.equal(world.plugin.count('tearDownDevice'), 1);
    world.assertGone();
  });
}

const laterFailures = [
  { step: 'resolve', prefix: 'MapVolume.EvalHostSymlinks failed' },
  { step: 'map', prefix: 'MapVolume.MapBlockVolume failed' },
] as const;
for (const { step, prefix } of laterFailures) {
  test(`once the pod may have the device, a failure to ${step} leaves it uncertain, to be unmapped`, async (t) => {
    const world = await started(t);
    world.mapper.script(step, new Error('no such thing'));
    await world.put(pod('web'));
    assert.deepEqual(world.states(), ['web/disk: uncertain']);
    assert.equal(world.events().at(-1), `FailedMapVolume: ${prefix} for volume "disk" : no such thing`);
    await world.remove('web');
    assert.equal(world.plugin.count('unmapPodDevice'), 1);
    world.assertGone();
  });

  test(`a failure to ${step} is repaired by the next attempt`, async (t) => {
    const world = await started(t);
    world.mapper.script(step, new Error('no such thing'));
    await world.put(pod('web'));
    await world.advance(1_000);
    assert.deepEqual(world.states(), ['web/disk: mounted']);
    assert.equal(world.plugin.count('setUpDevice'), 1);
    await world.remove('web');
    world.assertGone();
  });
}

test('what an earlier attempt bound for the pod is not forgotten when a later one fails for good', async (t) => {
  const world = await started(t);
  world.mapper.script('map', new Error('half done'));
  world.plugin.script('mapPodDevice', undefined, ...Array.from({ length: 9 }, () => final));
  await world.put(pod('web'));
  await world.advance(1_000);
  assert.equal(world.plugin.count('mapPodDevice'), 2);
  assert.deepEqual(world.states(), ['web/disk: uncertain']);
  await world.remove('web');
  await world.advance(10_000);
  world.assertGone();
});

test('a device with an unknown path is refused', async (t) => {
  const world = await started(t, {
    block: { globalMapPathOf: () => mapPath, mapPodDevice: async () => '', reconstruct: () => undefined },
  });
  await world.put(pod('web'));
  assert.equal(
    world.events().at(-1),
    'FailedMapVolume: MapVolume failed for volume "disk" : device path of the volume is empty',
  );
  assert.deepEqual(world.states(), ['web/disk: uncertain']);
});

test('the path that a plugin gives a pod is the one that is mapped', async (t) => {
  const block = {
    globalMapPathOf: () => mapPath,
    setUpDevice: async () => '/staging',
    mapPodDevice: async () => '/dev/by-id/published',
    reconstruct: () => undefined,
  };
  const world = await started(t, { block });
  await world.put(pod('web'));
  assert.deepEqual([...world.mapper.binds.values()], ['/dev/published']);
});

test('storage for one pod alone is not mapped for a second one', async (t) => {
  const world = await started(t, { volume: { accessModes: ['ReadWriteOncePod'] } });
  await world.put(pod('web'));
  await world.put(pod('api'));
  assert.equal(
    world.events().at(-1),
    'FailedMapVolume: MapVolume.SetUpDevice failed for volume "disk" : volume uses the ReadWriteOncePod access mode and is already in use by another pod',
  );
  assert.deepEqual(world.states(), ['api/disk: not-mounted', 'web/disk: mounted']);
});

test('a volume of other nodes is refused with the Event of a mount', async (t) => {
  const zone = { key: 'zone', operator: 'In', values: ['b'] };
  const world = await started(t, {
    volume: { nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [zone] }] } } },
  });
  await world.put(pod('web'));
  assert.equal(
    world.events().at(-1),
    'FailedMount: MapVolume.NodeAffinity check failed for volume "disk" : no matching NodeSelectorTerms',
  );
  assert.deepEqual(world.plugin.calls, []);
});

test('a pod whose device cannot be unmapped keeps it as uncertain, and the device stays', async (t) => {
  const world = await started(t);
  await world.put(pod('web'));
  world.mapper.script('unmap', new Error('busy'));
  await world.remove('web');
  assert.deepEqual(world.states(), ['web/disk: uncertain, unwanted']);
  assert.deepEqual(world.failures(), [
    `UnmapVolume.UnmapBlockVolume failed for volume ${onPod.replace('"disk"', '"example.com/disk/disk"')}: busy`,
  ]);
  assert.equal(world.plugin.count('tearDownDevice'), 0);
  world.plugin.script('unmapPodDevice', new Error('stuck'));
  await world.advance(1_000);
  assert.match(world.failures().at(-1) ?? '', /^UnmapVolume\.UnmapPodDevice failed for volume .* : stuck$/);
  assert.deepEqual(world.states(), ['web/disk: uncertain, unwanted']);
  await world.advance(10_000);
  world.assertGone();
});

test('a pod that comes back while its device is half unmapped has it mapped again', async (t) => {
  const world = await started(t);
  await world.put(pod('web'));
  world.mapper.script('unmap', new Error('busy'));
  await world.remove('web');
  world.pods.terminated.clear();
  await world.put(pod('web'));
  await world.advance(1_000);
  assert.deepEqual(world.states(), ['web/disk: mounted']);
  await world.remove('web');
  world.assertGone();
});

test('a device with a bind mount elsewhere is not removed', async (t) => {
  const world = await started(t);
  await world.put(pod('web'));
  world.mapper.binds.set(`${mapPath}/stranger`, '/dev/disk');
  await world.remove('web');
  assert.deepEqual(world.failures(), [
    'UnmapDevice failed for volume "disk" (UniqueName: "example.com/disk/disk") on node "node-1" : ' +
      'the device "/plugins/volumeDevices/disk" is still referenced from other Pods [/plugins/volumeDevices/disk/stranger]',
  ]);
  assert.equal(world.plugin.count('tearDownDevice'), 0);
  world.mapper.binds.clear();
  await world.advance(1_000);
  world.assertGone();
});

const deviceFailures = [
  {
    it: 'cannot be looked at',
    prefix: 'UnmapDevice.GetDeviceBindMountRefs check failed',
    fail: (world: BlockWorld) => world.mapper.script('referencesBelow', new Error('no')),
  },
  {
    it: 'cannot be torn down',
    prefix: 'UnmapDevice.TearDownDevice failed',
    fail: (world: BlockWorld) => world.plugin.script('tearDownDevice', new Error('no')),
  },
  {
    it: 'leaves its directory',
    prefix: 'UnmapDevice.RemoveMapPath failed',
    fail: (world: BlockWorld) => world.mapper.script('remove', new Error('no')),
  },
];
for (const { it, prefix, fail } of deviceFailures) {
  test(`a device that ${it} is tried again`, async (t) => {
    const world = await started(t);
    await world.put(pod('web'));
    fail(world);
    await world.remove('web');
    assert.deepEqual(world.failures(), [
      `${prefix} for volume "disk" (UniqueName: "example.com/disk/disk") on node "node-1" : no`,
    ]);
    assert.equal(world.manager.queries.isAttached(diskName), true);
    await world.advance(1_000);
    world.assertGone();
  });
}

test('a device that is wanted again after it could not be torn down is set up again', async (t) => {
  const world = await started(t);
  await world.put(pod('web'));
  world.plugin.script('tearDownDevice', new Error('no'));
  await world.remove('web');
  await world.put(pod('api'));
  assert.deepEqual(world.states(), ['api/disk: mounted']);
  assert.equal(world.plugin.count('setUpDevice'), 2);
  await world.remove('api');
  world.assertGone();
});

test('a pod may have one volume as a device while another has a file system', async (t) => {
  const world = await started(t);
  world.claims.bind('files');
  await world.put(pod('web'), podUsing('api', [claimVolume('data', 'files')]));
  assert.deepEqual(world.states(), ['api/files: mounted', 'web/disk: mounted']);
  await world.remove('web', 'api');
  world.assertGone();
  assert.equal(world.plugin.count('unmountDevice'), 1);
});

/** How the next calls of each step end: as a plugin that does not always work. */
const pluginEnds = fc.array(fc.constantFrom(undefined, undefined, uncertain, transient, final), { maxLength: 3 });
const mapperEnds = fc.array(fc.constantFrom(undefined, new Error('no')), { maxLength: 3 });
const lives = fc.record({
  // A final failure would mean that nothing is there, also where taking it away had just failed.
  setUpDevice: pluginEnds.map((ends) => ends.filter((end) => end !== final)),
  mapPodDevice: pluginEnds,
  unmapPodDevice: pluginEnds,
  tearDownDevice: pluginEnds,
  resolve: mapperEnds,
  map: mapperEnds,
  unmap: mapperEnds,
  referencesBelow: mapperEnds,
  remove: mapperEnds,
  /** `+web` a pod comes, `-web` it goes, `~` some time passes. */
  steps: fc.array(fc.constantFrom('+web', '+api', '-web', '-api', '~'), { maxLength: 10 }),
});
const pluginSteps = ['setUpDevice', 'mapPodDevice', 'unmapPodDevice', 'tearDownDevice'] as const;
const mapperSteps = ['resolve', 'map', 'unmap', 'referencesBelow', 'remove'] as const;

test('whatever fails and whichever pods come and go, nothing of a raw device is left at the end', async (t) => {
  const check = fc.asyncProperty(lives, async ({ steps, ...ends }) => {
    const world = await started(t);
    for (const step of pluginSteps) world.plugin.script(step, ...ends[step]);
    for (const step of mapperSteps) world.mapper.script(step, ...ends[step]);
    const uids = new Map<string, string>();
    for (const [index, step] of steps.entries()) {
      const name = step.slice(1);
      if (step === '~') await world.advance(600);
      else if (step.startsWith('+') && !uids.has(name)) {
        uids.set(name, `${name}-${index}`);
        await world.put(pod(`${name}-${index}`));
      } else if (step.startsWith('-')) {
        await world.remove(uids.get(name) ?? 'nobody');
        uids.delete(name);
      }
    }
    await world.remove(...uids.values());
    for (let turns = 0; turns < 12; turns += 1) await world.advance(130_000);
    world.assertGone();
    await world.stop();
  });
  await fc.assert(check, { numRuns: 40 });
});
