import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openStore, put } from '../../testing/stores.ts';
import { temporaryDirectory } from '../../testing/temporary-directory.ts';
import { CommitError } from './store-errors.ts';

// The disk fills while the log grows, or while what is in the log is being moved to the tables.
for (const sizeKb of [2_000, 4_500, 6_000, 9_000]) {
  test(`on a full disk of ${sizeKb} KiB writes are refused, nothing that was acknowledged is lost, and with room again it goes on`, async (t) => {
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

/** Writes until it cannot, then gets more room. */
async function fillAndGoOn(small: string): Promise<void> {
  let store = await openStore(small);
  const key = (i: number): string => `/registry/core/configmaps/a/${i}`;
  let count = 0;
  let failure: unknown;
  for (; failure === undefined && count < 1_000; count += 1) {
    failure = await put(store, key(count), 'x'.repeat(20_000)).then(
      () => undefined,
      (error: unknown) => error,
    );
  }
  assert.ok(failure instanceof CommitError, String(failure));
  // The engine calls a write that went in half an I/O error.
  assert.match(failure.message, /Input.output error|no space left/i);
  const written = count - 1;
  assert.equal(store.revision, written);
  assert.equal(store.get(key(written)), undefined);
  await assert.rejects(put(store, key(written), 'x'.repeat(20_000)), CommitError, 'still');

  assert.equal(spawnSync('mount', ['-o', 'remount,size=40m', small]).status, 0);
  assert.equal((await put(store, key(written), 'x'.repeat(20_000))).revision, written + 1);
  await store.close();
  store = await openStore(small);
  assert.deepEqual(store.damaged, []);
  assert.equal(store.list({ prefix: '/' }).items.length, written + 1);
  assert.equal(store.revision, written + 1);
  await store.close();
}
