import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, fstatSync, lstatSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { UnsafePathError, safeOpen } from './safe-open.ts';

function volume(t: Parameters<typeof temporaryDirectory>[0]): { base: string; outside: string } {
  const directory = temporaryDirectory(t);
  const [base, outside] = [join(directory, 'base'), join(directory, 'outside')];
  mkdirSync(join(base, 'a', 'b'), { recursive: true });
  mkdirSync(join(outside, 'b'), { recursive: true });
  writeFileSync(join(base, 'a', 'file'), '');
  symlinkSync('a', join(base, 'inside'));
  symlinkSync(outside, join(base, 'out'));
  symlinkSync('nowhere', join(base, 'dangling'));
  symlinkSync('loop', join(base, 'loop'));
  return { base, outside };
}

function sameFile(descriptor: number, path: string): boolean {
  const [a, b] = [fstatSync(descriptor), lstatSync(path)];
  closeSync(descriptor);
  return a.ino === b.ino && a.dev === b.dev;
}

for (const path of ['.', 'a', 'a/b', 'a/file', 'a/./b/../b']) {
  test(`safe open: ${path} is opened`, (t) => {
    const { base } = volume(t);
    assert.ok(sameFile(safeOpen(base, join(base, path)), join(base, path)));
  });
}

const refused = [
  { path: 'inside', says: 'unexpected symlink found BASE/inside' },
  { path: 'inside/b', says: 'unexpected symlink found BASE/inside' },
  { path: 'out', says: 'unexpected symlink found BASE/out' },
  { path: 'out/b', says: 'unexpected symlink found BASE/out' },
  { path: 'dangling', says: 'unexpected symlink found BASE/dangling' },
  { path: 'loop', says: 'unexpected symlink found BASE/loop' },
  { path: 'missing', says: 'cannot open BASE/missing: no such file or directory' },
  { path: 'a/file/x', says: 'cannot open BASE/a/file/x: not a directory' },
  { path: '../outside', says: 'path PARENT is outside of allowed base BASE' },
  { path: '../base-2', says: 'path PARENT is outside of allowed base BASE' },
];
for (const { path, says } of refused) {
  test(`safe open: ${path} is refused`, (t) => {
    const { base } = volume(t);
    const message = says.replaceAll('BASE', base).replace('PARENT', join(base, '..'));
    assert.throws(() => safeOpen(base, join(base, path)), { name: 'UnsafePathError', message });
  });
}

test('safe open refuses a base that is a link, a file, or missing', (t) => {
  const { base } = volume(t);
  for (const name of ['inside', 'a/file', 'missing']) {
    const path = join(base, name);
    assert.throws(() => safeOpen(path, path), { name: 'UnsafePathError', message: /^cannot open directory / });
  }
});

test('safe open: a socket and a fifo are opened as last element, without waiting, and not gone through', async (t) => {
  const { base } = volume(t);
  assert.equal(spawnSync('mkfifo', [join(base, 'fifo')]).status, 0);
  const server = createServer();
  t.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(join(base, 'socket'), resolve));
  for (const name of ['fifo', 'socket']) {
    assert.ok(sameFile(safeOpen(base, join(base, name)), join(base, name)));
    assert.throws(() => safeOpen(base, join(base, name, 'x')), UnsafePathError);
  }
});

test('safe open keeps no descriptor open when it fails', (t) => {
  const { base } = volume(t);
  const before = readdirSync('/proc/self/fd').length;
  for (const { path } of refused) assert.throws(() => safeOpen(base, join(base, path)), UnsafePathError);
  assert.equal(readdirSync('/proc/self/fd').length, before);
});

test('whatever the path, safe open opens something below the base or nothing', (t) => {
  const { base, outside } = volume(t);
  const inodes = new Set(
    [base, 'a', 'a/b', 'a/file'].map((name) => lstatSync(name === base ? base : join(base, name)).ino),
  );
  const element = fc.constantFrom('a', 'b', 'file', 'inside', 'out', 'dangling', 'loop', '..', '.', '', outside);
  fc.assert(
    fc.property(fc.array(element, { maxLength: 6 }), (elements) => {
      let descriptor: number;
      try {
        descriptor = safeOpen(base, `${base}/${elements.join('/')}`);
      } catch (thrown) {
        assert.ok(thrown instanceof UnsafePathError);
        return;
      }
      assert.ok(inodes.has(fstatSync(descriptor).ino));
      closeSync(descriptor);
    }),
    { numRuns: 300 },
  );
});
