import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type ConfigMap, configMapShape } from '../kube/kinds/config-map.ts';
import { ObservedClock } from '../testing/fakes/fake-clock.ts';
import { runningApiServer } from '../testing/servers/test-api-server.ts';
import { bookmark, scriptedApiServer, versionedConfigMap } from '../testing/servers/scripted-api-server.ts';
import { configMaps, withShape } from './api/resource-reference.ts';
import { ObjectCache, type ObjectChange } from './object-cache.ts';

const resource = withShape(configMaps, configMapShape);
const target = { resource, namespace: 'shop' };

/** The changes a cache reports, one at a time, as `web: old -> new`. */
function changesOf(cache: ObjectCache<ConfigMap>): () => Promise<string> {
  const told: string[] = [];
  const readers: ((text: string) => void)[] = [];
  cache.subscribe(({ key, object, previous }: ObjectChange<ConfigMap>) => {
    const text = `${key}: ${previous?.data?.['a'] ?? '-'} -> ${object?.data?.['a'] ?? '-'}`;
    const reader = readers.shift();
    if (reader === undefined) told.push(text);
    else reader(text);
  });
  return () => {
    const text = told.shift();
    return text === undefined ? new Promise((resolve) => readers.push(resolve)) : Promise.resolve(text);
  };
}

test('a cache on the real server has what the server has, through creation, change and deletion', async (t) => {
  const server = await runningApiServer(t);
  const client = server.client();
  const stop = new AbortController();
  const { signal } = stop;
  const clock = new ObservedClock();
  const cache = new ObjectCache<ConfigMap>();
  const changed = changesOf(cache);
  await client.create(configMaps, { namespace: 'default' }, { metadata: { name: 'web' }, data: { a: '1' } }, signal);
  const following = cache.follow(
    { client, clock, random: () => 0, notify: () => {} },
    { ...target, namespace: 'default', fieldSelector: 'metadata.name=web' },
    signal,
  );
  await cache.whenSynced(signal);
  assert.equal(await changed(), 'default/web: - -> 1');
  const place = { namespace: 'default', name: 'web' };
  await client.patch(resource, { ...place, type: 'merge' }, { data: { a: '2' } }, signal);
  assert.equal(await changed(), 'default/web: 1 -> 2');
  assert.equal(cache.get('default/web')?.data?.['a'], '2');
  await client.delete(configMaps, place, undefined, signal);
  assert.equal(await changed(), 'default/web: 2 -> -');
  assert.equal(cache.size, 0);
  await client.create(configMaps, { namespace: 'default' }, { metadata: { name: 'web' }, data: { a: '3' } }, signal);
  assert.equal(await changed(), 'default/web: - -> 3');
  stop.abort();
  await following;
  assert.equal(cache.list().length, 1, 'what is known stays');
});

async function scripted(t: TestContext): Promise<{
  cache: ObjectCache<ConfigMap>;
  clock: ObservedClock;
  server: Awaited<ReturnType<typeof scriptedApiServer>>;
}> {
  const server = await scriptedApiServer(t);
  const clock = new ObservedClock();
  const cache = new ObjectCache<ConfigMap>();
  const stop = new AbortController();
  const { client } = server.client();
  const following = cache.follow({ client, clock, random: () => 0, notify: () => {} }, target, stop.signal);
  t.after(async () => {
    stop.abort();
    await following;
  });
  return { cache, clock, server };
}

test('a relist reports only what differs, and what is gone', async (t) => {
  const { cache, clock, server } = await scripted(t);
  const changed = changesOf(cache);
  const stream = await server.next();
  stream.event('ADDED', versionedConfigMap('same', '1', { a: 'same' }));
  stream.event('ADDED', versionedConfigMap('old', '2', { a: 'old' }));
  stream.event('ADDED', versionedConfigMap('gone', '3', { a: 'gone' }));
  stream.event('BOOKMARK', bookmark('4', true));
  for (const name of ['same', 'old', 'gone']) assert.equal(await changed(), `shop/${name}: - -> ${name}`);
  stream.event('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
  assert.equal(await clock.nextSleep(), 10_000);
  await clock.advance(await clock.nextSleep());
  const again = await server.next();
  again.event('ADDED', versionedConfigMap('same', '1', { a: 'same' }));
  again.event('ADDED', versionedConfigMap('old', '8', { a: 'new' }));
  again.event('BOOKMARK', bookmark('9', true));
  assert.equal(await changed(), 'shop/gone: gone -> -');
  assert.equal(await changed(), 'shop/old: old -> new');
  assert.equal(cache.size, 2);
});

test('waiting for the first list ends with the signal', async (t) => {
  const { cache, server } = await scripted(t);
  await server.next();
  const stop = new AbortController();
  const synced = cache.whenSynced(stop.signal);
  stop.abort(new Error('enough'));
  await assert.rejects(synced, { message: 'enough' });
});
