import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { ConfigMapVolumeSource, ProjectedVolumeSource } from '../kube/kinds/pod/volume.ts';
import { type VolumeSpec, inlineSpec } from '../kube/references/volume-spec.ts';
import type { Follow } from '../plugins/plugin.ts';
import { PluginRegistry } from '../plugins/registry.ts';
import { aPod } from '../testing/fakes/builders.ts';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { ScriptedPlugin, storageSpec } from '../testing/fakes/scripted-plugin.ts';
import { DesiredState } from './desired-state.ts';
import { type MountId, type VolumeName, asPodUid, asVolumeName, podUidOf } from './volume-name.ts';

const configMaps = new ScriptedPlugin({
  name: 'kubernetes.io/configmap',
  follows(source) {
    const { name, sources = [] } = source as ConfigMapVolumeSource & ProjectedVolumeSource;
    if (name !== undefined) return [{ object: { kind: 'ConfigMap', name } }];
    return sources.flatMap(({ configMap, secret, downwardAPI }): Follow[] => {
      if (configMap !== undefined) return [{ object: { kind: 'ConfigMap', name: configMap.name } }];
      if (secret !== undefined) return [{ object: { kind: 'Secret', name: secret.name } }];
      return downwardAPI === undefined ? [] : [{ pod: 'labels' }];
    });
  },
});
Object.assign(configMaps, { sourceOf: ({ volume }: VolumeSpec) => volume?.configMap ?? volume?.projected });

class World {
  readonly clock = new FakeClock();
  readonly touched: string[] = [];
  readonly state: DesiredState;

  constructor() {
    const plugins = [new ScriptedPlugin(), new ScriptedPlugin({ kind: 'attachable' }), configMaps, emptyDirs];
    const { registry } = PluginRegistry.of(plugins);
    this.state = new DesiredState({
      plugins: registry,
      now: () => this.clock.now(),
      touched: ({ volume, podUid }) => void this.touched.push(`${volume}@${podUid}`),
      inUseChanged: () => {},
    });
  }

  want(pod: Pod, spec: VolumeSpec, podVolumeName = 'data', gid = ''): VolumeName {
    return this.state.want({ pod, spec, podVolumeName, gid });
  }
}

const emptyDirs = new ScriptedPlugin({ name: 'kubernetes.io/empty-dir' });
Object.assign(emptyDirs, { sourceOf: ({ volume }: VolumeSpec) => volume?.emptyDir });

const pod = (uid: string, parts: Parameters<typeof aPod>[0] = {}): Pod =>
  aPod({ ...parts, metadata: { name: uid, uid, ...parts.metadata } });
const plain = (name = 'data'): VolumeSpec => inlineSpec({ name, csi: { driver: 'example.com' } });
const one = pod('one');
const two = pod('two');
const idOf = (volume: VolumeName, of: Pod): MountId => ({ volume, podUid: podUidOf(of) });

test('a volume that is wanted is visible in every query, and is not reported in use', () => {
  const { state, touched, ...world } = new World();
  const volume = state.want({ pod: one, spec: storageSpec('disk'), podVolumeName: 'data', gid: '777' });
  assert.equal(volume, 'example.com/disk/disk');
  assert.equal(state.volume(volume)?.isReportedInUse, false);
  assert.equal(state.volume(volume)?.gid, '777');
  assert.equal(state.mount(idOf(volume, one))?.requestedAt, world.clock.now());
  assert.equal(state.hasSpecName(podUidOf(one), 'disk'), true);
  assert.deepEqual([...state.pods()], ['one']);
  assert.deepEqual(
    state.mountsOf(podUidOf(one)).map((mount) => mount.volume),
    [volume],
  );
  assert.deepEqual(touched, ['example.com/disk/disk@one']);
});

test('asking twice gives one entry, one outer name and the old revision', () => {
  const world = new World();
  const first = world.want(one, plain());
  const revision = world.state.mount(idOf(first, one))?.revision;
  const newer = { ...one, metadata: { ...one.metadata, labels: { tier: 'gold' } } };
  assert.equal(world.want(newer, plain()), first);
  const mount = world.state.mount(idOf(first, one));
  assert.deepEqual(mount?.podVolumeNames, ['data']);
  assert.equal(mount?.revision, revision);
  assert.equal(mount?.pod, newer, 'pod and spec are the newest');
  assert.equal(world.state.mountsOf(podUidOf(one)).length, 1);
});

