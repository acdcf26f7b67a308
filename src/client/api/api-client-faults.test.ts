/** The client against servers that refuse, delay, lie or fall silent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configMapShape } from '../../kube/kinds/config-map.ts';
import { ObservedClock, settle } from '../../testing/fakes/fake-clock.ts';
import { bookmark, listOf, scriptedApiServer, versionedConfigMap } from '../../testing/servers/scripted-api-server.ts';
import { configMaps, withShape } from './resource-reference.ts';
import type { Credentials } from '../credentials/credentials.ts';

const { signal } = new AbortController();
const place = { namespace: 'shop', name: 'web' };
const secret = 'hunter2-very-secret';

const repeated = [
  { verb: 'get', code: 429 },
  { verb: 'get', code: 503 },
  { verb: 'update', code: 429 },
  { verb: 'create', code: 429 },
  { verb: 'patch', code: 429 },
  { verb: 'delete', code: 503 },
] as const;
for (const { verb, code } of repeated) {
  test(`a ${verb} refused by ${code} is sent again after the time the server asks for`, async (t) => {
    const server = await scriptedApiServer(t);
    const clock = new ObservedClock();
    const { client } = server.client({ clock });
    const object = versionedConfigMap('web', '1');
    const send = {
      get: () => client.get(configMaps, place, signal),
      update: () => client.update(configMaps, place, object, signal),
      create: () => client.create(configMaps, { namespace: 'shop' }, object, signal),
      patch: () => client.patch(configMaps, { ...place, type: 'merge' }, {}, signal),
      delete: () => client.delete(configMaps, place, undefined, signal),
    };
    const done = send[verb]();
    (await server.next()).refuse(code, '', 'later', {}, { 'retry-after': '7' });
    while ((await clock.nextSleep()) !== 7_000);
    assert.equal(server.unread, 0);
    await clock.advance(7_000);
    (await server.next()).answer(200, object);
    assert.ok(await done);
  });
}

test('a create that an unavailable server may have carried out is not repeated, and the error says how long to wait', async (t) => {
  const server = await scriptedApiServer(t);
  const { client } = server.client();
  const create = client.create(configMaps, { namespace: 'shop' }, {}, signal);
  const failed = assert.rejects(create, { reason: 'ServiceUnavailable', retryAfterMs: 7_000 });
  (await server.next()).refuse(503, 'ServiceUnavailable', 'later', {}, { 'retry-after': '7' });
  await failed;
});

test('a refusal without a retry time, or with too long a one, is returned at once; one with a time is retried ten times', async (t) => {
  const server = await scriptedApiServer(t);
  const clock = new ObservedClock();
  const { client } = server.client({ clock });
  for (const headers of [{}, { 'retry-after': '3600' }]) {
    const get = assert.rejects(client.get(configMaps, place, signal), { code: 429 });
    (await server.next()).refuse(429, 'TooManyRequests', 'later', {}, headers);
    await get;
  }
  const get = assert.rejects(client.get(configMaps, place, signal), { code: 429 });
  for (let attempt = 0; attempt < 11; attempt++) {
    (await server.next()).refuse(429, 'TooManyRequests', 'later', {}, { 'retry-after': '1' });
    if (attempt === 10) break;
    while ((await clock.nextSleep()) !== 1_000);
    await clock.advance(1_000);
  }
  await get;
});

function rotating(): Credentials & { refusals: number } {
  const state = {
    refusals: 0,
    current: () => Promise.resolve({ headers: { authorization: `Bearer ${secret}${state.refusals}` } }),
    refused: () => {
      state.refusals += 1;
      return true;
    },
  };
  return state;
}

test('credentials that were refused are renewed once, for any request; the second refusal is reported without them', async (t) => {
  const server = await scriptedApiServer(t);
  const credentials = rotating();
  const { client } = server.client({ credentials });
  const create = client.create(configMaps, { namespace: 'shop' }, {}, signal);
  const first = await server.next();
  assert.equal(first.headers.authorization, `Bearer ${secret}0`);
  first.refuse(401, 'Unauthorized');
  const second = await server.next();
  assert.equal(second.headers.authorization, `Bearer ${secret}1`);
  second.answer(201, versionedConfigMap('web', '1'));
  await create;
  const watch = client.watch(configMaps, {}, signal);
  const failed = assert.rejects(watch, (error: Error) => {
    assert.equal(error.name, 'UnauthorizedError');
    assert.ok(!error.message.includes(secret));
    return true;
  });
  (await server.next()).refuse(401, 'Unauthorized');
  (await server.next()).refuse(401, 'Unauthorized');
  await failed;
});

test('groups to act as arrive one by one', async (t) => {
  const server = await scriptedApiServer(t);
  const headers = { 'impersonate-user': 'ann', 'impersonate-group': ['a', 'b'] };
  const credentials: Credentials = { current: () => Promise.resolve({ headers }), refused: () => false };
  const { client } = server.client({ credentials });
  const list = client.list(configMaps, {}, signal);
  const request = await server.next();
  assert.equal(request.headers['impersonate-user'], 'ann');
  assert.equal(request.headers['impersonate-group'], 'a, b', 'as node joins several headers of one name');
  request.answer(200, listOf('1'));
  await list;
});

test('a request without an answer ends in time', async (t) => {
  const server = await scriptedApiServer(t);
  const { client, clock } = server.client();
  const get = assert.rejects(client.get(configMaps, place, signal), {
    reason: 'RequestTimedOut',
    message: 'The API server did not answer "get configmaps "web"" within 60 s',
  });
  const request = await server.next();
  const closed = request.closed();
  await clock.advance(60_000);
  await get;
  await closed;
});

const answers = [
  {
    it: 'plain text',
    code: 404,
    body: '404 page not found\n',
    error: {
      name: 'NotFoundError',
      message: 'the server could not find the requested resource (get configmaps "web")',
    },
  },
  { it: 'a page of a proxy', code: 502, body: `<html>${secret}`, error: { name: 'ApiError', code: 502 } },
  { it: 'no JSON', code: 200, body: `{"data":{"k":"${secret}"`, error: { reason: 'AnswerUnreadable' } },
  { it: 'a list', code: 200, body: '[]', error: { reason: 'AnswerUnreadable' } },
  { it: 'an object without metadata', code: 200, body: '{}', error: { reason: 'AnswerUnreadable' } },
  {
    it: 'a name that is none',
    code: 200,
    body: '{"metadata":{"name":7}}',
    error: { reason: 'AnswerUnreadable', message: /metadata\.name is no text/ },
  },
  {
    it: 'a field of the wrong type',
    code: 200,
    body: `{"metadata":{"name":"web"},"data":"${secret}"}`,
    error: { reason: 'AnswerUnreadable', message: /data: expected a map, got a string/ },
  },
  {
    it: 'a Status that is nonsense',
    code: 409,
    body: '{"kind":"Status","message":7,"details":"x"}',
    error: { name: 'ConflictError' },
  },
];
for (const { it, code, body, error } of answers) {
  test(`an answer that is ${it} becomes a typed error without its text`, async (t) => {
    const server = await scriptedApiServer(t);
    const { client } = server.client();
    const get = client.get(withShape(configMaps, configMapShape), place, signal).catch((e: unknown) => e);
    (await server.next()).answer(code, body);
    const failure = await get;
    assert.ok(failure instanceof Error);
    assert.throws(() => {
      throw failure;
    }, error);
    assert.ok(!failure.message.includes(secret));
  });
}

test('an answer that never ends is given up', async (t) => {
  const server = await scriptedApiServer(t);
  const { client } = server.client({ api: { answerBytesMax: 1000 } });
  const list = assert.rejects(client.list(configMaps, {}, signal), {
    reason: 'AnswerUnreadable',
    message: /larger than 1000/,
  });
  const request = await server.next();
  const closed = request.closed();
  request.write('x'.repeat(2000));
  await list;
  await closed;
});

test('requests above the rate wait for their turn, in order', async (t) => {
  const server = await scriptedApiServer(t);
  const clock = new ObservedClock();
  const { client } = server.client({ clock, api: { rate: { perSecond: 10, burst: 2 } } });
  const stop = new AbortController();
  const names = ['a', 'b', 'c', 'd'];
  const gets = names.map((name) => client.get(configMaps, { namespace: 'shop', name }, stop.signal));
  for (const wait of [100, 200]) assert.equal(await clock.nextSleep(), wait);
  for (const name of ['a', 'b']) {
    const request = await server.next();
    assert.match(request.path, new RegExp(`/${name}$`));
    request.answer(200, versionedConfigMap(name, '1'));
  }
  await Promise.all(gets.slice(0, 2));
  assert.equal(server.unread, 0);
  await clock.advance(100);
  (await server.next()).answer(200, versionedConfigMap('c', '1'));
  await gets[2];
  const last = assert.rejects(gets[3] ?? Promise.resolve(), { message: 'enough' });
  stop.abort(new Error('enough'));
  await last;
});

test('watches have a rate of their own: a node full of them can still ask, and a full rate of requests holds up no watch', async (t) => {
  const server = await scriptedApiServer(t);
  const clock = new ObservedClock();
  const { client } = server.client({
    clock,
    api: { rate: { perSecond: 1, burst: 1 }, watchRate: { perSecond: 10, burst: 1 } },
  });
  const first = client.watch(configMaps, {}, signal);
  (await server.next()).begin();
  await first;
  const get = client.get(configMaps, place, signal);
  (await server.next()).answer(200, versionedConfigMap('web', '1'));
  await get;
  const second = client.watch(configMaps, {}, signal);
  while ((await clock.nextSleep()) !== 100);
  assert.equal(server.unread, 0);
  await clock.advance(100);
  (await server.next()).begin();
  await second;
});

test('a watch that outlives its time, and one whose bookmarks stop, are given up as stalled', async (t) => {
  const server = await scriptedApiServer(t);
  const { client, clock } = server.client({ pool: { pingAfterMs: Infinity } });
  const opening = client.watch(configMaps, { timeoutSeconds: 600 }, signal);
  const quiet = await server.next();
  quiet.begin();
  const first = await opening;
  await clock.advance(599_000);
  let isOver = false;
  const overdue = assert.rejects(
    first.next().finally(() => (isOver = true)),
    { reason: 'WatchStalled' },
  );
  assert.equal(isOver, false, 'a quiet watch is no stalled one');
  const closed = quiet.closed();
  await clock.advance(40_000);
  await overdue;
  await closed;
  const second = client.watch(configMaps, { timeoutSeconds: 3600 }, signal);
  const request = await server.next();
  request.event('BOOKMARK', bookmark('5'));
  const stream = await second;
  await stream.next();
  const silent = assert.rejects(stream.next(), { reason: 'WatchStalled', message: /Heard nothing for 30\d s/ });
  await clock.advance(310_000);
  await silent;
});

test('a watch may be answered late, but not one that begins with the initial state, and the reason is reported', async (t) => {
  const server = await scriptedApiServer(t);
  const { client, clock } = server.client({ pool: { pingAfterMs: Infinity } });
  const times = { timeoutSeconds: 600 };
  const patient = client.watch(configMaps, times, signal);
  const request = await server.next();
  const hasty = assert.rejects(client.watch(configMaps, { ...times, sendInitialEvents: true }, signal), {
    reason: 'WatchStalled',
  });
  const closed = (await server.next()).closed();
  await clock.advance(70_000);
  await hasty;
  await closed;
  request.begin();
  assert.ok(await patient);
  const overdue = assert.rejects(client.watch(configMaps, times, signal), { reason: 'WatchStalled' });
  await server.next();
  await clock.advance(640_000);
  await overdue;
});

for (const verb of ['get', 'watch'] as const) {
  test(`a ${verb} that is given up while its credentials are read is never sent`, async (t) => {
    const server = await scriptedApiServer(t);
    let read = (): void => {};
    const credentials: Credentials = {
      current: () => new Promise((resolve) => (read = () => resolve({ headers: {} }))),
      refused: () => false,
    };
    const { client } = server.client({ credentials });
    const stop = new AbortController();
    const given =
      verb === 'get' ? client.get(configMaps, place, stop.signal) : client.watch(configMaps, {}, stop.signal);
    const failed = assert.rejects(given, { message: 'enough' });
    await settle();
    stop.abort(new Error('enough'));
    read();
    await failed;
    assert.equal(server.connections, 0);
  });
}
