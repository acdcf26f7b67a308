import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { mountOf, readMountTable } from '../disk/mounts/mount-table.ts';
import { systemMounts } from '../disk/mounts/mounts.ts';
import type { Volume } from '../kube/kinds/pod/volume.ts';
import { readyMarker } from '../kube/values/node-layout.ts';
import { mountPointsBelow, needsMounts, unavailableMounts } from '../testing/machine/temporary-directory.ts';
import { VolumeNode, modeOf, podUid, testPod } from '../testing/worlds/volume-node.ts';
import { emptyDirPlugin } from './empty-dir.ts';

const skip = needsMounts(systemMounts());
const scratch = (emptyDir: NonNullable<Volume['emptyDir']> = {}): Volume => ({ name: 'scratch', emptyDir });

for (const hasDirectory of [false, true]) {
  for (const hasMarker of [false, true]) {
    const state = `directory ${hasDirectory ? 'there' : 'missing'}, marker ${hasMarker ? 'there' : 'missing'}`;
    test(`set-up with ${state}`, async (t) => {
      // Mounts that refuse everything: the default medium makes none.
      const node = new VolumeNode(t, { mounts: unavailableMounts() });
      const plugin = emptyDirPlugin(node);
      const directory = node.directoryOf(plugin, 'scratch');
      const marker = readyMarker(node.root, podUid, 'scratch');
      if (hasDirectory) {
        mkdirSync(directory, { recursive: true });
        writeFileSync(join(directory, 'content'), 'x');
        chmodSync(directory, 0o700);
      }
      if (hasMarker) {
        mkdirSync(join(marker, '..'), { recursive: true });
        writeFileSync(marker, '');
      }
      await node.setUp(plugin, scratch());
      assert.ok(existsSync(marker));
      assert.equal(modeOf(directory), hasDirectory && hasMarker ? '700' : '777');
      if (hasDirectory) assert.equal(readFileSync(join(directory, 'content'), 'utf8'), 'x');
    });
  }
}

test('a repeated set-up never clears what a container wrote', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const plugin = emptyDirPlugin(node);
  for (const volume of [scratch(), { name: 'ram', emptyDir: { medium: 'Memory' } }]) {
    assert.equal((await node.setUp(plugin, volume)).changed, true);
    const file = join(node.directoryOf(plugin, volume.name), 'written');
    writeFileSync(file, 'x');
    assert.equal((await node.setUp(plugin, volume)).changed, false);
    assert.equal(readFileSync(file, 'utf8'), 'x');
  }
});

test('a tmpfs has the smallest size of node, pod and volume, and then noswap', { skip }, async (t) => {
  const node = new VolumeNode(t, { allocatable: { memory: '64Mi' } });
  const plugin = emptyDirPlugin(node);
  const pod = testPod({ containers: [{ name: 'c', resources: { limits: { memory: '16Mi' } } }] });
  const sizes = [
    { name: 'node', source: { medium: 'Memory' }, pod: testPod(), size: 'size=65536k' },
    { name: 'pod', source: { medium: 'Memory' }, pod, size: 'size=16384k' },
    { name: 'volume', source: { medium: 'Memory', sizeLimit: '1Mi' }, pod, size: 'size=1024k' },
  ];
  for (const { name, source, pod: owner, size } of sizes) {
    await node.setUp(plugin, { name, emptyDir: source }, { pod: owner });
    const directory = node.directoryOf(plugin, name);
    const options = mountOf(readMountTable(), directory)?.superOptions ?? [];
    assert.ok(options.includes(size), `${name}: ${options.join()}`);
    assert.throws(() => writeFileSync(join(directory, 'big'), Buffer.alloc(65 * 1024 * 1024)), { code: 'ENOSPC' });
  }
});

const modes = [
  { it: '01777 sets the sticky bit', mode: 0o1777, shown: '1777' },
  { it: 'exactly the bits that were asked for', mode: 0o750, shown: '750' },
  { it: 'none means open to all', mode: undefined, shown: '777' },
];
for (const { it, mode, shown } of modes) {
  test(`mode: ${it}`, async (t) => {
    const node = new VolumeNode(t);
    const plugin = emptyDirPlugin(node);
    const umask = process.umask(0o077);
    try {
      await node.setUp(plugin, scratch(mode === undefined ? {} : { mode }));
    } finally {
      process.umask(umask);
    }
    assert.equal(modeOf(node.directoryOf(plugin, 'scratch')), shown);
  });
}