test('pods share storage by its name, and never a volume of their own', () => {
  const world = new World();
  assert.equal(world.want(one, storageSpec('disk')), world.want(two, storageSpec('disk')));
  assert.equal(world.want(one, plain()), 'example.com/plain/one-data');
  assert.equal(world.want(two, plain()), 'example.com/plain/two-data');
});

test('two outer names of one disk are one volume with both names, of this pod alone', () => {
  const world = new World();
  const volume = world.want(one, storageSpec('disk'), 'first');
  world.want(one, storageSpec('disk'), 'second');
  world.want(two, plain(), 'other');
  assert.deepEqual(world.state.mount(idOf(volume, one))?.podVolumeNames, ['first', 'second']);
  assert.deepEqual(
    [...world.state.namesOf(podUidOf(one))],
    [
      ['first', volume],
      ['second', volume],
    ],
  );
});

test('with its last pod a volume is gone from every query', () => {
  const world = new World();
  const volume = world.want(one, storageSpec('disk'));
  world.want(two, storageSpec('disk'));
  world.state.forget(idOf(volume, one));
  assert.deepEqual([...(world.state.volume(volume)?.mounts.keys() ?? [])], ['two']);
  world.touched.length = 0;
  world.state.forget(idOf(volume, two));
  assert.equal(world.state.volume(volume), undefined);
  assert.deepEqual([...world.state.volumes()], []);
  assert.deepEqual([...world.state.pods()], []);
  assert.equal(world.state.hasSpecName(podUidOf(two), 'disk'), false);
  assert.deepEqual(world.touched, [`${volume}@two`]);
  world.state.forget(idOf(volume, two));
});

test('reporting is exclusive, and names of unwanted volumes are ignored', () => {
  const world = new World();
  const [a, b] = [world.want(one, storageSpec('a'), 'a'), world.want(one, storageSpec('b'), 'b')];
  const reported = (): readonly (boolean | undefined)[] =>
    [a, b].map((name) => world.state.volume(name)?.isReportedInUse);
  world.state.markReportedInUse(new Set([a, 'unknown']));
  assert.deepEqual(reported(), [true, false]);
  world.state.markReportedInUse(new Set([b]));
  assert.deepEqual(reported(), [false, true]);
});

test('errors of a pod are reported once, sorted, without duplicates, eleven at most', () => {
  const { state } = new World();
  const uid = podUidOf(one);
  for (const text of ['b', 'a', 'b']) state.addError(uid, text);
  assert.deepEqual([...state.podsWithErrors()], ['one']);
  assert.deepEqual(state.popErrors(uid), ['a', 'b']);
  assert.deepEqual(state.popErrors(uid), []);
  for (let index = 0; index < 20; index += 1) state.addError(uid, `error ${index}`);
  assert.equal(state.popErrors(uid).length, 11);
});

test('forgetting a volume drops the errors of its pod, also when the volume is unknown', () => {
  const { state } = new World();
  state.addError(podUidOf(one), 'old');
  state.forget({ volume: asVolumeName('unknown'), podUid: podUidOf(one) });
  assert.deepEqual(state.popErrors(podUidOf(one)), []);
});

test('a volume of no plugin, or without a name, is refused in the kubelet words', () => {
  const world = new World();
  assert.throws(() => world.want(one, inlineSpec({ name: 'x' })), {
    message: 'failed to get Plugin from volumeSpec for volume "x" err=no volume plugin matched',
  });
  assert.throws(() => world.want(one, storageSpec('')), {
    message:
      /^failed to GetUniqueVolumeNameFromSpec for volumeSpec "" using volume plugin "example.com\/disk" err=failed to GetVolumeName from volumePlugin for volumeSpec "" err=/,
  });
});

test('a refresh takes a new revision of one mount alone', () => {
  const world = new World();
  const volume = world.want(one, plain());
  const config = world.want(one, inlineSpec({ name: 'cfg', configMap: { name: 'web' } }), 'cfg');
  const revisions = (): readonly (number | undefined)[] =>
    [volume, config].map((name) => world.state.mount(idOf(name, one))?.revision);
  assert.deepEqual(revisions(), [1, 2]);
  world.state.refresh(idOf(volume, one));
  assert.deepEqual(revisions(), [3, 2]);
  world.state.refresh(idOf(volume, two));
  assert.deepEqual(revisions(), [3, 2]);
});

