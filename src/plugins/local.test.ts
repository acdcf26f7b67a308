import assert from 'node:assert/strict';
import { chownSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { Turns } from '../base/turns.ts';
import { systemPrograms } from '../disk/devices/programs.ts';
import { mountOf, readMountTable } from '../disk/mounts/mount-table.ts';
import { systemMounts } from '../disk/mounts/mounts.ts';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import { type PersistentVolumeSpec, persistentSpec } from '../kube/references/volume-spec.ts';
import { volumeDirectory } from '../kube/values/node-layout.ts';
import {
  mountPointsBelow,
  needsMounts,
  temporaryDirectory,
  unavailableMounts,
} from '../testing/machine/temporary-directory.ts';
import { VolumeNode, modeOf, podUid, testPod } from '../testing/worlds/volume-node.ts';
import { localPlugin } from './local.ts';
import { type VolumePlugin } from './plugin.ts';

const skip = needsMounts(systemMounts());

function local(path: string, more: Partial<PersistentVolume['spec']> = {}, readOnly = false): PersistentVolumeSpec {
  return persistentSpec(
    { metadata: { name: 'disk-1' }, spec: { local: { path }, volumeMode: 'Filesystem', ...more } },
    readOnly,
  );
}

function pluginOf(node: VolumeNode, now = (): number => 0): ReturnType<typeof localPlugin> {
  const { mounts, root, notices } = node;
  const clock = { ...systemClock, now };
  const turns = new Turns(() => 0);
  const programs = systemPrograms();
  return localPlugin({ mounts, root, notify: (notice) => notices.push(notice), programs, clock, turns });
}

test('a directory is bind mounted for the pod, and tear-down leaves its content', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const plugin = pluginOf(node);
  const storage = temporaryDirectory(t);
  writeFileSync(join(storage, 'data'), 'x');
  const directory = node.directoryOf(plugin, 'disk-1');
  assert.equal((await node.setUp(plugin, local(storage))).changed, true);
  assert.equal((await node.setUp(plugin, local(storage))).changed, false);
  assert.deepEqual(mountPointsBelow(node.root), [directory]);
  writeFileSync(join(directory, 'from-pod'), 'y');
  assert.equal(readFileSync(join(storage, 'from-pod'), 'utf8'), 'y');

  await node.tearDown(plugin, 'disk-1');
  await node.tearDown(plugin, 'disk-1');
  assert.ok(!existsSync(directory));
  assert.deepEqual(readdirSync(storage), ['data', 'from-pod']);
});

test('a volume mounted twice over is unmounted as often, before its directory is removed', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const plugin = pluginOf(node);
  const storage = temporaryDirectory(t);
  writeFileSync(join(storage, 'data'), 'x');
  await node.setUp(plugin, local(storage));
  node.mounts.bind(storage, node.directoryOf(plugin, 'disk-1'));
  await node.tearDown(plugin, 'disk-1');
  assert.deepEqual(readdirSync(storage), ['data']);
  assert.deepEqual(mountPointsBelow(node.root), []);
});

const optionCases = [
  { it: 'a read-only claim', spec: (path: string) => local(path, {}, true), has: ['ro'] },
  { it: 'the option ro', spec: (path: string) => local(path, { mountOptions: ['ro'] }), has: ['ro'] },
  {
    it: 'other options',
    spec: (path: string) => local(path, { mountOptions: ['noexec', 'nosuid', 'defaults'] }),
    has: ['rw', 'noexec', 'nosuid'],
  },
  { it: 'both', spec: (path: string) => local(path, { mountOptions: ['nodev'] }, true), has: ['ro', 'nodev'] },
];
for (const { it, spec, has } of optionCases) {
  test(`a directory is mounted with ${it}`, { skip }, async (t) => {
    const node = new VolumeNode(t);
    const plugin = pluginOf(node);
    await node.setUp(plugin, spec(temporaryDirectory(t)));
    const options = mountOf(readMountTable(), node.directoryOf(plugin, 'disk-1'))?.options ?? [];
    assert.deepEqual(
      has.filter((option) => !options.includes(option)),
      [],
    );
  });
}

