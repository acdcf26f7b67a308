import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/temporary-directory.ts';
import { liveVersion } from '../../testing/volume-content.ts';
import { AtomicWriter, type WriteOutcome } from './atomic-writer.ts';

function versionsIn(volume: string): string[] {
  return readdirSync(volume).filter((name) => /^\.\.\d/.test(name));
}

function write(writer: AtomicWriter, text: string, beforeRemoval: () => boolean): WriteOutcome {
  return writer.write(new Map([['a', { data: Buffer.from(text), mode: 0o644 }]]), { beforeRemoval });
}

test('beforeRemoval is asked when the new content is visible and the old is still there, and only then', (t) => {
  const volume = temporaryDirectory(t);
  const writer = new AtomicWriter(volume);
  const seen: unknown[] = [];
  const beforeRemoval = (): boolean => {
    seen.push([readFileSync(join(volume, 'a'), 'utf8'), versionsIn(volume).length]);
    return true;
  };
  for (const text of ['1', '1', '2', '2', '3']) assert.equal(write(writer, text, beforeRemoval).leftBehind, 0);
  assert.deepEqual(seen, [
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
  assert.equal(asked, 0);
  mkdirSync(join(volume, '..2026_08_20_18_59_46.3049856227'));
  write(new AtomicWriter(volume), '1', count);
  assert.deepEqual([asked, versionsIn(volume)], [1, [liveVersion(volume)]]);
});
