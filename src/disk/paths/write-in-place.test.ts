import assert from 'node:assert/strict';
import { lstatSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { writeInPlace } from './node-files.ts';

test('writeInPlace keeps the inode, drops longer content and sets the mode', (t) => {
  const file = join(temporaryDirectory(t), 'hosts');
  writeFileSync(file, 'a longer text', { mode: 0o600 });
  const before = statSync(file).ino;
  writeInPlace(file, 'short', 0o644);
  assert.equal(readFileSync(file, 'utf8'), 'short');
  assert.equal(statSync(file).ino, before);
  assert.equal(statSync(file).mode & 0o7777, 0o644);
});

test('writeInPlace removes a link and leaves alone what it leads to', (t) => {
  const directory = temporaryDirectory(t);
  writeFileSync(join(directory, 'precious'), 'data');
  symlinkSync('precious', join(directory, 'hosts'));
  writeInPlace(join(directory, 'hosts'), 'new', 0o644);
  assert.equal(readFileSync(join(directory, 'precious'), 'utf8'), 'data');
  assert.ok(lstatSync(join(directory, 'hosts')).isFile());
});

test('writeInPlace fails with a typed error where a directory stands', (t) => {
  const directory = temporaryDirectory(t);
  mkdirSync(join(directory, 'hosts'));
  assert.throws(() => writeInPlace(join(directory, 'hosts'), '', 0o644), { reason: 'SystemCallFailed' });
});
