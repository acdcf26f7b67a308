import assert from 'node:assert/strict';
import { readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { openStore, put, remove, valueOf } from '../../testing/servers/stores.ts';

const maps = '/registry/core/configmaps/a/';

/** A store with two objects, one changed and one large, and a change of the bytes of its file. */
async function damagedStore(t: TestContext, damage: (bytes: Buffer) => void): Promise<string> {
  const directory = temporaryDirectory(t);
  const store = await openStore(directory);
  await put(store, `${maps}small`, 'before');
  await put(store, `${maps}small`, 'needle-small');
  await put(store, `${maps}large`, `needle-large ${'x'.repeat(50_000)} needle-end`);
  await put(store, `${maps}gone`, 'needle-gone');
  await remove(store, `${maps}gone`);
  await put(store, '/registry/core/pods/a/whole', 'whole');
  await store.close();
  const file = join(directory, 'snapshot');
  const bytes = readFileSync(file);
  damage(bytes);
  writeFileSync(file, bytes);
  return directory;
}

/** Flips a bit of every copy; old pages have copies too, so that the place of the newest need not be known. */
function flipAll(bytes: Buffer, needle: string): void {
  for (let at = bytes.indexOf(needle); at !== -1; at = bytes.indexOf(needle, at + 1)) {
    bytes.writeUInt8(bytes.readUInt8(at + 1) ^ 1, at + 1);
  }
}

for (const { what, needle, key } of [
  { what: 'a flipped bit', needle: 'needle-small', key: `${maps}small` },
  { what: 'a flipped bit far inside a large value', needle: 'needle-end', key: `${maps}large` },
]) {
  test(`${what} is reported with its key; nothing of the value is served, and the rest is`, async (t) => {
    const directory = await damagedStore(t, (bytes) => flipAll(bytes, needle));
    const store = await openStore(directory);
    assert.match(store.damaged.find((damaged) => damaged.key === key)?.reason ?? '', /checksum/);
    assert.throws(() => store.get(key), { reason: 'DamagedValue' });
    assert.throws(() => store.list({ prefix: maps }), { reason: 'DamagedValue' });
    await assert.rejects(put(store, key, 'over it'), { reason: 'DamagedValue' });
    assert.equal(store.get('/registry/core/pods/a/whole')?.value, valueOf('whole', 6));
    assert.equal(store.list({ prefix: '/registry/core/pods/' }).items.length, 1);
    await put(store, '/registry/core/pods/a/new', 'goes on');
    await store.close();
  });
}

test('a damaged change makes the log begin behind it, and stays away after the next write', async (t) => {
  const directory = await damagedStore(t, (bytes) => flipAll(bytes, 'needle-gone'));
  for (const revision of [6, 7]) {
    const store = await openStore(directory);
    assert.equal(store.compactedRevision, 5);
    assert.deepEqual(
      store.damaged.map(({ key }) => key),
      revision === 6 ? ['change 5'] : [],
    );
    assert.equal(store.changesAfter(5, '/').length, revision - 5);
    assert.equal(store.list({ prefix: maps }).items.length, 2);
    await put(store, '/registry/core/pods/a/new', 'next');
    await store.close();
  }
});

test('a file that was cut short is opened without a crash, and nothing wrong is served from it', async (t) => {
  const directory = await damagedStore(t, () => undefined);
  const file = join(directory, 'snapshot');
  truncateSync(file, statSync(file).size - 3 * 4096);
  let store;
  try {
    store = await openStore(directory);
  } catch (error) {
    assert.equal((error as { reason?: string }).reason, 'StoreFormat', String(error));
    return;
  }
  for (const key of [`${maps}small`, `${maps}large`]) {
    const { revision } = store.damaged.some((damaged) => damaged.key === key)
      ? { revision: 0 }
      : (store.get(key) ?? { revision: -1 });
    assert.ok([0, 2, 3].includes(revision), key);
  }
  await store.close();
});

for (const { what, bytes } of [
  { what: 'text', bytes: Buffer.alloc(100_000, 'text') },
  { what: 'a few bytes', bytes: Buffer.from('x') },
  { what: 'zeros', bytes: Buffer.alloc(8192) },
]) {
  test(`a data file of ${what} is refused with a message`, async (t) => {
    const directory = temporaryDirectory(t);
    writeFileSync(join(directory, 'snapshot'), bytes);
    await assert.rejects(openStore(directory), { reason: 'StoreFormat' });
    assert.deepEqual(readFileSync(join(directory, 'snapshot')), bytes);
  });
}
