/** How requests are put on connections, and what happens to them when connections go. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, type Socket, connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { settle } from '../../testing/fakes/fake-clock.ts';
import {
  type ScriptedApiServer,
  listOf,
  scriptedApiServer,
  versionedConfigMap,
} from '../../testing/servers/scripted-api-server.ts';
import type { ApiClient } from '../api/api-client.ts';
import { configMaps } from '../api/resource-reference.ts';
import type { WatchStream } from '../api/watch-stream.ts';
import type { Credentials } from '../credentials/credentials.ts';
import { dial } from './dial.ts';

const { signal } = new AbortController();
const place = { namespace: 'shop', name: 'web' };

async function openWatches(server: ScriptedApiServer, client: ApiClient, count: number): Promise<WatchStream[]> {
  const watches = Array.from({ length: count }, () => client.watch(configMaps, { namespace: 'shop' }, signal));
  for (let watch = 0; watch < count; watch++) (await server.next()).begin();
  return Promise.all(watches);
}

const fillings = [
  { watches: 4, streamsMax: 5, connections: 1 },
  { watches: 5, streamsMax: 5, connections: 2 },
  { watches: 9, streamsMax: 5, connections: 2 },
  { watches: 10, streamsMax: 5, connections: 3 },
  { watches: 99, streamsMax: 100, connections: 1 },
  { watches: 3, streamsMax: 1, connections: 4 },
];
for (const { watches, streamsMax, connections } of fillings) {
  test(`${watches} watches on a server of ${streamsMax} streams take ${connections} connections, with a stream left for a request`, async (t) => {
    const server = await scriptedApiServer(t, { streamsMax });
    const { client } = server.client();
    await openWatches(server, client, watches);
    assert.equal(server.connections, connections);
    const get = client.get(configMaps, place, signal);
    (await server.next()).answer(200, versionedConfigMap('web', '1'));
    await get;
    assert.equal(server.connections, connections, 'the request found a free stream');
  });
}

test('a server that allows no stream for now is not stormed with connections, and is used when it allows some', async (t) => {
  const server = await scriptedApiServer(t, { streamsMax: 0 });
  const { client, pool } = server.client();
  const stop = new AbortController();
  const given = assert.rejects(client.get(configMaps, place, stop.signal), { message: 'enough' });
  const list = client.list(configMaps, {}, signal);
  while (pool.size === 0) await settle();
  await settle(50);
  assert.equal(server.connections, 1);
  stop.abort(new Error('enough'));
  await given;
  server.allowStreams(5);
  (await server.next()).answer(200, listOf('1'));
  await list;
  assert.equal(server.connections, 1);
});

test('a stream that ended is used again', async (t) => {
  const server = await scriptedApiServer(t, { streamsMax: 5 });
  const { client } = server.client();
  for (let round = 0; round < 3; round++) {
    const watches = await openWatches(server, client, 4);
    await Promise.all(watches.map((watch) => watch.return()));
    // Its answer comes after the end of the streams, which was sent before it.
    const get = client.get(configMaps, place, signal);
    (await server.next()).answer(200, versionedConfigMap('web', '1'));
    await get;
  }
  assert.equal(server.connections, 1);
});

test('above the greatest number of connections requests wait for a stream, and their signal ends that', async (t) => {
  const server = await scriptedApiServer(t, { streamsMax: 2 });
  const { client } = server.client({ pool: { connectionsMax: 1 } });
  const [watch] = await openWatches(server, client, 1);
  const stop = new AbortController();
  const waiting = client.watch(configMaps, { namespace: 'shop' }, stop.signal);
  const get = client.get(configMaps, place, signal);
  (await server.next()).answer(200, versionedConfigMap('web', '1'));
  await get;
  stop.abort(new Error('enough'));
  await assert.rejects(waiting, { message: 'enough' });
  const second = client.watch(configMaps, { namespace: 'shop' }, signal);
  await watch?.return();
  (await server.next()).begin();
  await second;
  assert.equal(server.connections, 1);
});

test('after GOAWAY new requests take a new connection and old watches go on', async (t) => {
  const server = await scriptedApiServer(t);
  const { client } = server.client();
  const opening = client.watch(configMaps, { namespace: 'shop' }, signal);
  const old = await server.next();
  old.begin();
  const watch = await opening;
  old.goAway();
  // The answer arrives after the GOAWAY on the same connection, so from here on the client knows.
  old.event('ADDED', versionedConfigMap('web', '1'));
  assert.equal((await watch.next()).value?.type, 'ADDED');
  const get = client.get(configMaps, place, signal);
  (await server.next()).answer(200, versionedConfigMap('web', '1'));
  await get;
  assert.equal(server.connections, 2);
  old.event('MODIFIED', versionedConfigMap('web', '2'));
  assert.equal((await watch.next()).value?.type, 'MODIFIED');
  old.end();
  assert.equal((await watch.next()).done, true);
});

test('a request that GOAWAY says was not looked at is sent again, even one that creates', async (t) => {
  const server = await scriptedApiServer(t);
  const { client } = server.client();
  const [, first] = [client.get(configMaps, place, signal).catch(() => {}), await server.next()];
  const create = client.create(configMaps, { namespace: 'shop' }, { metadata: { name: 'web' } }, signal);
  const second = await server.next();
  assert.equal(second.method, 'POST');
  first.goAway(first.streamId);
  const again = await server.next();
  assert.equal(again.method, 'POST');
  again.answer(201, versionedConfigMap('web', '1'));
  assert.equal((await create).metadata.name, 'web');
  first.answer(200, versionedConfigMap('web', '1'));
});

test('a lost connection is not a complete answer: a get is sent again, a create is not', async (t) => {
  const server = await scriptedApiServer(t);
  const { client } = server.client();
  const get = client.get(configMaps, place, signal);
  (await server.next()).drop();
  (await server.next()).answer(200, versionedConfigMap('web', '1'));
  await get;
  const create = client.create(configMaps, { namespace: 'shop' }, { metadata: { name: 'web' } }, signal);
  const dropped = assert.rejects(create, { reason: 'ConnectionLost' });
  (await server.next()).drop();
  await dropped;
  assert.equal(server.unread, 0);
});

test('half an answer is an error, and a get gives up after two more tries', async (t) => {
  const server = await scriptedApiServer(t);
  const { client } = server.client();
  const list = assert.rejects(client.list(configMaps, {}, signal), { reason: 'ConnectionLost' });
  for (let attempt = 0; attempt < 3; attempt++) {
    const request = await server.next();
    request.write('{"kind":"ConfigMapList","items":[');
    request.drop();
  }
  await list;
});

test('a server that is silent is pinged, and a connection without an answer is dropped', async (t) => {
  const server = await scriptedApiServer(t);
  const frozen: Socket[] = [];
  const relay = createServer();
  // A relay that can stop passing anything on, as a cable that was pulled.
  relay.removeAllListeners('connection');
  relay.on('connection', (socket: Socket) => {
    const onward = connect(Number(new URL(server.url).port), '127.0.0.1');
    socket.pipe(onward).pipe(socket);
    for (const end of [socket, onward]) end.on('error', () => {});
    frozen.push(socket, onward);
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  t.after(() => {
    for (const socket of frozen) socket.destroy();
    relay.close();
  });
  const direct = server.url;
  server.url = `https://127.0.0.1:${(relay.address() as AddressInfo).port}`;
  const { client, clock, pool } = server.client();
  server.url = direct;
  const [watch] = await openWatches(server, client, 1);
  await clock.advance(40_000);
  // The ping of the 30th second was answered, as its answer shows when the event behind it is read.
  assert.equal(pool.size, 1);
  for (const socket of frozen) socket.unpipe().pause();
  const next = assert.rejects(watch?.next() ?? Promise.resolve(), {
    reason: 'ConnectionLost',
    message: /does not answer/,
  });
  await clock.advance(60_000);
  await next;
  assert.equal(pool.size, 0);
});

test('an idle connection is closed', async (t) => {
  const server = await scriptedApiServer(t);
  const { client, clock, pool } = server.client();
  const get = client.get(configMaps, place, signal);
  const request = await server.next();
  request.answer(200, versionedConfigMap('web', '1'));
  await get;
  assert.equal(pool.size, 1);
  await clock.advance(30_000);
  assert.equal(pool.size, 1);
  await clock.advance(65_000);
  const again = client.get(configMaps, place, signal);
  const second = await server.next();
  second.answer(200, versionedConfigMap('web', '1'));
  await again;
  assert.equal(second.streamId, 1, 'the first of a new connection');
});

test('a renewed certificate is shown on a new connection, and the watches of the old one go on', async (t) => {
  const server = await scriptedApiServer(t);
  let identity = server.identity('one');
  const credentials: Credentials = {
    current: () => Promise.resolve({ headers: {}, identity }),
    refused: () => false,
  };
  const { client } = server.client({ credentials });
  const opening = client.watch(configMaps, {}, signal);
  const old = await server.next();
  assert.equal(old.user, 'one');
  old.begin();
  const watch = await opening;
  identity = server.identity('two');
  const list = client.list(configMaps, {}, signal);
  const request = await server.next();
  assert.equal(request.user, 'two');
  request.answer(200, listOf('1'));
  await list;
  old.event('ADDED', versionedConfigMap('web', '2'));
  assert.equal((await watch.next()).value?.type, 'ADDED');
});

test('a server of HTTP/1.1 is served too: short requests share a connection, each watch has one', async (t) => {
  const server = await scriptedApiServer(t, { speaks: 'http/1.1' });
  const { client } = server.client();
  for (let round = 0; round < 3; round++) {
    const list = client.list(configMaps, {}, signal);
    (await server.next()).answer(200, listOf('1'));
    await list;
  }
  assert.equal(server.connections, 1);
  const watches = await openWatches(server, client, 3);
  assert.equal(server.connections, 4);
  await Promise.all(watches.map((watch) => watch.return()));
  const opening = client.watch(configMaps, {}, signal);
  const request = await server.next();
  request.event('ADDED', versionedConfigMap('web', '1'));
  const watch = await opening;
  assert.equal((await watch.next()).value?.type, 'ADDED');
  const next = assert.rejects(watch.next(), { reason: 'ConnectionLost' });
  request.drop();
  await next;
  const create = client.create(configMaps, { namespace: 'shop' }, { metadata: { name: 'ü' } }, signal);
  const post = await server.next();
  assert.equal(post.body, '{"metadata":{"name":"ü"}}');
  post.answer(201, versionedConfigMap('web', '1'));
  await create;
});

test('HTTP/1.1 watches above the limit are refused', async (t) => {
  const server = await scriptedApiServer(t, { speaks: 'http/1.1' });
  const { client } = server.client({ pool: { http1WatchesMax: 2 } });
  await openWatches(server, client, 2);
  await assert.rejects(client.watch(configMaps, {}, signal), { reason: 'TooManyConnections' });
});

test('a proxy is asked for a tunnel, and its refusal is reported', async (t) => {
  const server = await scriptedApiServer(t);
  const asked: string[] = [];
  const sockets: Socket[] = [];
  const proxy = createServer();
  proxy.on('connect', (request, socket: Socket) => {
    asked.push(`${request.url} ${request.headers['proxy-authorization']}`);
    sockets.push(socket);
    socket.on('error', () => {});
    if (asked.length > 1) return socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    const onward = connect(Number(new URL(server.url).port), '127.0.0.1');
    onward.on('error', () => {});
    sockets.push(onward);
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    socket.pipe(onward).pipe(socket);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  });
  const url = new URL(`http://ann:p%40ss@127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  const { client } = server.client({ proxy: url });
  const list = client.list(configMaps, {}, signal);
  (await server.next()).answer(200, listOf('1'));
  await list;
  assert.deepEqual(asked, [`${new URL(server.url).host} Basic ${Buffer.from('ann:p@ss').toString('base64')}`]);
  const other = server.client({ proxy: url });
  await assert.rejects(other.client.list(configMaps, {}, signal), {
    reason: 'ConnectionFailed',
    message: /the proxy "127\.0\.0\.1:\d+" answered 403/,
  });
});

test('a certificate of an unknown authority is refused', async (t) => {
  const server = await scriptedApiServer(t);
  const stranger = await scriptedApiServer(t);
  stranger.url = server.url;
  const { client } = stranger.client();
  await assert.rejects(client.list(configMaps, {}, signal), {
    reason: 'ConnectionFailed',
    message: /Cannot connect to/,
  });
});

test('a server that accepts and says nothing is given up in time', async (t) => {
  const mute = await muteServer(t);
  const server = await scriptedApiServer(t);
  server.url = mute.url;
  const { client, clock } = server.client();
  const list = assert.rejects(client.list(configMaps, {}, signal), {
    reason: 'ConnectionFailed',
    message: /within 30 s/,
  });
  await mute.connected;
  await clock.advance(30_000);
  await list;
});

test('closing the client ends what is open and refuses the rest', async (t) => {
  const server = await scriptedApiServer(t);
  const { client, pool } = server.client();
  const [watch] = await openWatches(server, client, 1);
  const next = assert.rejects(watch?.next() ?? Promise.resolve(), { reason: 'ClientClosed' });
  const get = assert.rejects(client.get(configMaps, place, signal), { reason: 'ClientClosed' });
  await server.next();
  await client.close();
  await next;
  await get;
  await assert.rejects(client.get(configMaps, place, signal), { reason: 'ClientClosed' });
  assert.equal(pool.size, 0);
});

test('requests that are given up while the first connection is opened end at once, and closing waits for nothing', async (t) => {
  const mute = await muteServer(t);
  const server = await scriptedApiServer(t);
  server.url = mute.url;
  const { client } = server.client();
  const stop = new AbortController();
  const get = assert.rejects(client.get(configMaps, place, stop.signal), { message: 'enough' });
  const watch = assert.rejects(client.watch(configMaps, {}, stop.signal), { message: 'enough' });
  await mute.connected;
  stop.abort(new Error('enough'));
  await Promise.all([get, watch]);
  await client.close();
});

test('a watch over HTTP/1.1 that is given up while its connection is opened ends at once', async (t) => {
  const server = await scriptedApiServer(t, { speaks: 'http/1.1' });
  const tunnels: Socket[] = [];
  const proxy = createServer();
  const isAsked = new Promise<void>((resolve) => {
    proxy.on('connect', (_, socket: Socket) => {
      tunnels.push(socket);
      socket.on('error', () => {});
      if (tunnels.length > 1) return resolve();
      const onward = connect(Number(new URL(server.url).port), '127.0.0.1');
      tunnels.unshift(onward);
      onward.on('error', () => {});
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.pipe(onward).pipe(socket);
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => {
    for (const socket of tunnels) socket.destroy();
    proxy.close();
  });
  const url = new URL(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  const { client } = server.client({ proxy: url });
  const list = client.list(configMaps, {}, signal);
  (await server.next()).answer(200, listOf('1'));
  await list;
  const stop = new AbortController();
  const watch = assert.rejects(client.watch(configMaps, {}, stop.signal), { message: 'enough' });
  await isAsked;
  stop.abort(new Error('enough'));
  await watch;
  await client.close();
});

test('a request over HTTP/1.1 that waits for its turn or for an answer ends with its signal, and the others go on', async (t) => {
  const server = await scriptedApiServer(t, { speaks: 'http/1.1' });
  const { client } = server.client({ pool: { http1ShortConnectionsMax: 1 } });
  const [one, two] = [new AbortController(), new AbortController()];
  const first = client.list(configMaps, {}, one.signal);
  const request = await server.next();
  const second = assert.rejects(client.list(configMaps, {}, two.signal), { message: 'enough' });
  const third = client.list(configMaps, {}, signal);
  await settle();
  two.abort(new Error('enough'));
  await second;
  request.answer(200, listOf('1'));
  await first;
  (await server.next()).answer(200, listOf('2'));
  assert.equal((await third).resourceVersion, '2');
  const fourth = assert.rejects(client.list(configMaps, {}, one.signal), { message: 'enough too' });
  await server.next();
  one.abort(new Error('enough too'));
  await fourth;
});

test('a connection whose authority is still being read is given up at once', async (t) => {
  const mute = await muteServer(t);
  let read = (): void => {};
  const trust = new Promise<{ isInsecure: boolean }>((resolve) => (read = () => resolve({ isInsecure: true })));
  const stop = new AbortController();
  const dialling = dial({ url: new URL(mute.url), trust: () => trust }, undefined, ['h2'], stop.signal);
  const failed = assert.rejects(dialling, { message: 'enough' });
  stop.abort(new Error('enough'));
  read();
  await failed;
});

for (const { it, answer, problem } of [
  { it: 'speaks where the server should', answer: 'HTTP/1.1 200 OK\r\n\r\n<html>', problem: /something of its own/ },
  { it: 'hangs up', answer: 'HTTP/1.1 20', problem: /failed: socket hang up/ },
  { it: 'wants to know who we are', answer: 'HTTP/1.1 407 Who\r\n\r\n', problem: /answered 407/ },
]) {
  test(`a proxy that ${it} is reported as such`, async (t) => {
    const proxy = createServer().on('connect', (_, socket: Socket) => {
      socket.on('error', () => {});
      socket.end(answer);
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    t.after(() => void proxy.close());
    const server = await scriptedApiServer(t);
    const url = new URL(`http://ann:hunter2@127.0.0.1:${(proxy.address() as AddressInfo).port}`);
    const { client } = server.client({ proxy: url });
    await assert.rejects(
      client.get(configMaps, place, signal),
      (error: Error) => problem.test(error.message) && !error.message.includes('hunter2'),
    );
  });
}

/** Accepts connections and says nothing, ever. */
async function muteServer(t: TestContext): Promise<{ readonly url: string; readonly connected: Promise<unknown> }> {
  const sockets: Socket[] = [];
  const mute = createServer();
  mute.removeAllListeners('connection');
  mute.on('connection', (socket: Socket) => void sockets.push(socket));
  mute.listen(0, '127.0.0.1');
  await once(mute, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    mute.close();
  });
  return {
    url: `https://127.0.0.1:${(mute.address() as AddressInfo).port}`,
    connected: once(mute, 'connection'),
  };
}