test('fsGroup adds its bits to whatever mode there is', { skip }, async (t) => {
  if (process.geteuid?.() !== 0) return t.skip('needs root: only root may give files to any group');
  const node = new VolumeNode(t);
  const plugin = emptyDirPlugin(node);
  await node.setUp(plugin, scratch({ mode: 0o700 }), { fsGroup: 2000 });
  await node.setUp(plugin, { name: 'ram', emptyDir: { medium: 'Memory' } }, { fsGroup: 2000 });
  const [disk, ram] = [node.directoryOf(plugin, 'scratch'), node.directoryOf(plugin, 'ram')];
  assert.deepEqual([disk, ram].map(modeOf), ['2770', '3777']);
  assert.deepEqual(
    [disk, ram].map((path) => statSync(path).gid),
    [2000, 2000],
  );
});

test('tear-down finds the medium on disk, unmounts, and may be repeated', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const plugin = emptyDirPlugin(node);
  for (const volume of [scratch(), { name: 'ram', emptyDir: { medium: 'Memory' } }]) {
    await node.setUp(plugin, volume);
    writeFileSync(join(node.directoryOf(plugin, volume.name), 'f'), 'x');
    // All that is known after a restart is the name.
    const reconstructed = plugin.reconstruct(volume.name, node.directoryOf(plugin, volume.name));
    assert.deepEqual(reconstructed?.volume, { name: volume.name, emptyDir: {} });
    await node.tearDown(plugin, volume.name);
    await node.tearDown(plugin, volume.name);
    assert.ok(!existsSync(node.directoryOf(plugin, volume.name)));
    assert.ok(!node.isMarked(volume.name));
  }
  assert.deepEqual(mountPointsBelow(node.root), []);
});

test('memory that a reboot emptied is made again', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const plugin = emptyDirPlugin(node);
  const ram = { name: 'ram', emptyDir: { medium: 'Memory' } };
  await node.setUp(plugin, ram);
  node.mounts.unmount(node.directoryOf(plugin, 'ram'));
  assert.equal((await node.setUp(plugin, ram)).changed, true);
  assert.ok(node.mounts.isMountPoint(node.directoryOf(plugin, 'ram')));
});

test('a medium that cannot be had leaves nothing on disk', async (t) => {
  const node = new VolumeNode(t);
  const plugin = emptyDirPlugin(node);
  await assert.rejects(node.setUp(plugin, scratch({ medium: 'Flash' })), { message: 'unknown storage medium "Flash"' });
  await assert.rejects(node.setUp(plugin, scratch({ medium: 'HugePages' })), /no resource request for huge pages/);
  const unreadable = emptyDirPlugin({
    nodes: { get: async () => undefined },
    emptyDirectories: node.emptyDirectories,
  });
  await assert.rejects(node.setUp(unreadable, scratch({ medium: 'Memory' })), {
    message: 'error retrieving node: node not found',
  });
  assert.ok(!existsSync(join(node.root, 'pods')));
});

test('huge pages need mounts, and say so', async (t) => {
  const node = new VolumeNode(t, { mounts: unavailableMounts('operation not permitted') });
  const pod = testPod({ containers: [{ name: 'c', resources: { requests: { 'hugepages-2Mi': '2Mi' } } }] });
  await assert.rejects(node.setUp(emptyDirPlugin(node), scratch({ medium: 'HugePages' }), { pod }), {
    message: 'huge pages must be mounted: operation not permitted',
  });
});

test('huge pages are mounted once, with the page size that is asked for', { skip }, async (t) => {
  const node = new VolumeNode(t);
  const plugin = emptyDirPlugin(node);
  if (!existsSync('/sys/kernel/mm/hugepages/hugepages-2048kB'))
    return t.skip('needs a kernel with huge pages of 2 MiB');
  const requests = { 'hugepages-2Mi': '2Mi', 'hugepages-1Gi': '1Gi' };
  const pod = testPod({ containers: [{ name: 'c', resources: { requests } }] });
  await node.setUp(plugin, scratch({ medium: 'HugePages-2Mi' }), { pod });
  const directory = node.directoryOf(plugin, 'scratch');
  assert.equal(mountOf(readMountTable(), directory)?.fileSystem, 'hugetlbfs');
  assert.equal((await node.setUp(plugin, scratch({ medium: 'HugePages-2Mi' }), { pod })).changed, false);
  await assert.rejects(node.setUp(plugin, scratch({ medium: 'HugePages-1Gi' }), { pod }), {
    message: `pod ${podUid}: mounted dir ${directory} pagesize '2Mi' and requested medium size '1Gi' differ`,
  });
  await node.tearDown(plugin, 'scratch');
  assert.deepEqual(mountPointsBelow(node.root), []);
});
