import assert from 'node:assert/strict';
import { chmodSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { ensurePrivateFile, readPrivateFile, replacePrivateFile } from './node-files.ts';

test('a private file is made once, for its owner alone, and read afterwards', (t) => {
  const path = join(temporaryDirectory(t), 'key');
  assert.equal(readPrivateFile(path), undefined);
  assert.equal(
    ensurePrivateFile(path, () => 'first', String),
    'first',
  );
  assert.equal(
    ensurePrivateFile(path, () => 'second', String),
    'first',
  );
  assert.equal(statSync(path).mode & 0o7777, 0o600);
});

test('replacing a private file leaves nothing else behind', (t) => {
  const directory = temporaryDirectory(t);
  const path = join(directory, 'kubeconfig');
  replacePrivateFile(path, 'old');
  replacePrivateFile(path, 'new');
  assert.equal(readFileSync(path, 'utf8'), 'new');
  assert.deepEqual(readdirSync(directory), ['kubeconfig']);
});

test('replacing a link replaces the link and not what it leads to', (t) => {
  const directory = temporaryDirectory(t);
  writeFileSync(join(directory, 'victim'), 'untouched');
  symlinkSync('victim', join(directory, 'key'));
  replacePrivateFile(join(directory, 'key'), 'secret');
  assert.equal(readFileSync(join(directory, 'victim'), 'utf8'), 'untouched');
});

test('a file that others can read, and a link, are refused', (t) => {
  const directory = temporaryDirectory(t);
  const path = join(directory, 'key');
  writeFileSync(path, 'known');
  chmodSync(path, 0o644);
  assert.throws(() => ensurePrivateFile(path, () => 'x', String), { reason: 'ExposedFile' });
  symlinkSync(path, join(directory, 'link'));
  assert.throws(() => readPrivateFile(join(directory, 'link')), /link/);
  assert.throws(() => readPrivateFile(directory), { reason: 'ExposedFile' });
});
