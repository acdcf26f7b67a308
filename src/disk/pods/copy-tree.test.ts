import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { copyTree } from './live-sub-path-place.ts';

test('a tree is copied with bytes, modes and times, whatever the umask', (t) => {
  const directory = temporaryDirectory(t);
  const [source, target] = [join(directory, 'source'), join(directory, 'target')];
  mkdirSync(join(source, 'd', 'empty'), { recursive: true });
  const bytes = Buffer.from([0, 255, 10, 128]);
  writeFileSync(join(source, 'd', 'file'), bytes);
  chmodSync(join(source, 'd', 'file'), 0o4755);
  chmodSync(join(source, 'd'), 0o1777);
  for (const path of ['d/file', 'd', '']) utimesSync(join(source, path), 1_600_000_000, 1_600_000_001);
  copyTree(source, target);
  assert.deepEqual(readFileSync(join(target, 'd', 'file')), bytes);
  assert.deepEqual(readdirSync(join(target, 'd')), ['empty', 'file']);
  for (const path of ['d/file', 'd', 'd/empty', '']) {
    const [a, b] = [statSync(join(source, path)), statSync(join(target, path))];
    assert.deepEqual([b.mode, b.uid, b.gid], [a.mode, a.uid, a.gid], path);
    if (path !== 'd/empty') assert.equal(b.mtimeMs, 1_600_000_001_000, path);
  }
});

test('links, fifos and other special files are left out; a target that is there is refused', (t) => {
  const directory = temporaryDirectory(t);
  const [source, target] = [join(directory, 'source'), join(directory, 'target')];
  mkdirSync(source);
  symlinkSync('/etc/passwd', join(source, 'link'));
  assert.equal(spawnSync('mkfifo', [join(source, 'fifo')]).status, 0);
  copyTree(source, target);
  assert.deepEqual(readdirSync(target), []);
  assert.throws(() => copyTree(source, target), { code: 'EEXIST' });
  writeFileSync(join(source, 'file'), 'new');
  writeFileSync(join(target, 'file'), 'old');
  assert.throws(() => copyTree(join(source, 'file'), join(target, 'file')), { code: 'EEXIST' });
  assert.equal(readFileSync(join(target, 'file'), 'utf8'), 'old');
});
