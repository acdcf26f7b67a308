/** What a driver outside this program needs of the manager: its own entry in the directory, and answers for each source. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Volume } from '../kube/kinds/pod/volume.ts';
import type { VolumeSpec } from '../kube/references/volume-spec.ts';
import type { VolumePlugin } from '../plugins/plugin.ts';
import { ScriptedPlugin } from '../testing/fakes/scripted-plugin.ts';
import { FakePodsOnDisk, VolumeWorld, claimVolume, podUsing } from '../testing/worlds/volume-world.ts';
import { asPodUid, asVolumeName } from './volume-name.ts';

const diskName = asVolumeName('example.com/disk/disk');
const place = '/root/pods/web/volumes/example.com~disk';

/** For claims, mounted once for all pods, and for volumes that are written in the pod, which have no device. */
function driver(): ScriptedPlugin {
  const plugin = new ScriptedPlugin({ kind: 'device', contentName: 'mount' });
  plugin.sourceOf = ({ volume, persistentVolume }) => volume?.csi ?? persistentVolume?.spec.csi;
  Object.assign(plugin.deviceMount ?? {}, { appliesTo: (_: unknown, spec: VolumeSpec) => spec.volume === undefined });
  return plugin;
}

function inline(name: string, volumeAttributes = {}): Volume {
  return { name, csi: { driver: 'example.com', volumeAttributes } };
}

test('containers get the entry that the driver made; setting up and tearing down get the directory around it', async (t) => {
  const plugin = driver();
  const world = new VolumeWorld(t, { plugins: [plugin] });
  world.claims.bind('disk');
  await world.start();
  await world.put(podUsing('web', [claimVolume('data', 'disk'), inline('scratch')]));
  const mounted = world.manager.queries.mountedVolumesOf(asPodUid('web'));
  assert.deepEqual(
    [mounted.get('data')?.path, mounted.get('scratch')?.path],
    [`${place}/disk/mount`, `${place}/scratch/mount`],
  );
  assert.deepEqual([...plugin.mounted].sort(), [`${place}/disk`, `${place}/scratch`]);

  world.claims.bind('disk', { capacity: { storage: '2Gi' } });
  world.manager.podChanged(asPodUid('web'));
  await world.manager.waitForMounted(podUsing('web', [claimVolume('data', 'disk')]), new AbortController().signal);
  await world.settle();
  assert.deepEqual(
    plugin.expansions.map(({ directory, deviceMountPath }) => [directory, deviceMountPath]),
    [[`${place}/disk/mount`, '/plugins/disk']],
  );
  await world.remove('web');
  assert.deepEqual([[...plugin.mounted], plugin.violations], [[], []]);
});

test('a source that has no device is a volume of its pod alone, also after a restart', async (t) => {
  const plugin = driver();
  plugin.reconstruct = (name) => ({ volume: inline(name), readOnly: false });
  const podsOnDisk = new FakePodsOnDisk();
  podsOnDisk.leave('gone', plugin.name, 'scratch');
  const world = new VolumeWorld(t, { plugins: [plugin], deps: { podsOnDisk } });
  world.pods.terminated.add('gone');
  await world.start();
  for (const uid of ['web', 'api']) await world.put(podUsing(uid, [inline('scratch')]));
  assert.deepEqual(plugin.calls, ['tearDown gone/scratch', 'setUp web/scratch', 'setUp api/scratch']);
  const names = world.manager.queries.statuses().map(({ volume }) => volume);
  assert.deepEqual(names, ['example.com/disk/web-scratch', 'example.com/disk/api-scratch']);
  await world.remove('web', 'api');
  assert.equal(plugin.count('unmountDevice'), 0);
});

test('only a source that follows something is set up again, as it says now', async (t) => {
  const plugin = driver();
  const followed = new Set<unknown>();
  const follows: NonNullable<VolumePlugin['follows']> = (source) => (followed.has(source) ? [] : undefined);
  Object.assign(plugin, { follows });
  const [once, again] = [inline('once'), inline('again')];
  followed.add(again.csi);
  const world = new VolumeWorld(t, { plugins: [plugin] });
  await world.start();
  const pod = podUsing('web', [once, again]);
  await world.put(pod);
  await world.advance(60_001);
  const calls = (name: string): number => plugin.calls.filter((call) => call === `setUp web/${name}`).length;
  assert.deepEqual([calls('once'), calls('again')], [1, 2]);
  // The object of its driver was changed: the same source gives another answer.
  followed.add(once.csi);
  await world.manager.waitForMounted(pod, new AbortController().signal);
  await world.settle();
  assert.deepEqual([calls('once'), calls('again')], [2, 3]);
  await world.advance(60_001);
  assert.deepEqual([calls('once'), calls('again')], [3, 4]);
});

test('storage that was staged for a pod that never got it is released at the next start, and waits for no controller', async (t) => {
  const plugin = driver();
  Object.assign(plugin, { leftBehind: () => [plugin.reconstruct('disk')] });
  plugin.devices.add('/plugins/disk');
  const world = new VolumeWorld(t, { plugins: [plugin], deps: { podsOnDisk: new FakePodsOnDisk() } });
  await world.start();
  assert.deepEqual([plugin.calls, [...plugin.devices]], [['unmountDevice disk'], []]);
  assert.equal(world.manager.queries.isAttached(diskName), false);
});
