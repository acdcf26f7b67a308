import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FakeClock } from '../../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { openStore, put, remove, valueOf } from '../../testing/servers/stores.ts';
import { restoreBackup, storeDefaults } from './durable-store.ts';
import { CompactedError, FutureRevisionError, StoreClosedError, StoreFullError } from './store-errors.ts';
import type { Change } from './store.ts';

const maps = '/registry/core/configmaps/';
const names = (items: readonly { readonly key: string }[]): string[] => items.map(({ key }) => key.slice(maps.length));

test('an object is there with its revision as soon as its write is answered, and after a restart', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openStore(directory);
  const first = await put(store, `${maps}shop/web`, 'one');
  assert.equal(first.revision, 1);
  assert.deepEqual(store.get(first.key), first);
  await store.close();
  const again = await openStore(directory);
  assert.deepEqual(again.get(first.key), first);
  assert.equal(again.revision, 1);
  const second = await put(again, first.key, 'two');
  assert.equal(second.revision, 2);
  await again.close();
});

test('api-server 7.4: one revision counter for all keys; a decision to keep uses none up', async (t) => {
  const store = await openStore(temporaryDirectory(t));
  await put(store, `${maps}a/x`, '1');
  assert.equal(
    await store.update(`${maps}a/x`, (current, next) => ({ kind: 'keep', result: `${current?.revision} ${next}` })),
    '1 2',
  );
  assert.equal(await remove(store, `${maps}a/none`), undefined);
  assert.equal((await put(store, '/registry/core/pods/a/x', '2')).revision, 2);
  assert.equal(await remove(store, `${maps}a/x`), 3);
  assert.equal(store.get(`${maps}a/x`), undefined);
  assert.equal(store.revision, 3);
  await store.close();
});

test('decisions are taken in the order of the calls, each on the result of the one before', async (t) => {
  const store = await openStore(temporaryDirectory(t));
  const key = `${maps}a/counter`;
  const add = (): Promise<number> =>
    store.update(key, (current) => {
      const next = Number(current?.value ?? 0) + 1;
      return { kind: 'put', value: String(next), result: next };
    });
  const results = Array.from({ length: 100 }, add);
  assert.equal(store.get(key), undefined, 'nothing is visible before it is on disk');
  assert.deepEqual(
    await Promise.all(results),
    Array.from({ length: 100 }, (_, i) => i + 1),
  );
  assert.deepEqual(store.get(key), { key, value: '100', revision: 100 });
  await store.close();
});

test('of many that update the same revision one wins, the others are told, and none is lost', async (t) => {
  const store = await openStore(temporaryDirectory(t));
  const { key } = await put(store, `${maps}a/x`, '0');
  const replace = (): Promise<boolean> =>
    store.update<boolean>(key, (current, revision) =>
      current?.revision === 1
        ? { kind: 'put', value: valueOf('won', revision), result: true }
        : { kind: 'keep', result: false },
    );
  const results = await Promise.all(Array.from({ length: 50 }, replace));
  assert.equal(results.filter(Boolean).length, 1);
  assert.equal(store.revision, 2);
  await store.close();
});

test('a decision that throws rejects its own update and nothing else', async (t) => {
  const store = await openStore(temporaryDirectory(t));
  const outcomes = await Promise.allSettled([
    put(store, `${maps}a/x`, '1'),
    store.update(`${maps}a/y`, () => {
      throw new Error('no');
    }),
    put(store, `${maps}a/z`, '2'),
  ]);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.equal(store.revision, 2);
  await store.close();
});

test('api-server 8.1: lists are in byte order of the key and stop at the prefix', async (t) => {
  const store = await openStore(temporaryDirectory(t));
  const wanted = ['a-b/x', 'a/x', 'a/x-y', 'a/x.y', 'a/\u{ff5e}', 'a/\u{1f600}', 'b/x'];
  await Promise.all(wanted.toReversed().map((name) => put(store, maps + name, name)));
  await put(store, '/registry/core/configmaps-other/a/x', 'not this');
  assert.deepEqual(names(store.list({ prefix: maps }).items), wanted);
  assert.deepEqual(names(store.list({ prefix: `${maps}a/` }).items), wanted.slice(1, 6));
  await store.close();
});

