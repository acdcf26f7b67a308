/** What the version before wrote, with LMDB: `test/fixtures/store-format-1` is a store that was killed while its log was not empty. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { openStore, put, valueOf } from '../../testing/servers/stores.ts';
import { backUpStore, restoreBackup } from './durable-store.ts';
import { encryptionKey } from './encryption.ts';

import type { Store } from './store.ts';

const fixture = fileURLToPath(new URL('../../../../test/fixtures/store-format-1/', import.meta.url));
const options = { keys: [encryptionKey(Buffer.alloc(32, 5))] };

function oldStore(t: TestContext): string {
  const directory = temporaryDirectory(t);
  for (const name of ['data.mdb', 'log.0'])
    writeFileSync(join(directory, name), gunzipSync(readFileSync(join(fixture, `${name}.gz`))));
  return directory;
}

function checkObjects(store: Store): void {
  assert.deepEqual(store.damaged, []);
  assert.equal(store.list({ prefix: '/' }).items.length, 60);
  assert.equal(store.get('/registry/core/configmaps/a/3')?.value, valueOf('large '.repeat(2000), 4));
  assert.equal(store.get('/registry/core/secrets/a/x')?.value, valueOf('hunter2', 61));
}

test('a store of the format before is converted at the first start, with what was only in its log', async (t) => {
  const directory = oldStore(t);
  for (const revision of [63, 64]) {
    const store = await openStore(directory, options);
    checkObjects(store);
    assert.equal(store.revision, revision);
    if (revision === 63) {
      assert.equal(store.compactedRevision, 63, 'clients list again');
      assert.equal(store.get('/registry/core/configmaps/a/1')?.value, valueOf('only in the log', 62));
      assert.equal(store.get('/registry/core/configmaps/a/2'), undefined);
    }
    await put(store, '/registry/core/configmaps/a/1', 'goes on');
    await store.close();
    assert.ok(!readdirSync(directory).some((name) => name.endsWith('.mdb')));
  }
});

test('a backup of the format before is restored', async (t) => {
  const directory = oldStore(t);
  await assert.rejects(backUpStore(directory, join(directory, 'backup')), { reason: 'BackupFailed' });
  const backup = join(temporaryDirectory(t), 'backup');
  writeFileSync(backup, readFileSync(join(directory, 'data.mdb')));
  await restoreBackup(backup, join(directory, 'restored'));
  const store = await openStore(join(directory, 'restored'), options);
  assert.equal(store.revision, 1_000_000_061);
  assert.deepEqual(store.damaged, []);
  assert.equal(store.list({ prefix: '/' }).items.length, 61);
  await store.close();
});

for (const { what, bytes } of [
  { what: 'text', bytes: Buffer.alloc(100_000, 'text') },
  { what: 'a few bytes', bytes: Buffer.from('x') },
  { what: 'zeros', bytes: Buffer.alloc(8192) },
]) {
  test(`a data file of the format before with ${what} is refused with a message`, async (t) => {
    const directory = temporaryDirectory(t);
    writeFileSync(join(directory, 'data.mdb'), bytes);
    await assert.rejects(openStore(directory), { reason: 'StoreFormat' });
    assert.deepEqual(readFileSync(join(directory, 'data.mdb')), bytes);
  });
}