test('a pause ends when a server that was away is back, which is tried once a second for all who wait', async (t) => {
  const server = await scriptedApiServer(t);
  const { client, clock } = server.client();
  let returns = 0;
  client.onReturn(() => (returns += 1));
  const isOver = async (pause: Promise<void>): Promise<boolean> => {
    let over = false;
    void pause.then(() => (over = true));
    await settle(20);
    return over;
  };
  const early = client.pause(10_000, signal);
  await clock.advance(9_999);
  assert.equal(await isOver(early), false, 'a server that is there changes nothing');
  await clock.advance(1);
  await early;

  await server.stop();
  await assert.rejects(client.get(configMaps, place, signal), { name: 'ConnectionFailedError' });
  const stop = new AbortController();
  const left = assert.rejects(client.pause(60_000, stop.signal), { message: 'enough' });
  const waiting = [client.pause(60_000, signal), client.pause(60_000, signal)];
  await clock.advance(5_000);
  for (const pause of waiting) assert.equal(await isOver(pause), false);
  stop.abort(new Error('enough'));
  await left;
  while (server.connections > 0) await settle();
  await server.start();
  await settle(20);
  await clock.advance(1_000);
  await Promise.all(waiting);
  assert.equal(returns, 1);
  assert.equal(server.connections, 1);
});