test('api-server 8.3: pages walk all items once, with the count of the rest, while objects come and go', async (t) => {
  const store = await openStore(temporaryDirectory(t));
  const all = Array.from({ length: 25 }, (_, i) => `a/${String(i).padStart(2, '0')}`);
  await Promise.all(all.map((name) => put(store, maps + name, name)));
  const first = store.list({ prefix: maps, limit: 10 });
  assert.equal(first.remaining, 15);
  const found = names(first.items);
  let after = first.items.at(-1)?.key;
  while (after !== undefined) {
    await remove(store, maps + (all[found.length - 5] ?? ''));
    await remove(store, maps + (all[found.length + 2] ?? ''));
    await put(store, `${maps}a/${String(found.length).padStart(2, '0')}x`, 'new');
    const page = store.list({ prefix: maps, limit: 10, after, atRevision: first.revision });
    assert.equal(page.revision, first.revision);
    found.push(...names(page.items));
    assert.equal(page.remaining, 25 - found.length);
    after = page.remaining > 0 ? page.items.at(-1)?.key : undefined;
  }
  assert.deepEqual(found, all);
  await store.close();
});

test('api-server 8.2: a list of the past has the values and revisions of then, also after a restart', async (t) => {
  const directory = temporaryDirectory(t);
  let store = await openStore(directory);
  const one = await put(store, `${maps}a/x`, 'one');
  const two = await put(store, `${maps}a/y`, 'two');
  await put(store, `${maps}a/x`, 'three');
  await remove(store, `${maps}a/y`);
  await put(store, `${maps}a/z`, 'four');
  for (const restart of [false, true]) {
    if (restart) {
      await store.close();
      store = await openStore(directory);
    }
    assert.deepEqual(store.list({ prefix: maps, atRevision: 2 }), { items: [one, two], revision: 2, remaining: 0 });
    assert.deepEqual(names(store.list({ prefix: maps, atRevision: 0 }).items), []);
    assert.deepEqual(names(store.list({ prefix: maps, atRevision: 4 }).items), ['a/x']);
    assert.throws(() => store.list({ prefix: maps, atRevision: 6 }), FutureRevisionError);
  }
  await store.close();
});

test('api-server 9.2, 9.3: changes come in order, each once, with what was before and the revision of the deletion', async (t) => {
  const directory = temporaryDirectory(t);
  let store = await openStore(directory);
  const heard: Change[] = [];
  const stop = store.subscribe((changes) => heard.push(...changes));
  await Promise.all([
    put(store, `${maps}a/x`, '1'),
    put(store, '/registry/core/pods/a/x', 'p'),
    put(store, `${maps}a/x`, '2'),
  ]);
  await remove(store, `${maps}a/x`);
  stop();
  await put(store, `${maps}a/z`, 'not heard');
  assert.deepEqual(
    heard.map(({ type, revision }) => `${type} ${revision}`),
    ['put 1', 'put 2', 'put 3', 'delete 4'],
  );
  const plain = ({ type, key, revision, value, previous }: Change): unknown[] => [type, key, revision, value, previous];
  const expected = [
    ['put', `${maps}a/x`, 3, valueOf('2', 3), valueOf('1', 1)],
    ['delete', `${maps}a/x`, 4, valueOf('deleted', 4), valueOf('2', 3)],
    ['put', `${maps}a/z`, 5, valueOf('not heard', 5), undefined],
  ];
  assert.deepEqual(store.changesAfter(1, maps).map(plain), expected);
  await store.close();
  store = await openStore(directory);
  assert.deepEqual(store.changesAfter(1, maps).map(plain), expected);
  assert.deepEqual(store.changesAfter(99, maps), []);
  await store.close();
});