test('an option that would have no effect is refused before anything is made', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const plugin = pluginOf(node);
  const spec = local(temporaryDirectory(t), { mountOptions: ['discard'] });
  await assert.rejects(node.setUp(plugin, spec), /^VolumeError: Cannot mount a directory with option "discard"/);
  assert.deepEqual(readdirSync(node.root), []);
});

test('the group of the first pod stays: a second one with another group is warned', { skip }, async (t) => {
  if (process.geteuid?.() !== 0) return t.skip('needs root: only root may give files to any group');
  const node = new VolumeNode(t);
  const plugin = pluginOf(node);
  const storage = temporaryDirectory(t);
  writeFileSync(join(storage, 'data'), 'x', { mode: 0o600 });
  await node.setUp(plugin, local(storage), { fsGroup: 2000 });
  assert.equal(statSync(join(storage, 'data')).gid, 2000);
  assert.equal(modeOf(join(storage, 'data')), '660');

  const pod = testPod({}, { name: 'second', uid: 'uid-2' });
  const directory = volumeDirectory(node.root, 'uid-2', plugin.name, 'disk-1');
  await node.setUp(plugin, local(storage), { pod, directory, fsGroup: 3000 });
  assert.equal(statSync(join(storage, 'data')).gid, 2000);
  assert.deepEqual(node.notices, [
    {
      kind: 'PodWarning',
      podUid: 'uid-2',
      namespace: 'shop',
      podName: 'second',
      reason: 'AlreadyMountedVolume',
      message: 'The requested fsGroup is 3000, but the volume disk-1 has GID 2000. The volume may not be shareable.',
    },
  ]);
});

test('a slow change of many files is reported, first with advice', { skip }, async (t) => {
  const node = new VolumeNode(t);
  let nowMs = 0;
  const plugin = pluginOf(node, () => (nowMs += 20_000));
  const storage = temporaryDirectory(t);
  for (let i = 0; i < 1200; i += 1) writeFileSync(join(storage, `${i}`), '');
  await node.setUp(plugin, local(storage), { fsGroup: process.getegid?.() ?? 0 });
  const shown = `${podUid}/volumes/kubernetes.io~local-volume/disk-1`;
  assert.deepEqual(
    node.notices.map((notice) => (notice.kind === 'PodWarning' ? `${notice.reason}: ${notice.message}` : notice.kind)),
    [
      `VolumePermissionChangeInProgress: Setting volume ownership for ${shown} is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods`,
      `VolumePermissionChangeInProgress: Setting volume ownership for ${shown}, processed 640 files.`,
      `VolumePermissionChangeInProgress: Setting volume ownership for ${shown}, processed 1024 files.`,
    ],
  );
});

test('a change of the group that was stopped is not taken for done', { skip }, async (t) => {
  if (process.geteuid?.() !== 0) return t.skip('needs root: only root may give files to any group');
  const node = new VolumeNode(t);
  const plugin = pluginOf(node);
  const storage = temporaryDirectory(t);
  for (let i = 0; i < 300; i += 1) writeFileSync(join(storage, `${i}`), '');
  const stopped = AbortSignal.abort(new Error('shutting down'));
  await assert.rejects(node.setUp(plugin, local(storage), { fsGroup: 2000 }, stopped), /shutting down/);
  assert.deepEqual(mountPointsBelow(node.root), []);
  await node.setUp(plugin, local(storage), { fsGroup: 2000 });
  assert.ok(readdirSync(storage).every((name) => statSync(join(storage, name)).gid === 2000));
});

test('OnRootMismatch trusts a root directory that is right', { skip }, async (t) => {
  if (process.geteuid?.() !== 0) return t.skip('needs root: only root may give files to any group');
  const node = new VolumeNode(t);
  const plugin = pluginOf(node);
  const storage = temporaryDirectory(t);
  await node.setUp(plugin, local(storage), { fsGroup: 2000 });
  await node.tearDown(plugin, 'disk-1');
  writeFileSync(join(storage, 'late'), 'x');
  chownSync(join(storage, 'late'), 0, 0);
  await node.setUp(plugin, local(storage), { fsGroup: 2000, fsGroupChangePolicy: 'OnRootMismatch' });
  assert.equal(statSync(join(storage, 'late')).gid, 0);
});

