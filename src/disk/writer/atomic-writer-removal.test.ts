import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { liveVersion, visibleFiles } from '../../testing/worlds/volume-node.ts';
import { AtomicWriter, type WriteOutcome } from './atomic-writer.ts';

function versionsIn(volume: string): string[] {
  return readdirSync(volume).filter((name) => /^\.\.\d/.test(name));
}

function write(writer: AtomicWriter, text: string, beforeRemoval: () => boolean): WriteOutcome {
  return writer.write(new Map([['a', { data: Buffer.from(text), mode: 0o644 }]]), { beforeRemoval });
}

test('beforeRemoval is asked when new content is visible and the old is still there, and only then', (t) => {
  const volume = temporaryDirectory(t);
  const writer = new AtomicWriter(volume);
  const seen: unknown[] = [];
  const beforeRemoval = (): boolean => {
    seen.push([readFileSync(join(volume, 'a'), 'utf8'), versionsIn(volume).length]);
    return true;
  };
  for (const text of ['1', '1', '2', '2', '3']) assert.equal(write(writer, text, beforeRemoval).leftBehind, 0);
  assert.deepEqual(seen, [
    ['1', 1],
    ['2', 2],
    ['3', 2],
  ]);
});

test('beforeRemoval that says no keeps the old version until the next write, changed or not, and not longer', (t) => {
  for (const next of ['2', '3']) {
    const volume = temporaryDirectory(t);
    const writer = new AtomicWriter(volume);
    write(writer, '1', () => true);
    const old = liveVersion(volume) ?? '';
    assert.equal(write(writer, '2', () => false).leftBehind, 1);
    assert.ok(versionsIn(volume).includes(old));
    let asked = 0;
    write(writer, next, () => {
      asked += 1;
      return false;
    });
    assert.equal(versionsIn(volume).includes(old), false);
    assert.equal(asked, next === '2' ? 1 : 2, 'for the one left behind, and for the one replaced');
  }
});

test('beforeRemoval is asked for a version that a crash left, and not for a temporary link', (t) => {
  const volume = temporaryDirectory(t);
  let asked = 0;
  const count = (): boolean => {
    asked += 1;
    return true;
  };
  write(new AtomicWriter(volume), '1', count);
  writeFileSync(join(volume, '..data_tmp'), '');
  write(new AtomicWriter(volume), '1', count);
  assert.equal(asked, 1, 'for the first content');
  mkdirSync(join(volume, '..2026_08_20_18_59_46.3049856227'));
  write(new AtomicWriter(volume), '1', count);
  assert.deepEqual([asked, versionsIn(volume)], [2, [liveVersion(volume)]]);
});

function replace(writer: AtomicWriter, data: string | Uint8Array): WriteOutcome {
  return writer.write(new Map([['d/a', { data: Buffer.from(data), mode: 0o644 }]]), { keepReplaced: true });
}

test('a replaced version that is kept is whole until it is removed, and unknown to the next writer', (t) => {
  const volume = temporaryDirectory(t);
  const writer = new AtomicWriter(volume);
  assert.equal(replace(writer, '1').replaced, undefined);
  const first = liveVersion(volume) ?? '';
  const second = replace(writer, '2');
  assert.deepEqual([second.replaced, second.leftBehind], [first, 0]);
  const third = replace(writer, '3');
  assert.equal(third.replaced, second.version);
  assert.deepEqual([replace(writer, '3').changed, replace(writer, '3').changed], [false, false]);
  // As a reader that followed `..data` before the update and goes on only now.
  assert.equal(readFileSync(join(volume, first, 'd/a'), 'utf8'), '1');
  assert.equal(readFileSync(join(volume, second.version, 'd/a'), 'utf8'), '2');
  writer.removeReplaced(first);
  assert.deepEqual(versionsIn(volume).sort(), [second.version, third.version].sort());
  replace(new AtomicWriter(volume), '3');
  assert.deepEqual(versionsIn(volume), [third.version]);
  writer.removeReplaced();
  assert.deepEqual(visibleFiles(volume), { 'd/a': '3' });
});

test('a removal keeps the mark of a known directory, and hides no change of another process', (t) => {
  const volume = temporaryDirectory(t);
  const longAgo = 1_000_000_000_000;
  let number = 0;
  const writer = new AtomicWriter(volume, { now: () => longAgo, random: () => (number += 1) });
  for (const text of ['1', '2']) replace(writer, text);
  writer.removeReplaced();
  assert.ok(statSync(volume).mtimeMs <= longAgo, 'marked: the next update need not list it');
  replace(writer, '3');
  writeFileSync(join(volume, '..data_tmp'), '');
  writer.removeReplaced();
  assert.ok(statSync(volume).mtimeMs > longAgo, 'not marked: it has to be listed');
  replace(writer, '4');
  assert.ok(!existsSync(join(volume, '..data_tmp')));
});

for (const { bytes, kept } of [
  { bytes: 10, kept: 2 },
  { bytes: 1 << 20, kept: 2 },
  { bytes: (1 << 20) + 1, kept: 1 },
  { bytes: (2 << 20) + 1, kept: 0 },
]) {
  test(`of replaced versions of ${bytes} bytes ${kept} are kept, the newest`, (t) => {
    const volume = temporaryDirectory(t);
    for (const isKnown of [true, false]) {
      let writer = new AtomicWriter(volume);
      const names = [65, 66, 67, 68, 69].map((letter) => {
        if (letter === 69 && !isKnown) writer = new AtomicWriter(volume);
        return replace(writer, Buffer.alloc(bytes, letter)).version;
      });
      const wanted = isKnown ? kept : Math.min(kept, 1); // another writer takes those before for leftovers
      assert.deepEqual(versionsIn(volume).sort(), names.slice(4 - wanted).sort());
    }
  });
}

test('kept versions give way to a new one that needs their room', (t) => {
  const volume = temporaryDirectory(t);
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', volume], { encoding: 'utf8' });
  if (mounted.status !== 0) return t.skip(`needs root and mount(8): ${mounted.error?.message ?? mounted.stderr}`);
  try {
    const writer = new AtomicWriter(volume);
    for (const letter of ['a', 'b', 'c', 'd', 'e']) {
      const text = letter.repeat(24 * 1024);
      assert.equal(replace(writer, text).changed, true);
      assert.deepEqual(visibleFiles(volume), { 'd/a': text });
    }
    assert.throws(() => replace(writer, 'x'.repeat(64 * 1024)), { code: 'ENOSPC' });
    assert.deepEqual(visibleFiles(volume), { 'd/a': 'e'.repeat(24 * 1024) });
  } finally {
    spawnSync('umount', [volume]);
  }
});

test('a volume that is gone keeps nothing and fails no removal', (t) => {
  const volume = join(temporaryDirectory(t), 'volume');
  mkdirSync(volume);
  const writer = new AtomicWriter(volume);
  for (const text of ['1', '2']) replace(writer, text);
  rmSync(volume, { recursive: true });
  writer.removeReplaced();
  mkdirSync(volume);
  replace(writer, '3');
  assert.deepEqual(versionsIn(volume), [liveVersion(volume)]);
});
