/** The sweep of orphaned pods, on real directories and real mounts. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemMounts } from '../disk/mounts/mounts.ts';
import { PodTrees } from '../disk/pods/pod-trees.ts';
import { cleanSubPaths } from '../disk/pods/sub-paths.ts';
import { aPod } from '../testing/fakes/builders.ts';
import { settle } from '../testing/fakes/fake-clock.ts';
import { directoryForMounts, mountPointsBelow, needsMounts } from '../testing/machine/temporary-directory.ts';
import type { ActualMount } from './actual-state.ts';
import type { VolumeNotice } from './notices.ts';
import { type OrphanSweep, OrphanedPods } from './orphans.ts';
import { asPodUid } from './volume-name.ts';

const mounts = systemMounts();
const skip = needsMounts(mounts);
const signal = new AbortController().signal;
const gone = asPodUid('gone');

class Node {
  readonly root: string;
  readonly pods: string;
  readonly notices: VolumeNotice[] = [];
  readonly known = new Set<string>();
  readonly running = new Set<string>();
  readonly wanted = new Set<string>();
  readonly mounted = new Set<string>();
  readonly trees: PodTrees;
  readonly orphans: OrphanedPods;
  ready = true;

  constructor(t: TestContext) {
    this.root = directoryForMounts(t);
    this.pods = join(this.root, 'pods');
    mkdirSync(this.pods);
    this.trees = new PodTrees(this.pods);
    this.orphans = new OrphanedPods({
      disk: this.trees,
      subPaths: {
        clean: async (podUid, volumeName) => cleanSubPaths(join(this.pods, podUid), volumeName, mounts),
      },
      pods: {
        pods: () => [],
        pod: (uid) => (this.known.has(uid) ? aPod({ metadata: { name: uid, uid } }) : undefined),
        areSourcesReady: () => this.ready,
      },
      states: { shouldRuntimeBeRemoved: (uid) => !this.running.has(uid) },
      desired: { hasPod: (uid) => this.wanted.has(uid) },
      actual: { possiblyMountedOf: (uid) => (this.mounted.has(uid) ? [{} as ActualMount] : []) },
      notify: (notice) => this.notices.push(notice),
    });
  }

  make(...paths: readonly string[]): void {
    for (const path of paths) mkdirSync(join(this.pods, path), { recursive: true });
  }

  write(path: string, text = 'precious'): void {
    writeFileSync(join(this.pods, path), text);
  }

  exists(path: string): boolean {
    return existsSync(join(this.pods, path));
  }

  async sweep(): Promise<OrphanSweep | undefined> {
    return this.orphans.sweep(signal);
  }

  errors(): readonly string[] {
    return this.notices.flatMap((notice) => (notice.kind === 'OrphanedPodErrors' ? [notice.first] : []));
  }
}

test('volumes exist where something is mounted, not where there are bare directories', { skip }, (t) => {
  const node = new Node(t);
  node.make('gone/volumes/kubernetes.io~empty-dir/a', 'gone/volumes/kubernetes.io~csi/b/mount');
  assert.equal(node.orphans.podVolumesExist(gone), false);
  mounts.mountTmpfs(join(node.pods, 'gone/volumes/kubernetes.io~csi/b/mount'));
  assert.equal(node.orphans.podVolumesExist(gone), true);
  mounts.unmount(join(node.pods, 'gone/volumes/kubernetes.io~csi/b/mount'));
  mounts.mountTmpfs(join(node.pods, 'gone/volumes/kubernetes.io~empty-dir/a'));
  assert.equal(node.orphans.podVolumesExist(gone), true);
});

test('volumes exist where the node lists them, or where that is unknown', (t) => {
  const node = new Node(t);
  node.mounted.add('gone');
  assert.equal(node.orphans.podVolumesExist(gone), true);
  node.make('other');
  node.write('other/volumes');
  assert.equal(node.orphans.podVolumesExist(asPodUid('other')), true);
});

const cases = [
  { it: 'empty directories of volumes', paths: ['volumes/kubernetes.io~empty-dir/a', 'plugins/x/y'] },
  { it: 'empty subPaths', paths: ['volumes', 'volume-subpaths/v/app/0'] },
  { it: 'a subPath that was a file', paths: ['volume-subpaths/v/app'], files: ['volume-subpaths/v/app/0'] },
  { it: 'no directory of volumes', paths: [], files: ['etc-hosts'] },
  {
    it: 'files of containers and raw devices',
    paths: ['containers/app', 'volumeDevices/p'],
    files: ['containers/app/log', 'volumeDevices/p/d'],
  },
];
for (const { it, paths, files = [] } of cases) {
  test(`a pod that is gone and has ${it} disappears`, async (t) => {
    const node = new Node(t);
    node.make('gone', ...paths.map((path) => `gone/${path}`));
    for (const file of files) node.write(`gone/${file}`);
    assert.deepEqual(await node.sweep(), { candidates: 1, withProblems: 0, error: undefined });
    assert.deepEqual(readdirSync(node.pods), []);
    assert.deepEqual(node.errors(), []);
  });
}

test('of nested empty directories the volumes go now and the pod goes with the next sweep', async (t) => {
  const node = new Node(t);
  node.make('gone/volumes/p/v/inner/most');
  const path = join(node.pods, 'gone/volumes/p/v');
  assert.deepEqual(await node.sweep(), { candidates: 1, withProblems: 1, error: undefined });
  assert.deepEqual(node.errors(), [
    `orphaned pod "gone" found, but failed to rmdir() volume at path ${path}: directory not empty`,
  ]);
  assert.deepEqual([node.exists('gone/volumes'), node.exists('gone')], [false, true]);
  assert.deepEqual(await node.sweep(), { candidates: 1, withProblems: 0, error: undefined });
  assert.equal(node.exists('gone'), false);
});

for (const { it, directory, file, says } of [
  {
    it: 'volume',
    directory: 'volumes/p/v',
    file: 'volumes/p/v/data',
    says: (pods: string) => `failed to rmdir() volume at path ${pods}/gone/volumes/p/v: directory not empty`,
  },
  {
    it: 'subPath',
    directory: 'volume-subpaths/v/app/0',
    file: 'volume-subpaths/v/app/0/data',
    says: (pods: string) =>
      `failed to remove subpath at path ${pods}/gone/volume-subpaths/v/app/0: remove ${pods}/gone/volume-subpaths/v/app/0: directory not empty`,
  },
]) {
  test(`a file in a ${it} stays, and that is not an error of the sweep`, async (t) => {
    const node = new Node(t);
    node.make(`gone/${directory}`, 'gone/plugins/x');
    node.write(`gone/${file}`);
    for (let round = 0; round < 2; round += 1) {
      assert.deepEqual(await node.sweep(), { candidates: 1, withProblems: 1, error: undefined });
      assert.equal(readFileSync(join(node.pods, 'gone', file), 'utf8'), 'precious');
      assert.ok(node.exists('gone/plugins/x'), 'the rest of the pod stays with it');
    }
    assert.equal(node.errors()[0], `orphaned pod "gone" found, but ${says(node.pods)}`);
  });
}

test('without the directory of all pods the sweep is an error', async (t) => {
  const node = new Node(t);
  const orphans = new OrphanedPods({ ...depsOf(node), disk: new PodTrees(join(node.root, 'nowhere')) });
  await assert.rejects(orphans.sweep(signal), { message: `open ${node.root}/nowhere: no such file or directory` });
});

function depsOf(node: Node): ConstructorParameters<typeof OrphanedPods>[0] {
  return {
    disk: node.trees,
    subPaths: { clean: async () => {} },
    pods: { pods: () => [], pod: () => undefined, areSourcesReady: () => true },
    states: { shouldRuntimeBeRemoved: () => true },
    desired: { hasPod: () => false },
    actual: { possiblyMountedOf: () => [] },
    notify: (notice) => node.notices.push(notice),
  };
}

for (const { it, claim } of [
  { it: 'is known', claim: ({ known }: Node) => known },
  { it: 'still runs', claim: ({ running }: Node) => running },
  { it: 'has volumes that are wanted', claim: ({ wanted }: Node) => wanted },
]) {
  test(`a pod that ${it} is not touched`, async (t) => {
    const node = new Node(t);
    node.make('gone/volumes/p/v');
    claim(node).add('gone');
    assert.deepEqual(await node.sweep(), { candidates: 0, withProblems: 0, error: undefined });
    await node.orphans.clean(gone, signal);
    assert.ok(node.exists('gone/volumes/p/v'));
  });
}

test('nothing is swept before every source of pods was read', async (t) => {
  const node = new Node(t);
  node.ready = false;
  node.make('gone/volumes');
  assert.equal(await node.sweep(), undefined);
  await node.orphans.clean(gone, signal);
  assert.ok(node.exists('gone'));
});

test('a pod with something mounted is left whole, and counted', { skip }, async (t) => {
  const node = new Node(t);
  node.make('gone/volumes/p/v', 'gone/plugins/x');
  mounts.mountTmpfs(join(node.pods, 'gone/volumes/p/v'));
  node.write('gone/volumes/p/v/data');
  assert.deepEqual(await node.sweep(), { candidates: 1, withProblems: 1, error: undefined });
  assert.deepEqual(
    node.notices.map((notice) => ('message' in notice ? notice.message : notice.kind)),
    ['Orphaned pod found, but volumes are not cleaned up', 'OrphansSwept'],
  );
  assert.ok(node.exists('gone/volumes/p/v/data'));
  assert.ok(node.exists('gone/plugins/x'));
});

test(
  'a mount deeper in a volume, or in another directory of the pod, is neither entered nor removed',
  { skip },
  async (t) => {
    const node = new Node(t);
    node.make('deep/volumes/p/v/inner', 'beside/containers/app');
    for (const path of ['deep/volumes/p/v/inner', 'beside/containers/app']) {
      mounts.mountTmpfs(join(node.pods, path));
      node.write(`${path}/data`);
    }
    const inner = join(node.pods, 'deep/volumes/p/v/inner');
    const beside = join(node.pods, 'beside/containers');
    const swept = await node.sweep();
    assert.deepEqual(swept, {
      candidates: 2,
      withProblems: 2,
      error:
        `[orphaned pod "beside" found, but error occurred when trying to remove subdir "${beside}": cannot delete directory ${beside}/app: it is a mount point, ` +
        'orphaned pod "beside" found, but error occurred when trying to remove the pod directory: directory not empty]',
    });
    const counts = node.notices.flatMap((notice) => (notice.kind === 'OrphanedPodErrors' ? [notice.count] : []));
    assert.deepEqual(counts, [2]);
    assert.ok(existsSync(join(inner, 'data')));
    assert.ok(existsSync(join(beside, 'app/data')));
  },
);

test('of what cannot be listed nothing else is tried', async (t) => {
  const node = new Node(t);
  node.make('gone/volumes/p/v', 'gone/volume-subpaths');
  node.write('gone/volume-subpaths/file');
  await node.sweep();
  assert.deepEqual(node.errors(), [
    `orphaned pod "gone" found, but error occurred during reading of volume-subpaths dir from disk: open ${node.pods}/gone/volume-subpaths/file: not a directory`,
  ]);
  assert.ok(node.exists('gone/volumes/p'), 'the directory of volumes comes after them');
});

test('subPaths of a volume that has no directory of its own are unmounted with their pod', { skip }, async (t) => {
  const node = new Node(t);
  node.make('../host/dir', 'gone/volumes', 'gone/volume-subpaths/hp/app/0');
  writeFileSync(join(node.root, 'host/dir/data'), 'precious');
  mounts.bind(join(node.root, 'host/dir'), join(node.pods, 'gone/volume-subpaths/hp/app/0'));
  assert.deepEqual(await node.sweep(), { candidates: 1, withProblems: 0, error: undefined });
  assert.equal(node.exists('gone'), false);
  assert.deepEqual(mountPointsBelow(node.root), []);
  assert.equal(readFileSync(join(node.root, 'host/dir/data'), 'utf8'), 'precious');
});

test('a pod is cleaned up as soon as it is reported gone', async (t) => {
  const node = new Node(t);
  node.make('gone/volumes/p/v', 'later/volumes');
  const stop = new AbortController();
  const running = node.orphans.run(stop.signal);
  node.orphans.touch(gone);
  node.orphans.touch(asPodUid('never-there'));
  node.orphans.touch(asPodUid('../../etc'));
  await settle(20);
  assert.deepEqual(readdirSync(node.pods), ['later']);
  node.orphans.touchAll();
  await settle(20);
  assert.deepEqual(readdirSync(node.pods), []);
  stop.abort();
  await running;
});
