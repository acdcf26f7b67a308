/** Watches over real HTTP: the reference's checklist, items 4 and 7. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { connect } from 'node:tls';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../testing/machine/temporary-directory.ts';
import { MemoryStore, openStore } from '../testing/servers/stores.ts';
import {
  type TestApiServer,
  adminToken,
  impatientClock,
  startTestApiServer,
} from '../testing/servers/test-api-server.ts';
import {
  type TestClient,
  type TestJson,
  type TestWatch,
  http1Client,
  http2Client,
} from '../testing/servers/test-client.ts';

const maps = '/api/v1/namespaces/default/configmaps';
const merge = { 'content-type': 'application/merge-patch+json' };

interface World {
  readonly server: TestApiServer;
  readonly client: TestClient;
}

async function world(
  t: TestContext,
  choices: Parameters<typeof startTestApiServer>[0] = {},
  over = http2Client,
): Promise<World> {
  const server = await startTestApiServer(choices);
  const client = over(server);
  t.after(async () => {
    client.close();
    await server.close();
  });
  return { server, client };
}

const create = (client: TestClient, name: string, labels: object = {}): Promise<TestJson> =>
  client
    .send(maps, { method: 'POST', body: { metadata: { name, labels }, data: { a: '1' } } })
    .then(({ json }) => json);
const patch = (client: TestClient, name: string, body: object): Promise<TestJson> =>
  client
    .send(`${maps}/${name}`, { method: 'PATCH', headers: merge, body: JSON.stringify(body) })
    .then(({ json }) => json);
const show = (event: TestJson): string => `${event.type} ${event.object.metadata.name}`;

async function take(watch: TestWatch, count: number): Promise<string[]> {
  const events: string[] = [];
  for (let index = 0; index < count; index += 1) events.push(show(await watch.next()));
  return events;
}

const stores = [
  { kind: 'in memory', open: () => Promise.resolve(new MemoryStore()) },
  { kind: 'on disk', open: (t: TestContext) => openStore(temporaryDirectory(t)) },
];
for (const { kind, open } of stores) {
  for (const [protocol, over] of [
    ['HTTP/1.1', http1Client],
    ['HTTP/2', http2Client],
  ] as const) {
    test(`a watch over ${protocol} of a store ${kind} delivers each change once, in order, from its version on`, async (t) => {
      const store = await open(t);
      const { client } = await world(t, { store }, over);
      const { json: list } = await client.send(maps);
      await create(client, 'one');
      const watch = await client.watch(`${maps}?watch=1&resourceVersion=${list.metadata.resourceVersion}`);
      await create(client, 'two');
      await patch(client, 'one', { data: { a: '2' } });
      await patch(client, 'one', { data: { a: '2' } });
      await client.send(`${maps}/two`, { method: 'DELETE' });
      assert.deepEqual(await take(watch, 4), ['ADDED one', 'ADDED two', 'MODIFIED one', 'DELETED two']);
      watch.close();
    });
  }
}

test('a deleted object is seen as it was last, at the version of its deletion', async (t) => {
  const { client } = await world(t);
  const { metadata } = await create(client, 'x');
  const watch = await client.watch(`${maps}?watch=1&resourceVersion=${metadata.resourceVersion}`);
  await client.send(`${maps}/x`, { method: 'DELETE' });
  const { type, object } = await watch.next();
  assert.deepEqual([type, object.kind, object.apiVersion, object.data], ['DELETED', 'ConfigMap', 'v1', { a: '1' }]);
  assert.ok(Number(object.metadata.resourceVersion) > Number(metadata.resourceVersion));
});

test('who enters a selection is added and who leaves it is deleted, as last seen', async (t) => {
  const { client } = await world(t);
  const { json: list } = await client.send(maps);
  const query = `watch=1&labelSelector=on%3Dyes&resourceVersion=${list.metadata.resourceVersion}`;
  const watch = await client.watch(`${maps}?${query}`);
  await create(client, 'x');
  await patch(client, 'x', { metadata: { labels: { on: 'yes' } } });
  await patch(client, 'x', { data: { a: '2' } });
  const left = await patch(client, 'x', { metadata: { labels: { on: 'no' } }, data: { a: '3' } });
  await client.send(`${maps}/x`, { method: 'DELETE' });
  assert.deepEqual(await take(watch, 2), ['ADDED x', 'MODIFIED x']);
  const { type, object } = await watch.next();
  assert.deepEqual([type, object.data.a], ['DELETED', '2']);
  assert.equal(object.metadata.resourceVersion, left.metadata.resourceVersion);
});

test('a watch at version 0 of one object begins with that object', async (t) => {
  const { client } = await world(t);
  await create(client, 'x');
  await create(client, 'y');
  const watch = await client.watch(`${maps}?watch=1&resourceVersion=0&fieldSelector=metadata.name%3Dx`);
  await patch(client, 'y', { data: { a: '2' } });
  await patch(client, 'x', { data: { a: '2' } });
  assert.deepEqual(await take(watch, 2), ['ADDED x', 'MODIFIED x']);
});

test('a streaming list ends with a marked bookmark and goes on live', async (t) => {
  const { client } = await world(t);
  await create(client, 'x');
  const query = 'watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true';
  const watch = await client.watch(`${maps}?${query}`);
  assert.deepEqual(await take(watch, 2), ['ADDED kube-root-ca.crt', 'ADDED x']);
  const { type, object } = await watch.next();
  assert.deepEqual([type, object.kind], ['BOOKMARK', 'ConfigMap']);
  assert.deepEqual(object.metadata.annotations, { 'k8s.io/initial-events-end': 'true' });
  assert.match(object.metadata.resourceVersion, /^\d+$/);
  await create(client, 'y');
  assert.equal(show(await watch.next()), 'ADDED y');
});

const refusals = [
  {
    query: 'watch=1&sendInitialEvents=true',
    says: 'resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
  },
  {
    query: 'watch=1&resourceVersionMatch=NotOlderThan',
    says: 'resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided',
  },
  { query: 'sendInitialEvents=true', says: 'sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list' },
  {
    query: 'resourceVersionMatch=Exact',
    says: 'resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided',
  },
  {
    query: 'resourceVersionMatch=Exact&resourceVersion=0',
    says: 'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
  },
];
test('options that contradict each other are refused', async (t) => {
  const { client } = await world(t);
  for (const { query, says } of refusals) {
    const { status, json } = await client.send(`${maps}?${query}`);
    assert.deepEqual([status, json.message], [422, `ListOptions.meta.k8s.io "" is invalid: ${says}`]);
  }
});

test('a watch from a forgotten version gets one ERROR with 410 and a clean end', async (t) => {
  const store = new MemoryStore();
  const { client } = await world(t, { store });
  await create(client, 'x');
  store.compact(store.revision);
  const watch = await client.watch(`${maps}?watch=1&resourceVersion=2`);
  const { type, object } = await watch.next();
  assert.deepEqual([watch.status, type, object.code, object.reason], [200, 'ERROR', 410, 'Expired']);
  assert.equal(object.message, `too old resource version: 2 (${store.compactedRevision})`);
  assert.equal(await watch.next(), undefined);
  const exact = await client.send(`${maps}?resourceVersion=2&resourceVersionMatch=Exact`);
  assert.deepEqual([exact.status, exact.json.message], [410, 'The resourceVersion for the provided list is too old.']);
});

test('a page whose snapshot is gone says how to go on', async (t) => {
  const store = new MemoryStore();
  const { client } = await world(t, { store });
  for (const name of ['a', 'b', 'c']) await create(client, name);
  const first = await client.send(`${maps}?limit=1`);
  await create(client, 'd');
  store.compact(store.revision);
  const second = await client.send(`${maps}?limit=1&continue=${first.json.metadata.continue}`);
  assert.deepEqual([second.status, second.json.reason], [410, 'Expired']);
  assert.match(
    second.json.message,
    /^The provided continue parameter is too old to display a consistent list result\./,
  );
  const rest = await client.send(`${maps}?continue=${second.json.metadata.continue}`);
  assert.deepEqual(
    rest.json.items.map((item: TestJson) => item.metadata.name),
    ['b', 'c', 'd', 'kube-root-ca.crt'],
  );
});

test('a watch from a version that does not come ends with the 504 text', async (t) => {
  const { client } = await world(t, { deps: { clock: impatientClock } });
  const watch = await client.watch(`${maps}?watch=1&resourceVersion=9999999`);
  const { type, object } = await watch.next();
  assert.equal(type, 'ERROR');
  assert.match(object.message, /^Timeout: Too large resource version: 9999999, current: \d+$/);
  assert.equal(object.details.causes[0].reason, 'ResourceVersionTooLarge');
});

test('bookmarks come every minute and before the end, and the end is clean', async (t) => {
  const clock = new FakeClock();
  const { client, server } = await world(t, { deps: { clock } });
  const watch = await client.watch(`${maps}?watch=1&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=90`);
  assert.equal(show(await watch.next()), 'ADDED kube-root-ca.crt');
  await clock.advance(60_000);
  const { type, object } = await watch.next();
  assert.deepEqual([type, object.metadata.resourceVersion], ['BOOKMARK', String(server.store.revision)]);
  await clock.advance(28_500);
  assert.equal((await watch.next()).type, 'BOOKMARK');
  await clock.advance(2_000);
  assert.equal(await watch.next(), undefined);
});

test('a table watch sends the columns once, and events of one row', async (t) => {
  const { client } = await world(t);
  const headers = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' };
  await create(client, 'x');
  const watch = await client.watch(`${maps}?watch=1&resourceVersion=0&fieldSelector=metadata.name%3Dx`, headers);
  const first = await watch.next();
  await patch(client, 'x', { data: { b: '2' } });
  const second = await watch.next();
  assert.deepEqual([first.object.kind, first.object.columnDefinitions.length > 0], ['Table', true]);
  assert.deepEqual([second.type, second.object.columnDefinitions], ['MODIFIED', []]);
  assert.deepEqual(second.object.rows[0].cells.slice(0, 2), ['x', 2]);
});

test('events of both groups are the same objects, in two forms', async (t) => {
  const { client } = await world(t);
  const watch = await client.watch('/apis/events.k8s.io/v1/namespaces/default/events?watch=1&resourceVersion=1');
  await client.send('/api/v1/namespaces/default/events', {
    method: 'POST',
    body: {
      metadata: { name: 'e' },
      involvedObject: { namespace: 'default', name: 'p' },
      message: 'hello',
      reason: 'R',
    },
  });
  const { object } = await watch.next();
  assert.deepEqual([object.apiVersion, object.note, object.regarding.name], ['events.k8s.io/v1', 'hello', 'p']);
  const { json } = await client.send('/apis/events.k8s.io/v1/events?fieldSelector=regarding.name%3Dp');
  assert.deepEqual([json.apiVersion, json.items.length, json.items[0].note], ['events.k8s.io/v1', 1, 'hello']);
});

test('stopping the server ends watches cleanly, refuses readiness and lets the port go', async (t) => {
  const { server, client } = await world(t);
  const watch = await client.watch(`${maps}?watch=1&resourceVersion=1`);
  assert.equal(show(await watch.next()), 'ADDED kube-root-ca.crt');
  const closed = server.close();
  assert.equal(await watch.next(), undefined);
  client.close();
  await closed;
  await assert.rejects(http1Client(server).send('/readyz'), { code: 'ECONNREFUSED' });
});

test('five hundred watches on one connection all get the event', async (t) => {
  const { server, client } = await world(t);
  const path = `${maps}?watch=1&resourceVersion=${server.store.revision}`;
  const watches = await Promise.all(Array.from({ length: 500 }, () => client.watch(path)));
  await create(client, 'x');
  const events = await Promise.all(watches.map((watch) => watch.next()));
  assert.ok(events.every((event) => show(event) === 'ADDED x'));
  for (const watch of watches) watch.close();
});

test('a reader that does not read is cut off, and delays no other', async (t) => {
  const { server, client } = await world(t);
  const path = `${maps}?watch=1&resourceVersion=${server.store.revision}`;
  const stuck = connect({ port: server.address.port, host: '127.0.0.1', ca: server.authority.certificatePem });
  t.after(() => stuck.destroy());
  await new Promise((resolve) => stuck.once('secureConnect', resolve));
  stuck.pause();
  stuck.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${adminToken}\r\n\r\n`);
  const watch = await client.watch(path);
  const big = 'x'.repeat(900_000);
  await client.send(maps, { method: 'POST', body: { metadata: { name: 'big' }, data: { big } } });
  for (let count = 0; count < 30; count += 1) await patch(client, 'big', { data: { count: String(count) } });
  assert.equal((await take(watch, 31)).at(-1), 'MODIFIED big');
  const cutOff = server.notices.some((notice) => notice.kind === 'RequestServed' && notice.verb === 'watch');
  assert.ok(cutOff, 'the watch of the reader that does not read has ended');
});
