/** The reflector through accidents: whatever happens to the stream, the reported objects are at the end those of the server. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ObservedClock } from '../testing/fakes/fake-clock.ts';
import { runningApiServer } from '../testing/servers/test-api-server.ts';
import {
  type ScriptedApiServer,
  aStatus,
  listOf,
  scriptedApiServer,
  versionedConfigMap,
} from '../testing/servers/scripted-api-server.ts';
import { type ApiObject, configMaps } from './api/resource-reference.ts';
import { ObjectCache } from './object-cache.ts';
import type { ReflectorNotice } from './reflector.ts';

interface Scene {
  readonly server: ScriptedApiServer;
  readonly cache: ObjectCache<ApiObject>;
  readonly clock: ObservedClock;
  readonly notices: ReflectorNotice[];
  /** The next change: `web@8` or `web gone`. */
  changed(): Promise<string>;
}

async function scene(t: TestContext): Promise<Scene> {
  const server = await scriptedApiServer(t);
  const clock = new ObservedClock();
  const cache = new ObjectCache<ApiObject>();
  const notices: ReflectorNotice[] = [];
  const { client } = server.client();
  const changed = changesOf(cache);
  const target = { resource: configMaps, namespace: 'shop' };
  const stop = new AbortController();
  const notify = (notice: ReflectorNotice): void => void notices.push(notice);
  const following = cache.follow(
    { client, clock, random: () => 0, notify, initialEvents: { isMissing: true } },
    target,
    stop.signal,
  );
  t.after(async () => {
    stop.abort();
    await following;
  });
  (await server.next()).answer(200, listOf('7', versionedConfigMap('web', '5')));
  assert.equal(await changed(), 'web@5');
  return { server, cache, clock, notices, changed };
}

function changesOf(cache: ObjectCache<ApiObject>): () => Promise<string> {
  const told: string[] = [];
  const readers: ((text: string) => void)[] = [];
  cache.subscribe(({ key, object }) => {
    const name = key.slice(key.indexOf('/') + 1);
    const text = object === undefined ? `${name} gone` : `${name}@${object.metadata.resourceVersion}`;
    const reader = readers.shift();
    if (reader === undefined) told.push(text);
    else reader(text);
  });
  return () => {
    const text = told.shift();
    return text === undefined ? new Promise((resolve) => readers.push(resolve)) : Promise.resolve(text);
  };
}

const web = (version: string): object => versionedConfigMap('web', version);
const half = '{"type":"MODIFIED","object":{"kind":"ConfigMap","metadata":{"na';

const accidents = [
  { it: 'the connection is cut in an event', act: 'drop' },
  { it: 'the stream is reset in an event', act: 'reset' },
  { it: 'the answer ends in an event', act: 'end' },
] as const;
for (const { it, act } of accidents) {
  test(`when ${it}, the watch goes on at the last whole event`, async (t) => {
    const s = await scene(t);
    const watch = await s.server.next();
    watch.event('MODIFIED', web('8'));
    assert.equal(await s.changed(), 'web@8');
    watch.write(half);
    watch[act]();
    const again = await s.server.next();
    assert.equal(again.query['watch'], 'true');
    assert.equal(again.query['resourceVersion'], '8');
    again.event('MODIFIED', web('9'));
    assert.equal(await s.changed(), 'web@9');
    assert.ok(s.notices.every((notice) => notice.kind === 'WatchFailed' && notice.isExpected));
  });
}

test('a line that is not an event ends the attempt, and everything is listed again', async (t) => {
  const s = await scene(t);
  const watch = await s.server.next();
  watch.event('MODIFIED', web('8'));
  assert.equal(await s.changed(), 'web@8');
  watch.write('<html>gateway</html>\n');
  await s.clock.advance(await s.clock.nextSleep());
  const list = await s.server.next();
  assert.deepEqual(list.query, { resourceVersion: '8' });
  list.answer(200, listOf('9'));
  assert.equal(await s.changed(), 'web gone');
});

