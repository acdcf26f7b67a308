import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  directoryForMounts,
  needsMounts,
  temporaryDirectory,
  unavailableMounts,
} from '../../testing/machine/temporary-directory.ts';
import { systemMounts } from '../mounts/mounts.ts';
import { cleanSubPaths, removeEmptyDirectories } from './sub-paths.ts';

const mounts = systemMounts();
const skip = needsMounts(mounts);

test('mounted and unmounted entries go, files and directories; those of other volumes stay', { skip }, (t) => {
  const directory = directoryForMounts(t);
  const [pod, source] = [join(directory, 'pod'), join(directory, 'source')];
  const entry = (...names: string[]): string => join(pod, 'volume-subpaths', ...names);
  mkdirSync(join(source, 'dir', 'deep'), { recursive: true });
  writeFileSync(join(source, 'file'), '');
  for (const container of ['app', 'side']) {
    for (const index of ['0', '1']) mkdirSync(entry('data', container, index), { recursive: true });
    for (const index of ['2', '3']) writeFileSync(entry('data', container, index), '');
    mounts.bind(join(source, 'dir'), entry('data', container, '0'));
    mounts.bind(join(source, 'dir'), entry('data', container, '0')); // twice, as after a crash between check and bind
    mounts.bind(join(source, 'file'), entry('data', container, '2'));
    symlinkSync('nowhere', entry('data', container, '4'));
  }
  mkdirSync(entry('other', 'app', '0'), { recursive: true });
  mounts.bind(source, entry('other', 'app', '0'));

  cleanSubPaths(pod, 'data', mounts);
  assert.deepEqual(readdirSync(entry()), ['other']);
  assert.equal(mounts.isMountPoint(entry('other', 'app', '0')), true);
  assert.deepEqual(readdirSync(join(source, 'dir')), ['deep']);

  cleanSubPaths(pod, 'other', mounts);
  assert.deepEqual(readdirSync(pod), []);
});

test('a plain file as container entry makes it fail, after the others were cleaned', (t) => {
  const pod = temporaryDirectory(t);
  const data = join(pod, 'volume-subpaths', 'data');
  mkdirSync(join(data, 'app', '0'), { recursive: true });
  mkdirSync(join(data, 'zzz', '0'), { recursive: true });
  writeFileSync(join(data, 'file'), '');
  assert.throws(() => cleanSubPaths(pod, 'data', mounts), {
    reason: 'SubPathNotCleaned',
    message: `error deleting ${data}: directory not empty`,
  });
  assert.deepEqual(readdirSync(data), ['file']);
});

test('an unmounted entry with content is not deleted: its owner is unknown', (t) => {
  const pod = temporaryDirectory(t);
  const container = join(pod, 'volume-subpaths', 'data', 'app');
  mkdirSync(join(container, '0', 'content'), { recursive: true });
  assert.throws(() => cleanSubPaths(pod, 'data', mounts), {
    message: `error processing ${container}: error cleaning subpath mount ${join(container, '0')}: directory not empty`,
  });
});

test('cleaning is content where nothing is to be cleaned, also without mounts', (t) => {
  const pod = temporaryDirectory(t);
  cleanSubPaths(pod, 'data', unavailableMounts());
  cleanSubPaths(join(pod, 'missing'), 'data', unavailableMounts());
  mkdirSync(join(pod, 'volume-subpaths', 'data'), { recursive: true });
  cleanSubPaths(pod, 'data', unavailableMounts());
  assert.deepEqual(readdirSync(pod), []);
  for (const name of ['..', '.', '', 'a/b'])
    assert.throws(() => cleanSubPaths(pod, name, mounts), { reason: 'UnsafePath' });
});

test('removing empty parents stops at the first that is not empty and skips missing ones', (t) => {
  const base = temporaryDirectory(t);
  mkdirSync(join(base, 'a', 'b', 'c'), { recursive: true });
  writeFileSync(join(base, 'a', 'kept'), '');
  removeEmptyDirectories(base, join(base, 'a', 'b', 'c', 'missing', 'too'));
  assert.deepEqual(readdirSync(base, { recursive: true }), ['a', join('a', 'kept')]);
  removeEmptyDirectories(base, base);
});

test('a file on the way and an end outside of the base are refused', (t) => {
  const base = temporaryDirectory(t);
  const file = join(base, 'file');
  writeFileSync(file, '');
  assert.throws(() => removeEmptyDirectories(base, file), { message: `path "${file}" not a directory` });
  assert.throws(() => removeEmptyDirectories(join(base, 'a'), base), {
    reason: 'SubPathNotCleaned',
    message: `endDir "${base}" is not within baseDir "${join(base, 'a')}"`,
  });
  assert.deepEqual(readdirSync(base), ['file']);
});