test('an object leads to exactly the mounts that show it', () => {
  const world = new World();
  const cfg = inlineSpec({ name: 'cfg', configMap: { name: 'web' } });
  const projected = inlineSpec({
    name: 'all',
    projected: { sources: [{ configMap: { name: 'web' } }, { secret: { name: 'tls' } }] },
  });
  const [a, b] = [world.want(one, cfg, 'cfg'), world.want(two, projected, 'all')];
  world.want(pod('three', { metadata: { namespace: 'other' } }), cfg, 'cfg');
  const showing = (kind: 'ConfigMap' | 'Secret', name: string): readonly VolumeName[] =>
    world.state.mountsFollowing({ kind, namespace: 'shop', name }).map(({ volume }) => volume);
  assert.deepEqual(showing('ConfigMap', 'web'), [a, b]);
  assert.deepEqual(showing('Secret', 'tls'), [b]);
  assert.deepEqual(showing('Secret', 'web'), []);
  world.state.forget(idOf(a, one));
  assert.deepEqual(showing('ConfigMap', 'web'), [b]);
});

test('what changed is remembered until it was shown, the newest few of many', () => {
  const world = new World();
  const id = idOf(world.want(one, plain()), one);
  const object = { kind: 'ConfigMap', namespace: 'shop', name: 'web' } as const;
  for (let seenAt = 1; seenAt <= 10; seenAt += 1) world.state.refresh(id, { object, seenAt });
  const { changes = [] } = world.state.mount(id) ?? {};
  assert.deepEqual(
    changes.map(({ seenAt }) => seenAt),
    [3, 4, 5, 6, 7, 8, 9, 10],
  );
  world.state.refresh(id, { object, seenAt: 11 });
  world.state.shown(id, changes);
  assert.deepEqual(
    world.state.mount(id)?.changes.map(({ seenAt }) => seenAt),
    [11],
  );
});

test('a changed pod refreshes the volumes that show it, and those alone', () => {
  const world = new World();
  const podInfo = { name: 'info', projected: { sources: [{ downwardAPI: { items: [] } }] } };
  const config = { name: 'cfg', configMap: { name: 'web' } };
  const before = pod('one', { volumes: [podInfo, config] });
  const info = world.want(before, inlineSpec(podInfo), 'info');
  const cfg = world.want(before, inlineSpec(config), 'cfg');
  const revisions = (): readonly (number | undefined)[] =>
    [info, cfg].map((name) => world.state.mount(idOf(name, one))?.revision);
  world.state.updatePod({ ...before, status: { phase: 'Running' } });
  assert.deepEqual(revisions(), [1, 2]);
  const labelled = { ...before, metadata: { ...before.metadata, labels: { tier: 'gold' } } };
  world.touched.length = 0;
  world.state.updatePod(labelled);
  assert.deepEqual(revisions(), [3, 2]);
  assert.deepEqual(world.touched, [`${info}@one`]);
  assert.equal(world.state.mount(idOf(cfg, one))?.pod, labelled);
});

test('the volume keeps its name when its plugin no longer attaches it', () => {
  const world = new World();
  const volume = world.want(one, storageSpec('disk'));
  world.state.setAttachable(volume, false);
  assert.equal(world.state.volume(volume)?.isAttachable, false);
  assert.equal(world.state.volume(volume)?.isDeviceMountable, true);
});

test('a size that grows touches the pods of the volume, one that stays does not', () => {
  const world = new World();
  const volume = world.want(one, storageSpec('disk', { capacity: { storage: '1Gi' } }));
  assert.equal(world.state.volume(volume)?.sizeBytes, 1024n ** 3n);
  world.touched.length = 0;
  world.state.setSize(volume, 1024n ** 3n, 0n);
  assert.deepEqual(world.touched, []);
  world.state.setSize(volume, 2n * 1024n ** 3n, 0n);
  assert.deepEqual(world.touched, [`${volume}@one`]);
  world.state.setSize(asVolumeName('unknown'), 1n, 0n);
  assert.deepEqual([...world.state.pods()], [asPodUid('one')]);
});