test('a storm of 410 is met with longer and longer waits', async (t) => {
  const s = await scene(t);
  (await s.server.next()).event('ERROR', aStatus(410, 'Expired'));
  for (const wait of [800, 1600, 3200]) {
    assert.equal(await s.clock.nextSleep(), wait);
    await s.clock.advance(wait);
    (await s.server.next()).refuse(410, 'Expired');
    // At once without a version, unless it was without one already.
    if (wait === 800) {
      const empty = await s.server.next();
      assert.equal(empty.query['resourceVersion'], undefined);
      empty.refuse(410, 'Expired');
    } else {
      (await s.server.next()).refuse(410, 'Expired');
    }
  }
  await s.clock.advance(await s.clock.nextSleep());
  (await s.server.next()).answer(200, listOf('100', web('99')));
  assert.equal(await s.changed(), 'web@99');
});

test('versions are not compared: the last event counts, doubled or smaller', async (t) => {
  const s = await scene(t);
  const watch = await s.server.next();
  watch.event('MODIFIED', web('9'));
  watch.event('MODIFIED', web('9'));
  watch.event('MODIFIED', web('8'));
  assert.equal(await s.changed(), 'web@9');
  assert.equal(await s.changed(), 'web@8', 'told once each');
  watch.end();
  assert.equal((await s.server.next()).query['resourceVersion'], '8');
});

test('a server restored from an older backup is believed', async (t) => {
  const s = await scene(t);
  const watch = await s.server.next();
  watch.event('MODIFIED', web('1000'));
  assert.equal(await s.changed(), 'web@1000');
  const tooLarge = {
    details: { causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }] },
  };
  watch.event('ERROR', aStatus(504, 'Timeout', 'Timeout: Too large resource version: 1000, current: 20', tooLarge));
  await s.clock.advance(await s.clock.nextSleep());
  const list = await s.server.next();
  assert.equal(list.query['resourceVersion'], '1000');
  list.refuse(504, 'Timeout', 'Timeout: Too large resource version: 1000, current: 20', tooLarge);
  const newest = await s.server.next();
  assert.equal(newest.query['resourceVersion'], undefined);
  newest.answer(200, listOf('20', web('15')));
  assert.equal(await s.changed(), 'web@15');
  assert.equal((await s.server.next()).query['resourceVersion'], '20');
});

test('a server that goes away for good leaves what is known', async (t) => {
  const s = await scene(t);
  await s.server.next();
  await s.server.stop();
  for (let attempt = 0; attempt < 4; attempt++) await s.clock.advance(await s.clock.nextSleep());
  assert.equal(s.cache.get('shop/web')?.metadata.resourceVersion, '5');
});

test('changes of the real server during an outage are caught up with', async (t) => {
  const server = await runningApiServer(t);
  const signal = new AbortController().signal;
  const writer = server.client();
  const create = (name: string): Promise<ApiObject> =>
    writer.create(configMaps, { namespace: 'default' }, { metadata: { name, labels: { app: 'x' } } }, signal);
  await create('one');
  const clock = new ObservedClock();
  const cache = new ObjectCache<ApiObject>();
  const changed = changesOf(cache);
  const target = { resource: configMaps, namespace: 'default', labelSelector: 'app=x' };
  for (const names of [['one'], ['two', 'three']]) {
    const client = server.client();
    const stop = new AbortController();
    const following = cache.follow({ client, clock, random: Math.random, notify: () => {} }, target, stop.signal);
    for (const name of names) assert.match(await changed(), new RegExp(`^(${names.join('|')})@`), name);
    stop.abort();
    await following;
    if (names[0] === 'one') await Promise.all([create('two'), create('three')]);
  }
  assert.deepEqual(
    cache
      .list()
      .map(({ metadata }) => metadata.name)
      .sort(),
    ['one', 'three', 'two'],
  );
});