test('a read-only volume keeps its group', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const plugin = pluginOf(node);
  const storage = temporaryDirectory(t);
  const { gid } = statSync(storage);
  await node.setUp(plugin, local(storage, {}, true), { fsGroup: 2000 });
  assert.equal(statSync(storage).gid, gid);
});

test('paths that cannot be a local volume are refused in the kubelet’s words', async (t) => {
  const node = new VolumeNode(t);
  const plugin = pluginOf(node);
  const storage = temporaryDirectory(t);
  mkdirSync(join(storage, 'a'));
  const cases = [
    { path: '', says: 'local volume source is nil or local path is not set' },
    { path: join(storage, 'gone'), says: `path "${join(storage, 'gone')}" does not exist` },
    { path: '/dev/null', says: 'only directory and block device are supported' },
    { path: `${storage}/a/../a`, says: `invalid path: ${storage}/a/../a must not contain '..'` },
  ];
  for (const { path, says } of cases) await assert.rejects(node.setUp(plugin, local(path)), { message: says });
  assert.deepEqual(readdirSync(node.root), []);
});

test('a directory needs no device mount: it is its own, and unmounting it does nothing', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const plugin = pluginOf(node);
  const storage = temporaryDirectory(t);
  writeFileSync(join(storage, 'data'), 'x');
  const { deviceMount, expand } = plugin as VolumePlugin;
  assert.ok(deviceMount !== undefined && expand !== undefined);
  const [spec, source] = [local(storage), { path: storage }];
  const { signal } = new AbortController();
  assert.equal(deviceMount.identityOf(source, spec), 'disk-1');
  assert.equal(deviceMount.pathOf(source, spec), storage);
  assert.equal(plugin.attach?.canAttach(source, spec), false);
  await deviceMount.mount({ spec, source, path: storage }, signal);
  await deviceMount.unmount(storage, signal);
  assert.equal(await expand.expand({ spec, source, directory: storage, sizeBytes: 1n }, signal), true);
  assert.deepEqual(readdirSync(storage), ['data']);
});

test('reconstruction finds the device through the mount table, and no path for a directory', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const plugin = pluginOf(node);
  const directory = node.directoryOf(plugin, 'disk-1');
  await node.setUp(plugin, local(temporaryDirectory(t)));
  assert.deepEqual(plugin.reconstruct('disk-1', directory), local(''));
  assert.equal(plugin.deviceMount?.pathOf({ path: '' }, local('')), '');
  await node.tearDown(plugin, 'disk-1');

  // A tmpfs stands for the device: mounted once for the node, then bound for the pod.
  const onNode = join(node.root, 'plugins/kubernetes.io/local-volume/mounts/disk-1');
  mkdirSync(onNode, { recursive: true });
  mkdirSync(directory);
  node.mounts.mountTmpfs(onNode);
  node.mounts.bind(onNode, directory);
  assert.deepEqual(plugin.reconstruct('disk-1', directory), local('tmpfs'));
  await node.tearDown(plugin, 'disk-1');
  await plugin.deviceMount?.unmount(onNode, new AbortController().signal);
  assert.deepEqual(mountPointsBelow(node.root), []);
  assert.ok(!existsSync(onNode));
});

test('without mounts a local volume is refused, and nothing is made', async (t) => {
  const node = new VolumeNode(t, { mounts: unavailableMounts('operation not permitted') });
  await assert.rejects(node.setUp(pluginOf(node), local(temporaryDirectory(t))), {
    reason: 'LocalVolumeUnusable',
    message: 'Cannot mount local volume "disk-1": operation not permitted',
  });
  assert.deepEqual(readdirSync(node.root), []);
});
