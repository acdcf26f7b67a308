import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { makeDirectories } from './directories.ts';

test('makeDirectories makes what is missing and says what that was, the deepest first', (t) => {
  const base = temporaryDirectory(t);
  mkdirSync(join(base, 'a'));
  assert.deepEqual(makeDirectories(join(base, 'a/b/c')), [join(base, 'a/b/c'), join(base, 'a/b')]);
  assert.deepEqual(makeDirectories(join(base, 'a/b/c')), []);
});

test('makeDirectories follows a link to a directory', (t) => {
  const base = temporaryDirectory(t);
  mkdirSync(join(base, 'real'));
  symlinkSync('real', join(base, 'link'));
  makeDirectories(join(base, 'link/below'));
  assert.deepEqual(readdirSync(join(base, 'real')), ['below']);
});

const refused = [
  { it: 'a file', make: (path: string) => writeFileSync(path, ''), below: '', says: /not a directory/ },
  { it: 'a path below a file', make: (path: string) => writeFileSync(path, ''), below: 'x/y', says: /not a directory/ },
  { it: 'a link to nowhere', make: (path: string) => symlinkSync('nowhere', path), below: '', says: /file exists/ },
  { it: 'a link to itself', make: (path: string) => symlinkSync('it', path), below: '', says: /symbolic links/ },
];
for (const { it, make, below, says } of refused) {
  test(`makeDirectories refuses ${it} and makes nothing`, (t) => {
    const base = temporaryDirectory(t);
    make(join(base, 'it'));
    assert.throws(() => makeDirectories(join(base, 'it', below)), { reason: 'SystemCallFailed', message: says });
    assert.deepEqual(readdirSync(base), ['it']);
  });
}

test('makeDirectories comes back from where no directory can be made', () => {
  assert.throws(() => makeDirectories('/proc/mountlet/x'), { reason: 'SystemCallFailed', code: 'ENOENT' });
});
