/** What the server does when a client takes too long, asks too much at once, or wants to leave HTTP. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type Settings, connect as connectHttp2 } from 'node:http2';
import { type TestContext, test } from 'node:test';
import { type TLSSocket, connect } from 'node:tls';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { type TestApiServer, adminToken, startTestApiServer } from '../testing/servers/test-api-server.ts';
import { http1Client, http2Client } from '../testing/servers/test-client.ts';
import { StatusError } from './model/status.ts';
import type { ApiRequest } from './rest/api-request.ts';
import { OpenRequest, OpenRequests } from './serving/open-requests.ts';
import { Warnings } from './serving/send-reply.ts';

async function rawConnection(t: TestContext, server: TestApiServer): Promise<TLSSocket> {
  const socket = connect({ port: server.address.port, host: '127.0.0.1', ca: server.authority.certificatePem });
  t.after(() => socket.destroy());
  await new Promise((resolve) => socket.once('secureConnect', resolve));
  return socket;
}

function received(socket: TLSSocket): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
    socket.on('close', () => resolve(text));
  });
}

const line = (method: string, path: string, headers: string): string =>
  `${method} ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${adminToken}\r\n${headers}\r\n\r\n`;

test('a body that does not come is waited for 34 seconds, and at most a quarter of one more', async (t) => {
  const clock = new FakeClock();
  const server = await startTestApiServer({ deps: { clock } });
  t.after(() => server.close());
  const socket = await rawConnection(t, server);
  const answer = received(socket);
  socket.write(
    line('POST', '/api/v1/namespaces/default/configmaps', 'content-type: application/json\r\ncontent-length: 100'),
  );
  // Another request on another connection is answered later than the first was read.
  const client = http2Client(server);
  t.after(() => client.close());
  for (let turn = 0; turn < 3; turn += 1) await client.send('/healthz');
  await clock.advance(34_250);
  assert.match(await answer, /^HTTP\/1\.1 504 [\s\S]*Timeout: request did not complete within the allotted timeout/);
});

test('a server that stops does not wait for the rest of a body', async (t) => {
  // Time stands still: neither a deadline nor the grace of a stop can end the request.
  const server = await startTestApiServer({ deps: { clock: new FakeClock() } });
  t.after(() => server.close());
  const socket = await rawConnection(t, server);
  const answer = received(socket);
  const half = 'content-type: application/json\r\ncontent-length: 100';
  socket.write(line('POST', '/api/v1/namespaces/default/configmaps', half));
  const client = http2Client(server);
  t.after(() => client.close());
  for (let turn = 0; turn < 3; turn += 1) await client.send('/healthz');
  await server.close();
  assert.match(await answer, /^HTTP\/1\.1 503 /);
});

test('an upgrade that cannot be had is refused like any request', async (t) => {
  const server = await startTestApiServer();
  t.after(() => server.close());
  const socket = await rawConnection(t, server);
  const answer = received(socket);
  const path = '/api/v1/namespaces/default/pods/none/exec?command=ls&stdout=true';
  socket.write(line('GET', path, 'connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13'));
  assert.match(await answer, /^HTTP\/1\.1 404 [\s\S]*pods \\"none\\" not found/);
});

test('beyond 400 reads or 200 writes at once clients are asked to come back; watches do not count', () => {
  const counts: string[] = [];
  const metrics = {
    inFlight: (kind: string, count: number) => void counts.push(`${kind} ${count}`),
    longRunning: () => {},
  };
  const open = new OpenRequests({ clock: new FakeClock(), metrics });
  const enter = (verb: string, isLong = false): OpenRequest => {
    const parts = { info: { verb }, query: new URLSearchParams() } as unknown as ApiRequest;
    const request = new OpenRequest(parts, isLong, new Warnings(), new AbortController().signal);
    open.enter(request);
    return request;
  };
  const [first = assert.fail()] = Array.from({ length: 400 }, () => enter('get'));
  const isRefused = (error: unknown): boolean =>
    error instanceof StatusError &&
    error.code === 429 &&
    error.message === 'Too many requests, please try again later.' &&
    error.headers['retry-after'] === '1';
  assert.throws(() => enter('list'), isRefused);
  assert.doesNotThrow(() => enter('watch', true));
  Array.from({ length: 200 }, () => enter('patch'));
  assert.throws(() => enter('create'), isRefused);
  open.leave(first);
  assert.doesNotThrow(() => enter('get'));
  assert.deepEqual(counts.slice(0, 2), ['readOnly 1', 'readOnly 2']);
});

test('an address may have a megabyte over HTTP/1.1, and 64 KiB over HTTP/2, which its clients are told', async (t) => {
  const server = await startTestApiServer({});
  t.after(() => server.close());
  const path = (kilobytes: number): string => `/healthz?x=${'a'.repeat(kilobytes * 1024)}`;
  const http1 = http1Client(server);
  assert.equal((await http1.send(path(1_000))).text, 'ok');
  const { status, text } = await http1.send(path(1_100));
  assert.deepEqual(
    [status, text],
    [431, 'the address and the headers of a request may not have more than 1048576 bytes'],
  );
  const http2 = http2Client(server);
  t.after(() => http2.close());
  assert.equal((await http2.send(path(63))).text, 'ok');
  const session = connectHttp2(server.url, { ca: server.authority.certificatePem });
  const [settings] = (await once(session, 'remoteSettings')) as [Settings];
  session.close();
  assert.equal(settings.maxHeaderListSize, 65_536);
});
