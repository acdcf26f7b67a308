import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import { PluginRegistry } from '../plugins/registry.ts';
import { ScriptedPlugin, storageSpec } from '../testing/fakes/scripted-plugin.ts';
import { ActualState, type MountRecord } from './actual-state.ts';
import { type MountId, type VolumeName, asPodUid, asVolumeName } from './volume-name.ts';

const disk = storageSpec('disk');
const volume = asVolumeName('example.com/disk/disk');
const unknown = asVolumeName('example.com/disk/unknown');
const [one, two] = [asPodUid('one'), asPodUid('two')];
const noVolume = 'no volume with the name "example.com/disk/unknown" exists in the list of attached volumes';

function world(): { state: ActualState; changed: string[] } {
  const changed: string[] = [];
  const { registry } = PluginRegistry.of([new ScriptedPlugin({ kind: 'attachable' }), new ScriptedPlugin()]);
  return { state: new ActualState(registry, (podUid) => void changed.push(podUid)), changed };
}

const record = (podUid = one, name: VolumeName = volume, revision = 1): MountRecord => ({
  volume: name,
  podUid,
  spec: disk,
  pluginName: 'example.com/disk',
  gid: '',
  revision,
});
const id = (podUid = one, name: VolumeName = volume): MountId => ({ volume: name, podUid });

function attached(): ReturnType<typeof world> {
  const made = world();
  made.state.attached({ volume, spec: disk, devicePath: '/dev/a' });
  return made;
}

test('a volume that was just attached has no pods and no mounted device', () => {
  const { state } = attached();
  const entry = state.volume(volume);
  assert.equal(entry?.mounts.size, 0);
  assert.equal(entry?.device, 'not-mounted');
  assert.equal(entry?.attachable, 'yes');
});

test('a name that is given wins over the one the plugin has', () => {
  const { state } = world();
  const given = asVolumeName('example.com/disk/given');
  assert.equal(state.attached({ volume: given, spec: disk, devicePath: '' }), given);
  assert.equal(state.volume(volume), undefined);
  assert.equal(state.attached({ spec: disk, devicePath: '' }), volume);
});

test('attaching again changes the device path alone', () => {
  const { state } = attached();
  state.deviceMounted(volume, '', '/mnt');
  state.attached({ volume, spec: storageSpec('other'), devicePath: '/dev/b' });
  const { spec, device, devicePath } = state.volume(volume) ?? {};
  assert.deepEqual([spec, device, devicePath], [disk, 'mounted', '/dev/b']);
});

test('a pod is not added to an unknown volume', () => {
  const { state, changed } = world();
  assert.throws(() => state.mounted(record(one, unknown)), { message: noVolume });
  assert.throws(() => state.uncertain(record(one, unknown)), { message: noVolume });
  assert.throws(() => state.unmounted(id(one, unknown)), { message: noVolume });
  assert.throws(() => state.deviceMounted(unknown, '', ''), { message: noVolume });
  assert.deepEqual([...state.volumes()], []);
  assert.deepEqual([changed, state.possiblyMountedOf(one)], [[], []]);
});

test('the same pod twice is one mount, and the device path stays', () => {
  const { state } = attached();
  state.mounted(record());
  state.mounted(record(one, volume, 2));
  assert.equal(state.volume(volume)?.mounts.size, 1);
  assert.equal(state.mount(id())?.revision, 2);
  assert.equal(state.volume(volume)?.devicePath, '/dev/a');
});

test('mounted elsewhere is true for each of two pods and for none of one', () => {
  const { state } = attached();
  state.mounted(record());
  assert.deepEqual([state.isMountedElsewhere(id()), state.isMountedElsewhere(id(two))], [false, true]);
  state.uncertain(record(two));
  assert.deepEqual([state.isMountedElsewhere(id()), state.isMountedElsewhere(id(two))], [true, true]);
});

for (const how of ['mounted', 'uncertain'] as const) {
  test(`a volume with a pod that has it ${how} is not detached`, () => {
    const { state } = attached();
    state[how](record());
    assert.throws(() => state.remove(volume), {
      message: 'failed to DeleteVolume "example.com/disk/disk", it still has 1 mountedPods',
    });
    assert.equal(state.volume(volume)?.mounts.size, 1);
    state.unmounted(id());
    state.remove(volume);
    state.remove(volume);
    assert.equal(state.volume(volume), undefined);
  });
}

test('a mounted device without pods is both', () => {
  const { state } = attached();
  state.deviceMounted(volume, '/dev/b', '/mnt');
  const { device, devicePath, deviceMountPath, mounts } = state.volume(volume) ?? {};
  assert.deepEqual([device, devicePath, deviceMountPath, mounts?.size], ['mounted', '/dev/b', '/mnt', 0]);
});

