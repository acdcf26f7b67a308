import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmodSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { openStore, put, remove, valueOf } from '../../testing/servers/stores.ts';
import {
  EncryptionKeyError,
  ValueSeal,
  encryptionKey,
  ensureEncryptionKeys,
  keepNewestEncryptionKey,
  readEncryptionKeys,
  rotateEncryptionKeys,
} from './encryption.ts';

const secrets = '/registry/core/secrets/';
const newKey = (): ReturnType<typeof encryptionKey> => encryptionKey(randomBytes(32));
const contentOf = (directory: string): string =>
  readdirSync(directory)
    .map((name) => readFileSync(join(directory, name), 'latin1'))
    .join('\n');

test('api-server 19.8: a secret is nowhere in clear: not in the objects, the change log or a backup', async (t) => {
  const root = temporaryDirectory(t);
  const directory = join(root, 'store');
  const options = { keys: [newKey()] };
  let store = await openStore(directory, options);
  await put(store, `${secrets}a/x`, 'hunter1');
  await put(store, `${secrets}a/x`, 'hunter2');
  await put(store, `${secrets}a/y`, `hunter3${'h'.repeat(10_000)}`);
  await remove(store, `${secrets}a/y`);
  await put(store, '/registry/core/configmaps/a/x', 'plainly here');
  await store.backup(join(root, 'backup'));
  assert.match(contentOf(directory), /plainly here/);
  for (const content of [contentOf(directory), readFileSync(join(root, 'backup'), 'latin1')]) {
    assert.doesNotMatch(content, /hunter|hhhh/);
  }
  await store.close();
  assert.doesNotMatch(contentOf(directory), /hunter|hhhh/);
  store = await openStore(directory, options);
  assert.equal(store.get(`${secrets}a/x`)?.value, valueOf('hunter2', 2));
  assert.deepEqual(
    store.changesAfter(1, secrets).map(({ previous }) => previous),
    [valueOf('hunter1', 1), undefined, valueOf(`hunter3${'h'.repeat(10_000)}`, 3)],
  );
  await store.close();
});

test('without the key a secret is reported and not served; everything else is', async (t) => {
  const directory = temporaryDirectory(t);
  const key = newKey();
  let store = await openStore(directory, { keys: [key] });
  await put(store, `${secrets}a/x`, 'hunter2');
  await put(store, '/registry/core/pods/a/x', 'pod');
  await store.close();
  store = await openStore(directory, { keys: [newKey()] });
  assert.throws(() => store.get(`${secrets}a/x`), new RegExp(`^StoreError: Cannot read "${secrets}a/x".*"${key.id}"`));
  assert.throws(() => store.list({ prefix: secrets }), { reason: 'DamagedValue' });
  assert.equal(store.get('/registry/core/pods/a/x')?.revision, 2);
  assert.equal(store.compactedRevision, 1, 'the change that cannot be told is as if compacted');
  await store.close();
});

test('keys are changed in a running life: the new one encrypts, the old one reads, resealing frees the old one', async (t) => {
  const directory = temporaryDirectory(t);
  const [old, fresh] = [newKey(), newKey()];
  let store = await openStore(directory, { keys: [] });
  await put(store, `${secrets}a/0`, 'in clear, from before there was a key');
  await store.close();
  store = await openStore(directory, { keys: [old] });
  for (let i = 1; i < 150; i += 1) await put(store, `${secrets}a/${i}`, String(i));
  await remove(store, `${secrets}a/149`);
  await store.close();
  store = await openStore(directory, { keys: [fresh, old] });
  const before = [store.list({ prefix: secrets }), store.changesAfter(0, '/')];
  const [written] = await Promise.all([store.reseal(), put(store, `${secrets}a/5`, 'meanwhile')]);
  assert.equal(written, 149 + 1, 'all objects, and the one change with a value of its own');
  assert.equal(await store.reseal(), 0);
  await store.close();
  store = await openStore(directory, { keys: [fresh] });
  assert.deepEqual(store.damaged, []);
  assert.equal(store.get(`${secrets}a/5`)?.value, valueOf('meanwhile', 152));
  assert.deepEqual(
    [store.list({ prefix: secrets, atRevision: 151 }), store.changesAfter(0, '/').slice(0, 151)],
    before,
  );
  await store.close();
});

test('a sealed value opens only in its own place', () => {
  const seal = new ValueSeal([newKey()], () => true);
  const place = { part: 'object', key: '/a/b', revision: 7 } as const;
  const bytes = seal.seal(place, 'hunter2');
  assert.deepEqual(seal.open(place, bytes), { value: 'hunter2', isStale: false });
  assert.notDeepEqual(seal.seal(place, 'hunter2'), bytes, 'never the same twice');
  for (const other of [{ ...place, key: '/a/c' }, { ...place, revision: 8 }, { ...place, part: 'deleted' } as const]) {
    assert.deepEqual(seal.open(other, bytes), { damage: 'it is not what was encrypted there' });
  }
  for (let length = 0; length < bytes.length; length += 1)
    assert.ok('damage' in seal.open(place, bytes.subarray(0, length)));
  for (let at = 0; at < bytes.length; at += 1) {
    const flipped = Buffer.from(bytes);
    flipped.writeUInt8(flipped.readUInt8(at) ^ 4, at);
    assert.ok('damage' in seal.open(place, flipped), `byte ${at}`);
  }
});

test('the key file is made once, for its owner alone, and holds the newest key first', (t) => {
  const directory = temporaryDirectory(t);
  const file = join(directory, 'keys');
  const [first, ...none] = ensureEncryptionKeys(file);
  assert.deepEqual(none, []);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(
    ensureEncryptionKeys(file).map(({ id }) => id),
    [first?.id],
  );
  const rotated = rotateEncryptionKeys(file);
  assert.equal(rotated.length, 2);
  assert.equal(rotated[1]?.id, first?.id);
  assert.deepEqual(
    keepNewestEncryptionKey(file).map(({ id }) => id),
    [rotated[0]?.id],
  );
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(directory), ['keys'], 'no draft is left');
  assert.ok(!inspect(rotated, { depth: 9 }).includes(readFileSync(file, 'utf8').trim()), 'a key does not print itself');
});

for (const { what, make, message } of [
  {
    what: 'others can read',
    make: (file: string) => {
      writeFileSync(file, `${randomBytes(32).toString('base64')}\n`);
      chmodSync(file, 0o640);
    },
    message: /chmod 600/,
  },
  { what: 'is empty', make: (file: string) => writeFileSync(file, '\n', { mode: 0o600 }), message: /no key/ },
  {
    what: 'has a short key',
    make: (file: string) => writeFileSync(file, `${randomBytes(16).toString('base64')}\n`, { mode: 0o600 }),
    message: /line 1 is not base64/,
  },
  { what: 'is a link', make: (file: string) => symlinkSync('/dev/zero', file), message: /ELOOP/ },
]) {
  test(`a key file that ${what} is refused and left as it is`, (t) => {
    const file = join(temporaryDirectory(t), 'keys');
    make(file);
    assert.throws(
      () => ensureEncryptionKeys(file),
      (error: unknown) => error instanceof EncryptionKeyError && message.test(error.message),
    );
    assert.throws(() => readEncryptionKeys(file), EncryptionKeyError);
  });
}