test('api-server 9.4, 18.2: the log is bounded by count and bytes, and by age only above its minimum', async (t) => {
  const directory = temporaryDirectory(t);
  const clock = new FakeClock();
  const limits = { ...storeDefaults, changesMin: 5, ageMsMin: 60_000, changesMax: 20, bytesMax: 1_000_000 };
  const options = { limits, now: () => clock.now() };
  let store = await openStore(directory, options);
  for (let i = 0; i < 10; i += 1) await put(store, `${maps}a/x`, String(i));
  await clock.advance(3_600_000);
  assert.equal(store.compactedRevision, 0, 'age alone removes nothing while nothing happens');
  await put(store, `${maps}a/x`, 'later');
  assert.equal(store.compactedRevision, 6, 'five are left of what is old, with the new one');
  assert.throws(() => store.changesAfter(5, maps), CompactedError);
  assert.equal(store.changesAfter(6, maps).length, 5);
  assert.throws(() => store.list({ prefix: maps, atRevision: 5 }), CompactedError);
  assert.equal(store.list({ prefix: maps, atRevision: 6 }).items[0]?.value, valueOf('5', 6));
  for (let i = 0; i < 30; i += 1) await put(store, `${maps}a/x`, String(i));
  assert.equal(store.revision - store.compactedRevision, 20);
  await store.close();
  store = await openStore(directory, options);
  assert.equal(store.compactedRevision, 21, 'it persists');
  await put(store, `${maps}a/x`, 'x'.repeat(1_000_000));
  assert.equal(store.revision - store.compactedRevision, 1, 'bytes count too');
  await store.close();
});

test('a second process is refused with a message that says who has the store', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openStore(directory);
  await assert.rejects(openStore(directory), { reason: 'DirectoryInUse' });
  const program = `
    import { openStore } from ${JSON.stringify(new URL('../../testing/servers/stores.js', import.meta.url).href)};
    await openStore(process.argv[1]).catch((error) => { console.log(error.message); process.exit(7); });`;
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program, directory], {
    encoding: 'utf8',
  });
  assert.equal(status, 7);
  assert.match(stdout, new RegExp(`^Cannot use "${directory}": process ${process.pid} \\(.*\\) uses it`));
  await store.close();
  await (await openStore(directory)).close();
});

test('the files of a store are for their owner alone', async (t) => {
  const directory = join(temporaryDirectory(t), 'new', 'store');
  const store = await openStore(directory);
  assert.equal(statSync(directory).mode & 0o777, 0o700);
  for (const name of readdirSync(directory)) assert.equal(statSync(join(directory, name)).mode & 0o077, 0, name);
  await store.close();
});

test('a closed store finishes what was begun and refuses what comes later', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openStore(directory);
  const begun = Array.from({ length: 20 }, (_, i) => put(store, `${maps}a/${i}`, 'x'));
  const closed = store.close();
  await assert.rejects(put(store, `${maps}a/late`, 'x'), StoreClosedError);
  await Promise.all([...begun, closed]);
  const again = await openStore(directory);
  assert.equal(again.revision, 20);
  await again.close();
});

test('keys that the engine could not keep are refused one by one', async (t) => {
  const store = await openStore(temporaryDirectory(t));
  const good = put(store, `${maps}a/x`, '1');
  for (const key of ['', 'a', '/a/', `/${'x'.repeat(1024)}`])
    await assert.rejects(put(store, key, '1'), { reason: 'InvalidKey' });
  await put(store, `/${'x'.repeat(1023)}`, 'as long as it may be');
  await good;
  await store.close();
});

test('a full store refuses what makes it larger and takes what makes it smaller', async (t) => {
  const limits = { ...storeDefaults, objectBytesMax: 2_000 };
  const store = await openStore(temporaryDirectory(t), { limits });
  await put(store, `${maps}a/x`, 'x'.repeat(1_000));
  await assert.rejects(put(store, `${maps}a/y`, 'y'.repeat(1_000)), StoreFullError);
  await put(store, `${maps}a/x`, 'x'.repeat(500));
  await put(store, `${maps}a/y`, 'y'.repeat(1_000));
  await assert.rejects(put(store, `${maps}a/x`, 'x'.repeat(1_000)), StoreFullError);
  await remove(store, `${maps}a/y`);
  await put(store, `${maps}a/x`, 'x'.repeat(1_000));
  await store.close();
});

test('a large value survives, and the file grows as it must', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openStore(directory);
  const texts = Array.from({ length: 24 }, (_, i) => String.fromCharCode(97 + i).repeat(1024 * 1024));
  await Promise.all(texts.map((text, i) => put(store, `${maps}a/${i}`, text)));
  await store.close();
  const again = await openStore(directory);
  texts.forEach((text, i) => assert.equal(again.get(`${maps}a/${i}`)?.value, valueOf(text, i + 1)));
  await again.close();
});

