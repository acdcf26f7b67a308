import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { openStore, put, remove, valueOf } from '../../testing/servers/stores.ts';
import { DiskFullError } from './store-errors.ts';

// The disk fills while the log grows, or while a snapshot is written.
for (const sizeKb of [20_000, 22_500, 24_000, 27_000]) {
  test(`on a full disk of ${sizeKb} KiB writes are refused in words, deletions are not, nothing that was acknowledged is lost, and with room again it goes on`, async (t) => {
    if (process.getuid?.() !== 0) return t.skip('needs root: mounts a small tmpfs');
    const small = join(temporaryDirectory(t), 'small');
    mkdirSync(small);
    assert.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeKb}k`, 'none', small]).status, 0);
    try {
      await fillAndGoOn(small);
    } finally {
      spawnSync('umount', ['-l', small]);
    }
  });
}

const key = (i: number): string => `/registry/core/configmaps/a/${i}`;

async function fillAndGoOn(small: string): Promise<void> {
  let store = await openStore(small);
  let written = 0;
  let failure: unknown;
  for (; failure === undefined && written < 2_000; written += failure === undefined ? 1 : 0) {
    failure = await put(store, key(written), 'x'.repeat(20_000))
      .catch((error: unknown) => error)
      .then((result) => (result instanceof Error ? result : undefined));
  }
  assert.ok(failure instanceof DiskFullError, String(failure));
  assert.match(failure.message, /disk .* is full: nothing was changed; free some room .*deleting objects still works/);
  assert.equal(store.revision, written);
  assert.equal(store.get(key(written)), undefined);
  // Something else takes what little is left.
  fillUp(join(small, 'other'));
  await assert.rejects(put(store, key(written), 'x'), DiskFullError, 'however small');

  // An object that is being deleted is marked first, and all can be deleted, before and after a restart.
  const ending = { kind: 'put', value: 'marked', result: undefined, ending: true } as const;
  await store.update(key(0), () => ending);
  for (let i = 0; i < written / 2; i += 1) await remove(store, key(i));
  await store.close();
  // A snapshot that was being written when the disk filled up may have made room.
  fillUp(join(small, 'more'));
  store = await openStore(small);
  assert.deepEqual(store.damaged, []);
  await assert.rejects(put(store, key(written), 'x'), DiskFullError, 'after a restart too');
  for (let i = Math.ceil(written / 2); i < written; i += 1) {
    assert.equal(store.get(key(i))?.value, valueOf('x'.repeat(20_000), i + 1));
    await remove(store, key(i));
  }
  assert.deepEqual(store.list({ prefix: '/' }).items, []);
  const { revision } = store;
  assert.equal(revision, 2 * written + 1);

  assert.equal(spawnSync('mount', ['-o', 'remount,size=80m', small]).status, 0);
  // The first who is refused makes the store look for room.
  while (failure instanceof DiskFullError) {
    failure = await put(store, key(written), 'x'.repeat(20_000)).then(
      () => undefined,
      (error: unknown) => error,
    );
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(failure, undefined);
  await store.close();
  store = await openStore(small);
  assert.equal(store.list({ prefix: '/' }).items.length, 1);
  assert.equal(store.revision, revision + 1);
  await store.close();
}

function fillUp(file: string): void {
  spawnSync('dd', ['if=/dev/zero', `of=${file}`, 'bs=4k']);
}
