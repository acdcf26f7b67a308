import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { directoryForMounts, needsMounts, temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { systemMounts } from '../mounts/mounts.ts';
import { PodTreeError, PodTrees } from './pod-trees.ts';

const mounts = systemMounts();
const skip = needsMounts(mounts);

function make(base: string, ...paths: readonly string[]): void {
  for (const path of paths) mkdirSync(join(base, path), { recursive: true });
}

/** `pod volumes/plugin/name`, sorted. */
function found(pods: string): readonly string[] {
  return [...new PodTrees(pods).scan()].flatMap(({ podUid, volumes, devices }) => [
    ...volumes.map(({ pluginDirectory, name }) => `${podUid} volumes/${pluginDirectory}/${name}`),
    ...devices.map(({ pluginDirectory, name }) => `${podUid} volumeDevices/${pluginDirectory}/${name}`),
  ]);
}

function skipped(pods: string): readonly string[] {
  return [...new PodTrees(pods).scan()]
    .flatMap((pod) => pod.skipped)
    .map(({ path, why }) => `${path.slice(pods.length + 1)}: ${why}`);
}

test('a scan finds volumes and raw devices of every pod, in any order of directories', (t) => {
  const pods = temporaryDirectory(t);
  make(pods, 'a/volumes/kubernetes.io~configmap/cfg', 'a/volumes/kubernetes.io~secret/tls', 'b/plugins', 'c');
  make(pods, 'b/volumeDevices/kubernetes.io~local-volume');
  symlinkSync('/dev/null', join(pods, 'b/volumeDevices/kubernetes.io~local-volume/disk'));
  assert.deepEqual(found(pods), [
    'a volumes/kubernetes.io~configmap/cfg',
    'a volumes/kubernetes.io~secret/tls',
    'b volumeDevices/kubernetes.io~local-volume/disk',
  ]);
  assert.deepEqual(skipped(pods), []);
});

test('a scan follows no link on its way down, and reports entries that do not belong there', (t) => {
  const elsewhere = temporaryDirectory(t);
  make(elsewhere, 'volumes/kubernetes.io~configmap/stolen', 'stolen');
  const pods = temporaryDirectory(t);
  symlinkSync(elsewhere, join(pods, 'link'));
  writeFileSync(join(pods, 'file'), '');
  make(pods, 'a', 'b/volumes', 'c/volumes/kubernetes.io~configmap', 'c/volumes/kubernetes.io~empty-dir');
  symlinkSync(join(elsewhere, 'volumes'), join(pods, 'a/volumes'));
  symlinkSync(join(elsewhere, 'volumes/kubernetes.io~configmap'), join(pods, 'b/volumes/kubernetes.io~configmap'));
  writeFileSync(join(pods, 'c/volumes/file'), '');
  writeFileSync(join(pods, 'c/volumes/kubernetes.io~configmap/file'), '');
  // What stands for a volume itself may be a link: memory that cannot be mounted is linked to.
  symlinkSync(elsewhere, join(pods, 'c/volumes/kubernetes.io~empty-dir/memory'));
  assert.deepEqual(found(pods), ['c volumes/kubernetes.io~empty-dir/memory']);
  const open = (path: string): string => `${path}: open ${join(pods, path)}: not a directory`;
  assert.deepEqual(skipped(pods), [
    'file: it is not what belongs there',
    'link: it is not what belongs there',
    open('a/volumes'),
    open('b/volumes/kubernetes.io~configmap'),
    open('c/volumes/file'),
    'c/volumes/kubernetes.io~configmap/file: it is not what belongs there',
  ]);
});

test('names that no object can have are skipped and reported', (t) => {
  const pods = temporaryDirectory(t);
  make(pods, 'a/volumes/kubernetes.io~configmap');
  const below = Buffer.from(`${join(pods, 'a/volumes/kubernetes.io~configmap')}/`);
  mkdirSync(Buffer.concat([below, Buffer.from([0x66, 0xff])]));
  mkdirSync(Buffer.concat([Buffer.from(`${pods}/`), Buffer.from([0xfe])]));
  assert.deepEqual(found(pods), []);
  assert.deepEqual(
    skipped(pods).map((text) => text.split(': ')[1]),
    ['its name is not UTF-8', 'its name is not UTF-8'],
  );
});

test('without the directory of all pods there is an error; without those of a pod there is nothing', (t) => {
  const root = temporaryDirectory(t);
  const trees = new PodTrees(join(root, 'pods'));
  const missing = { name: 'PodTreeError', message: `open ${root}/pods: no such file or directory` };
  assert.throws(() => trees.pods(), missing);
  assert.throws(() => [...trees.scan()], missing);
  make(root, 'pods/a');
  assert.deepEqual([trees.volumePaths('a'), trees.subPaths('a'), trees.entries('a')], [[], [], []]);
});

test('no name is a way out of the directory of pods', (t) => {
  const trees = new PodTrees(temporaryDirectory(t));
  for (const bad of ['', '.', '..', 'a/b', '../etc', 'a\0b']) {
    assert.equal(trees.has(bad), false);
    assert.throws(() => trees.volumePaths(bad), PodTreeError);
    assert.throws(() => trees.removePod(bad), PodTreeError);
    assert.throws(() => trees.removeEntry('a', bad, new Set()), PodTreeError);
  }
});

test('only empty directories of volumes are removed, as many as possible, and the first problem is reported', (t) => {
  const pods = temporaryDirectory(t);
  make(pods, 'a/volumes/p/empty/deep/deeper', 'a/volumes/p/full/deep', 'a/volumes/q/empty');
  writeFileSync(join(pods, 'a/volumes/p/full/deep/data'), 'precious');
  symlinkSync('/etc', join(pods, 'a/volumes/p/link'));
  assert.throws(() => new PodTrees(pods).removeEmptyVolumes('a', new Set()), {
    name: 'PodTreeError',
    message: 'not a directory',
  });
  assert.deepEqual(
    ['p/empty', 'q', 'p/full/deep/data', 'p/link'].map((path) => existsSync(join(pods, 'a/volumes', path))),
    [false, false, true, true],
  );
});

test('directories that are empty but nested beyond measure are left', (t) => {
  const pods = temporaryDirectory(t);
  make(pods, `a/volumes/${'d/'.repeat(200)}`);
  assert.throws(() => new PodTrees(pods).removeEmptyVolumes('a', new Set()), /it is too deep$/);
});

test('a mount below the volumes is not entered, and nothing in it is removed', { skip }, (t) => {
  const pods = directoryForMounts(t);
  make(pods, 'a/volumes/p/v', 'a/containers/app');
  for (const path of ['a/volumes/p/v', 'a/containers/app']) {
    mounts.mountTmpfs(join(pods, path));
    make(pods, `${path}/empty`);
  }
  const trees = new PodTrees(pods);
  const isMounted = (path: string) => ({ message: `cannot delete directory ${join(pods, path)}: it is a mount point` });
  assert.throws(() => trees.removeEmptyVolumes('a', trees.mountPoints('a')), isMounted('a/volumes/p/v'));
  assert.throws(() => trees.removeEntry('a', 'containers', trees.mountPoints('a')), isMounted('a/containers/app'));
  assert.deepEqual([...trees.mountPoints('a')].sort(), [join(pods, 'a/containers/app'), join(pods, 'a/volumes/p/v')]);
  assert.ok(existsSync(join(pods, 'a/volumes/p/v/empty')));
  assert.ok(existsSync(join(pods, 'a/containers/app/empty')));
});

test('a mount that hangs stops neither a scan nor the question what is mounted', { skip }, (t) => {
  if (!existsSync('/dev/fuse')) return t.skip('needs /dev/fuse: a file system that never answers');
  const pods = directoryForMounts(t);
  make(pods, 'a/volumes/kubernetes.io~nfs/hangs', 'a/volumes/kubernetes.io~nfs/well');
  const directory = join(pods, 'a/volumes/kubernetes.io~nfs/hangs');
  const device = openSync('/dev/fuse', 'r+');
  try {
    const options = 'fd=3,rootmode=40000,user_id=0,group_id=0';
    const args = ['-i', '-t', 'fuse', '-o', options, 'hangs', directory];
    const mounted = spawnSync('mount', args, { stdio: ['ignore', 'ignore', 'pipe', device] });
    if (mounted.status !== 0) return t.skip(`needs to mount fuse: ${mounted.stderr.toString()}`);
    // In a process that can be killed: should it wait after all, this one must not.
    const program = join(dirname(fileURLToPath(import.meta.url)), '../../../test/fixtures/scan-pods.js');
    const scan = spawnSync(process.execPath, [program, pods], { timeout: 20_000, killSignal: 'SIGKILL' });
    assert.equal(scan.signal, null, 'the scan hangs');
    assert.deepEqual(JSON.parse(scan.stdout.toString()), {
      found: ['hangs', 'well'],
      mounted: [directory],
      volumePaths: [directory, directory.replace(/hangs$/, 'well')],
    });
  } finally {
    closeSync(device);
  }
});
