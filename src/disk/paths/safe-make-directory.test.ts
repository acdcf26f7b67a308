import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { UnsafePathError, safeMakeDirectory } from './safe-open.ts';

function volume(t: Parameters<typeof temporaryDirectory>[0]): { base: string; outside: string } {
  const directory = temporaryDirectory(t);
  const [base, outside] = [join(directory, 'base'), join(directory, 'outside')];
  mkdirSync(join(base, 'dir', 'sub'), { recursive: true });
  mkdirSync(join(outside, 'there'), { recursive: true });
  writeFileSync(join(base, 'file'), '');
  symlinkSync('dir', join(base, 'inside'));
  symlinkSync(join(base, 'dir'), join(base, 'inside-absolute'));
  symlinkSync(join('..', 'cycle-b'), join(base, 'dir', 'to-b'));
  mkdirSync(join(base, 'cycle-b'));
  symlinkSync(join('..', 'dir'), join(base, 'cycle-b', 'to-a'));
  symlinkSync('dir/../../outside', join(base, 'out'));
  symlinkSync(outside, join(base, 'out-absolute'));
  symlinkSync('/', join(base, 'root'));
  symlinkSync('nowhere', join(base, 'dangling'));
  symlinkSync(join(outside, 'nowhere'), join(base, 'dangling-out'));
  symlinkSync('loop-2', join(base, 'loop-1'));
  symlinkSync('loop-1', join(base, 'loop-2'));
  assert.equal(spawnSync('mkfifo', [join(base, 'fifo')]).status, 0);
  return { base, outside };
}

const modes = [0o755, 0o2770, 0o4711, 0o1777, 0o6777, 0o7777, 0o700];
for (const mode of modes) {
  test(`safe mkdir: every missing level gets mode ${mode.toString(8)}`, (t) => {
    const { base } = volume(t);
    const before = statSync(join(base, 'dir')).mode;
    safeMakeDirectory(base, 'dir/x/y/z', mode);
    for (const made of ['dir/x', 'dir/x/y', 'dir/x/y/z']) assert.equal(statSync(join(base, made)).mode & 0o7777, mode);
    assert.equal(statSync(join(base, 'dir')).mode, before);
  });
}

for (const below of ['inside/new', 'inside-absolute/a/b', 'dir/to-b/to-a/to-b/new', 'x/../dir/new']) {
  test(`safe mkdir: ${below} is made through links that stay inside`, (t) => {
    const { base } = volume(t);
    safeMakeDirectory(base, below, 0o755);
    assert.ok(statSync(join(base, below)).isDirectory());
  });
}

const refused = [
  { below: 'loop-1', says: /^error opening directory .*: too many levels of symbolic links$/ },
  { below: 'loop-1/new', says: /^error opening directory / },
  { below: 'dangling', says: /^cannot create directory .*\/dangling: file exists$/, code: 'EEXIST' },
  { below: 'dangling/new', says: /^cannot create directory .*\/dangling: file exists$/, code: 'EEXIST' },
  { below: 'dangling-out/new', says: /^cannot create directory .*\/dangling-out: file exists$/, code: 'EEXIST' },
  { below: 'file', says: /^mkdir .*\/file: not a directory$/ },
  { below: 'file/new', says: /^error opening directory .*: not a directory$/ },
  { below: 'fifo', says: /^mkdir .*: not a directory$/ },
  { below: 'fifo/new', says: /^error opening directory .*: not a directory$/ },
  { below: 'out/new', says: /^path .*\/outside is outside of allowed base .*\/base$/ },
  { below: 'out-absolute/new/new', says: /^path .*\/outside is outside of allowed base / },
  { below: 'out/there/new', says: /^path .*\/outside\/there is outside of allowed base / },
  { below: 'root/mountlet-must-not-make-this', says: /^path \/ is outside of allowed base / },
  { below: '..', says: /^path .* is outside of allowed base / },
  { below: '../outside/new', says: /^path .*\/outside\/new is outside of allowed base / },
  { below: 'dir/../../new', says: /^path .* is outside of allowed base / },
  { below: 'a\0b', says: /invalid argument$/ },
];
for (const { below, says, code } of refused) {
  test(`safe mkdir: ${JSON.stringify(below)} is refused and makes nothing`, (t) => {
    const { base, outside } = volume(t);
    const before = readdirSync(base);
    assert.throws(
      () => safeMakeDirectory(base, below, 0o755),
      (thrown) => {
        assert.ok(thrown instanceof UnsafePathError);
        assert.match(thrown.message, says);
        if (code !== undefined) assert.equal(thrown.code, code);
        return true;
      },
    );
    assert.deepEqual(readdirSync(base), before);
    assert.deepEqual(readdirSync(outside, { recursive: true }), ['there']);
    assert.ok(!existsSync('/mountlet-must-not-make-this'));
  });
}

test('safe mkdir: what exists is left as it is, the base too, also through links', (t) => {
  const { base, outside } = volume(t);
  chmodSync(join(base, 'dir', 'sub'), 0o711);
  chmodSync(base, 0o750);
  chmodSync(outside, 0o705);
  for (const below of ['dir/sub', 'inside/sub', '', '.', 'out']) safeMakeDirectory(base, below, 0o777);
  assert.equal(statSync(join(base, 'dir', 'sub')).mode & 0o7777, 0o711);
  assert.equal(statSync(base).mode & 0o7777, 0o750);
  assert.equal(statSync(outside).mode & 0o7777, 0o705);
});

test('safe mkdir resolves the base itself and says which one is missing', (t) => {
  const { base } = volume(t);
  symlinkSync(base, `${base}-link`);
  safeMakeDirectory(`${base}-link`, 'via-link', 0o755);
  assert.ok(existsSync(join(base, 'via-link')));
  const missing = join(base, 'missing');
  assert.throws(() => safeMakeDirectory(missing, 'x', 0o755), {
    message: `error resolving symlinks in ${missing}: lstat ${missing}: no such file or directory`,
  });
});

test('safe mkdir keeps no descriptor open', (t) => {
  const { base } = volume(t);
  const before = readdirSync('/proc/self/fd').length;
  for (const { below } of refused) assert.throws(() => safeMakeDirectory(base, below, 0o755), UnsafePathError);
  safeMakeDirectory(base, 'p/q/r', 0o755);
  assert.equal(readdirSync('/proc/self/fd').length, before);
});

test('whatever the path, safe mkdir makes nothing outside of the base', (t) => {
  const { base, outside } = volume(t);
  const known = [
    'dir',
    'sub',
    'inside',
    'to-b',
    'to-a',
    'out',
    'out-absolute',
    'dangling-out',
    'loop-1',
    'file',
    '..',
    '.',
    'new',
  ];
  const parent = readdirSync(join(base, '..'));
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...known), { maxLength: 6 }), (elements) => {
      try {
        safeMakeDirectory(base, elements.join('/'), 0o755);
      } catch (thrown) {
        assert.ok(thrown instanceof UnsafePathError);
      }
      assert.deepEqual(readdirSync(outside, { recursive: true }), ['there']);
      assert.deepEqual(readdirSync(join(base, '..')), parent);
    }),
    { numRuns: 150 },
  );
});
