import assert from 'node:assert/strict';
import { lstatSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { makeDirectoryWithMode, makePodDirectories, requirePodDirectories } from './directories.ts';

const levels = [
  'pods',
  'pods/uid',
  'pods/uid/volumes',
  'pods/uid/volumes/kubernetes.io~configmap',
  'pods/uid/plugins',
  'pods/uid/plugins/kubernetes.io~empty-dir',
  'pods/uid/plugins/kubernetes.io~empty-dir/wrapped_v',
  'pods/uid/volume-subpaths',
  'pods/uid/volume-subpaths/v',
  'pods/uid/volume-subpaths/v/main',
];
const plants = [
  { what: 'a symbolic link', plant: (path: string) => symlinkSync('/tmp', path) },
  { what: 'a file', plant: (path: string) => writeFileSync(path, '') },
];
for (const level of levels) {
  for (const { what, plant } of plants) {
    test(`requirePodDirectories refuses ${what} at ${level}`, (t) => {
      const root = temporaryDirectory(t);
      mkdirSync(dirname(join(root, level)), { recursive: true });
      plant(join(root, level));
      assert.throws(() => requirePodDirectories(join(root, 'pods/uid')), {
        reason: 'NotADirectory',
        message: new RegExp(`${level}": it is ${what} and not a directory`),
      });
    });
  }
}

test('requirePodDirectories accepts what is missing, what was made, and a volume that is a link', (t) => {
  const root = temporaryDirectory(t);
  const pod = join(root, 'pods/uid');
  requirePodDirectories(pod);
  makePodDirectories(pod);
  mkdirSync(join(pod, 'volumes/kubernetes.io~secret'));
  symlinkSync('/dev/shm', join(pod, 'volumes/kubernetes.io~secret/v'));
  requirePodDirectories(pod);
});

for (const missing of ['volumes', 'plugins', '.']) {
  test(`the directories of a pod are made again when ${missing === '.' ? 'all are' : `${missing} is`} gone`, (t) => {
    const pod = join(temporaryDirectory(t), 'pods/uid');
    makePodDirectories(pod);
    rmSync(join(pod, missing), { recursive: true });
    makePodDirectories(pod);
    assert.deepEqual(
      ['.', 'plugins', 'volumes'].map((name) => lstatSync(join(pod, name)).mode & 0o777),
      [0o750, 0o750, 0o750],
    );
  });
}

test('makeDirectoryWithMode gives no mode to what a link leads to', (t) => {
  const base = temporaryDirectory(t);
  mkdirSync(join(base, 'elsewhere'), { mode: 0o700 });
  symlinkSync('elsewhere', join(base, 'volume'));
  assert.throws(() => makeDirectoryWithMode(join(base, 'volume'), 0o777), { reason: 'NotADirectory' });
  assert.equal(lstatSync(join(base, 'elsewhere')).mode & 0o777, 0o700);
  assert.deepEqual(readdirSync(base).toSorted(), ['elsewhere', 'volume']);
});