test('an uncertain mount is possibly mounted, not mounted, and not gone', () => {
  const { state, changed } = attached();
  state.mounted(record());
  state.uncertain(record());
  assert.deepEqual(state.mountedOf(one), []);
  assert.equal(state.possiblyMountedOf(one).length, 1);
  assert.equal(state.mountState(id()), 'uncertain');
  assert.equal(state.mountState(id(two)), 'not-mounted');
  assert.equal(state.hasSpecName(one, 'disk'), true);
  assert.deepEqual(changed, ['one', 'one']);
});

for (const { how, act, deviceToo } of [
  { how: 'mounting', act: (state: ActualState) => state.mounted(record()), deviceToo: true },
  { how: 'unmounting', act: (state: ActualState) => state.unmounted(id()), deviceToo: true },
  {
    how: 'detaching',
    act(state: ActualState) {
      state.unmounted(id());
      state.remove(volume);
    },
    deviceToo: false,
  },
]) {
  test(`${how} takes away the mark of what was found on disk`, () => {
    const { state } = world();
    state.foundAttached({ volume, spec: disk, devicePath: '' });
    assert.equal(state.foundMounted(record()), true);
    assert.equal(state.foundMounted(record()), false, 'it is no news twice');
    assert.equal(state.isReconstructed(id()), true);
    act(state);
    assert.equal(state.isReconstructed(id()), false);
    assert.equal(state.isDeviceReconstructed(volume), deviceToo);
  });
}

for (const answer of [true, false]) {
  test(`uncertain attachability becomes ${answer ? 'yes' : 'no'} once and for all`, () => {
    const { state } = world();
    state.foundAttached({ volume, spec: disk, devicePath: '' });
    assert.equal(state.volume(volume)?.attachable, 'uncertain');
    state.resolveAttachable(volume, answer);
    state.resolveAttachable(volume, !answer);
    assert.equal(state.volume(volume)?.attachable, answer ? 'yes' : 'no');
  });
}

test('unmounting a device keeps the path of the device', () => {
  const { state } = attached();
  state.deviceMounted(volume, '/dev/b', '/mnt');
  state.deviceUnmounted(volume);
  const { device, devicePath, deviceMountPath } = state.volume(volume) ?? {};
  assert.deepEqual([device, devicePath, deviceMountPath], ['not-mounted', '/dev/b', '']);
});

test('a found device takes its path from the node status only while it is uncertain', () => {
  const { state } = world();
  state.foundAttached({ volume, spec: disk, devicePath: '' });
  state.resolveDevicePath(volume, '/dev/early');
  assert.equal(state.volume(volume)?.devicePath, '');
  state.deviceUncertain(volume, '', '/mnt');
  state.resolveDevicePath(volume, '/dev/b');
  assert.equal(state.volume(volume)?.devicePath, '/dev/b');
});

test('nothing is found in a volume that is not listed, or by a pod that is', () => {
  const { state } = world();
  assert.equal(state.foundMounted(record()), false);
  state.attached({ volume, spec: disk, devicePath: '' });
  state.mounted(record());
  assert.equal(state.foundMounted(record()), false);
  assert.equal(state.mountState(id()), 'mounted');
});

test('what is mounted keeps its facts; what was uncertain gets new ones', () => {
  const { state } = attached();
  state.mounted({ ...record(), gid: '1' });
  state.mounted({ ...record(), gid: '2' });
  assert.equal(state.mount(id())?.gid, '1');
  state.uncertain({ ...record(), gid: '2' });
  state.mounted({ ...record(), gid: '3' });
  assert.equal(state.mount(id())?.gid, '3');
});

test('a size is initialised once and changed by growing; growing in use can be refused for good', () => {
  const { state } = attached();
  state.initializeSize(volume, 1n);
  state.initializeSize(volume, 2n);
  assert.equal(state.sizeOf(volume), 1n);
  assert.equal(state.resized(volume, 3n), true);
  assert.equal(state.sizeOf(volume), 3n);
  assert.equal(state.resized(unknown, 3n), false);
  assert.equal(state.sizeOf(unknown), 0n);
  state.refuseExpansionInUse(volume);
  assert.equal(state.volume(volume)?.refusesExpansionInUse, true);
  state.addFinalExpansionError(volume);
  assert.equal(state.hasFinalExpansionError(volume), true);
  state.removeFinalExpansionError(volume);
  assert.equal(state.hasFinalExpansionError(volume), false);
});

test('a volume that no plugin knows is not listed', () => {
  const { state } = world();
  assert.throws(() => state.attached({ volume, spec: inlineSpec({ name: 'x' }), devicePath: '' }), {
    message: 'failed to get Plugin from volumeSpec for volume "x" err=no volume plugin matched',
  });
});
