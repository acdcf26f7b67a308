/** The log before the tables: what a start makes of it, at each boundary where a machine could have stopped. */
import assert from 'node:assert/strict';
import { appendFileSync, cpSync, mkdirSync, readFileSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { lockDirectory } from '../../disk/paths/directory-lock.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { openStore, put, remove } from '../../testing/servers/stores.ts';
import { backUpStore, restoreBackup } from './durable-store.ts';
import { decodeRecords, encodeRecord } from './row.ts';

import type { Store } from './store.ts';
import { StoreError } from './store-errors.ts';

const logFileNames = ['log.0', 'log.1'] as const;
const maps = '/registry/core/configmaps/a/';
const large = 'x'.repeat(300_000);

function contentOf(store: Store & { readonly compactedRevision: number }): unknown {
  const { items, revision } = store.list({ prefix: '/' });
  return { items, revision, changes: store.changesAfter(store.compactedRevision, '/') };
}

/** What a disk would have at this moment. Only between writes, when no transaction is under way. */
function image(t: TestContext, directory: string): string {
  const copy = join(temporaryDirectory(t), 'image');
  mkdirSync(copy);
  for (const name of readdirSync(directory).filter((other) => /^(snapshot|log\.\d+)$/.test(other)))
    cpSync(join(directory, name), join(copy, name));
  return copy;
}

/** Where the last record ends: the file is longer. */
function endOfLog(bytes: Buffer): number {
  return decodeRecords(bytes).records.reduce((end, record) => end + encodeRecord(record).length, 0);
}

test('after every write a machine could stop: what was acknowledged is there', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openStore(directory);
  for (let count = 0; count < 30; count += 1) {
    if (count % 7 === 6) await remove(store, `${maps}${count - 1}`);
    else await put(store, `${maps}${count}`, count % 3 === 0 ? large : 'small');
    if (count % 5 !== 0) continue;
    const stopped = await openStore(image(t, directory));
    assert.deepEqual(contentOf(stopped), contentOf(store));
    await stopped.close();
  }
  await store.close();
});

test('the log of commits that are in the tables already changes nothing', async (t) => {
  const directory = temporaryDirectory(t);
  let store = await openStore(directory);
  await put(store, `${maps}web`, 'old');
  const logs = logFileNames.map((name) => readFileSync(join(directory, name)));
  await put(store, `${maps}web`, 'new');
  const before = contentOf(store);
  await store.close();
  for (const [index, name] of logFileNames.entries()) {
    writeFileSync(join(directory, name), logs[index] ?? '');
  }
  store = await openStore(directory);
  assert.deepEqual(contentOf(store), before);
  await store.close();
});

test('half a record at the end of the log was never acknowledged and is left out', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openStore(directory);
  await put(store, `${maps}a`, 'one');
  const before = contentOf(store);
  const size = endOfLog(readFileSync(join(directory, logFileNames[0])));
  await put(store, `${maps}b`, 'two');
  for (const cut of [1, 10, 19, 20, 60]) {
    const copy = image(t, directory);
    truncateSync(join(copy, logFileNames[0]), size + cut);
    const stopped = await openStore(copy);
    assert.deepEqual(contentOf(stopped), before, `${cut} bytes of it`);
    await put(stopped, `${maps}c`, 'goes on');
    await stopped.close();
    // The same where the file had its length before: what was not written is zeros.
    const longer = image(t, directory);
    const log = readFileSync(join(longer, logFileNames[0]));
    writeFileSync(join(longer, logFileNames[0]), log.fill(0, size + cut));
    const restarted = await openStore(longer);
    assert.deepEqual(contentOf(restarted), before, `${cut} bytes of it and zeros`);
    await restarted.close();
  }
  const copy = image(t, directory);
  appendFileSync(join(copy, logFileNames[0]), Buffer.alloc(5000));
  const stopped = await openStore(copy);
  assert.deepEqual(contentOf(stopped), contentOf(store), 'zeros behind the end');
  await stopped.close();
  await store.close();
});

const damages = [
  {
    it: 'a flipped bit in the middle of the log',
    damage: (bytes: Buffer): Buffer => {
      bytes[bytes.indexOf('needle')] = 0;
      return bytes;
    },
  },
  { it: 'a log without its beginning', damage: (bytes: Buffer): Buffer => bytes.subarray(endOfLog(bytes) / 2) },
];
for (const { it, damage } of damages) {
  test(`${it} is refused with what to do, and not taken for its end`, async (t) => {
    const directory = temporaryDirectory(t);
    const store = await openStore(directory);
    // Two records of the same length.
    await put(store, `${maps}a`, 'needle');
    await put(store, `${maps}b`, 'needle');
    const copy = image(t, directory);
    const log = join(copy, logFileNames[0]);
    writeFileSync(log, damage(readFileSync(log)));
    await assert.rejects(openStore(copy), (error: unknown) => {
      assert.ok(error instanceof StoreError);
      assert.equal(error.reason, 'StoreFormat');
      assert.match(
        error.message,
        /its log is damaged behind commit 0.*restore a backup: mountlet apiserver restore FILE --data/,
      );
      return true;
    });
    lockDirectory(copy).release();
    await store.close();
  });
}

test('a log that has been written over many times is read to its end and no further', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openStore(directory);
  // Each file comes around several times, with records of equal length, so that old ones follow right behind new ones.
  for (let count = 0; count < 60; count += 1) {
    await put(store, `${maps}${count % 7}`, `${count % 10}${large}`);
    if (count % 9 !== 0) continue;
    const stopped = await openStore(image(t, directory));
    assert.deepEqual(contentOf(stopped), contentOf(store));
    await stopped.close();
  }
  await store.close();
});

test('a backup by another process has all that was acknowledged before it, in the log or in the tables', async (t) => {
  const root = temporaryDirectory(t);
  const directory = join(root, 'store');
  const store = await openStore(directory);
  for (let count = 0; count < 20; count += 1) {
    await put(store, `${maps}${count}`, count % 2 === 0 ? large : 'small');
    if (count % 6 !== 5) continue;
    await backUpStore(directory, join(root, `backup-${count}`));
    await restoreBackup(join(root, `backup-${count}`), join(root, `restored-${count}`));
    const restored = await openStore(join(root, `restored-${count}`));
    assert.deepEqual(restored.list({ prefix: '/' }).items, store.list({ prefix: '/' }).items);
    await restored.close();
  }
  await store.close();
});