test('a backup taken while writes go on is one moment of the store, and restores with a higher revision', async (t) => {
  const root = temporaryDirectory(t);
  const store = await openStore(join(root, 'store'));
  // Both of a pair get the same text, in this order: at any moment the first is as far as the second, or one ahead.
  const stop = new AbortController();
  const writer = (async () => {
    for (let i = 0; !stop.signal.aborted; i += 1)
      await Promise.all([put(store, `${maps}a/first`, String(i)), put(store, `${maps}a/second`, String(i))]);
  })();
  const file = join(root, 'backup');
  for (let i = 0; i < 3; i += 1) await store.backup(file);
  stop.abort();
  await writer;
  const lastRevision = store.revision;
  await store.close();
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(root).sort(), ['backup', 'store'], 'no draft is left');

  await restoreBackup(file, join(root, 'restored'));
  const restored = await openStore(join(root, 'restored'));
  const text = (name: string): number =>
    Number((JSON.parse(restored.get(`${maps}a/${name}`)?.value ?? '') as { data: { text: string } }).data.text);
  assert.ok(text('first') === text('second') || text('first') === text('second') + 1);
  assert.ok(restored.revision > lastRevision);
  assert.equal(restored.compactedRevision, restored.revision);
  assert.throws(
    () => restored.changesAfter(lastRevision, maps),
    CompactedError,
    'clients of the lost store list again',
  );
  assert.ok((await put(restored, `${maps}a/first`, 'x')).revision > lastRevision);
  await restored.close();
});

test('a backup is not restored over anything, nor from anything else', async (t) => {
  const root = temporaryDirectory(t);
  const store = await openStore(join(root, 'store'));
  await put(store, `${maps}a/x`, '1');
  await store.backup(join(root, 'backup'));
  await store.close();
  mkdirSync(join(root, 'used'));
  writeFileSync(join(root, 'used', 'file'), 'mine');
  await assert.rejects(restoreBackup(join(root, 'backup'), join(root, 'used')), { reason: 'RestoreFailed' });
  assert.equal(readFileSync(join(root, 'used', 'file'), 'utf8'), 'mine');
  writeFileSync(join(root, 'other'), 'x'.repeat(100_000));
  await assert.rejects(restoreBackup(join(root, 'other'), join(root, 'restored')), { reason: 'RestoreFailed' });
  const missing = join(root, 'missing');
  await assert.rejects(restoreBackup(missing, join(root, 'restored')), {
    message: `Cannot read the backup "${missing}": there is no such file`,
  });
  mkdirSync(join(root, 'empty'));
  await restoreBackup(join(root, 'backup'), join(root, 'empty'));
  assert.deepEqual(readdirSync(root).sort(), ['backup', 'empty', 'other', 'store', 'used']);
  chmodSync(join(root, 'backup'), 0o600);
  const restored = await openStore(join(root, 'empty'));
  assert.equal(restored.get(`${maps}a/x`)?.value, valueOf('1', 1));
  await restored.close();
});

test('the files of a store stay small however often the same objects are written', async (t) => {
  const directory = temporaryDirectory(t);
  const limits = { ...storeDefaults, changesMin: 5, ageMsMin: -1, changesMax: 10 };
  const store = await openStore(directory, { limits });
  // A file may go between the two looks.
  const sizeOf = (name: string): number => statSync(join(directory, name), { throwIfNoEntry: false })?.size ?? 0;
  const sizeBytes = (): number => readdirSync(directory).reduce((sum, name) => sum + sizeOf(name), 0);
  for (let i = 0; i < 300; i += 1) await put(store, `${maps}a/${i % 3}`, 'x'.repeat(200_000));
  // 60 MB were written; a spare, the active file, a few closed ones that wait for their turn, two snapshots of 2.6 MB.
  assert.ok(sizeBytes() < 25_000_000, `${sizeBytes()} bytes`);
  await store.close();
  assert.ok(sizeBytes() < 8_000_000, `${sizeBytes()} bytes when it is closed`);
});
