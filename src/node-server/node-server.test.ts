/** The node's server as its clients see it over the network: who may ask, what is refused and how, and every transport. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { type AddressInfo, createServer as createPlainServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { after, before, test } from 'node:test';
import { WebSocket } from 'ws';
import { type KeyPair, issueClientCertificate, makeAuthority } from '../apiserver/identity/certificates.ts';
import { type RunningNode, goodToken, runningNode } from '../testing/servers/running-node.ts';
import { SpdyClient } from '../testing/servers/spdy-client.ts';
import { startNodeServer } from './node-server.ts';
import { type StreamLimits, streamLimits } from './streams/protocols.ts';

const directory = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
const cleanUps: (() => Promise<void>)[] = [];
let node: RunningNode;
/** It waits for the streams of a connection for a moment only. */
let hasty: RunningNode;
let podUid = '';

before(async () => {
  node = await startNode('patient', {});
  hasty = await startNode('hasty', { creationMs: 300 });
  podUid =
    (JSON.parse((await ask('/pods')).text) as { items: { metadata: { uid: string } }[] }).items[0]?.metadata.uid ?? '';
});

async function startNode(name: string, limits: Partial<StreamLimits>): Promise<RunningNode> {
  const own = join(directory, name);
  mkdirSync(own);
  const started = await runningNode({ after: (act) => void cleanUps.push(act) }, own, { closingMs: 2000, ...limits });
  await started.addPod('web', { main: ['cat'] });
  return started;
}

after(async () => {
  for (const act of cleanUps) await act();
  rmSync(directory, { recursive: true, force: true });
});

interface Asking {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly identity?: KeyPair | undefined;
  readonly of?: RunningNode;
}

interface Answer {
  readonly code: number;
  readonly text: string;
  readonly headers: IncomingMessage['headers'];
  readonly socket?: Duplex;
}

function ask(
  path: string,
  { method = 'GET', headers = { authorization: `Bearer ${goodToken}` }, identity, of = node }: Asking = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({
      host: '127.0.0.1',
      port: of.node.address.port,
      path,
      method,
      headers,
      ca: of.authorityPem,
      agent: false,
      ...(identity && { cert: identity.certificatePem, key: identity.keyPem }),
    });
    asked.on('response', (response) => {
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      response.on('end', () =>
        resolve({ code: response.statusCode ?? 0, text: Buffer.concat(pieces).toString(), headers: response.headers }),
      );
    });
    asked.on('upgrade', (response, socket, head) => {
      if (head.length > 0) socket.unshift(head);
      resolve({ code: response.statusCode ?? 0, text: '', headers: response.headers, socket });
    });
    asked.on('error', reject);
    asked.end();
  });
}

const certificate = (user: string, authority = node.api.authority): KeyPair =>
  issueClientCertificate(authority, { user, groups: ['testers'], now: Date.now(), days: 1 });

test('the node answers no anonymous client, except for its health', async () => {
  assert.deepEqual(pick(await ask('/healthz', { headers: {} })), [200, 'ok']);
  for (const path of ['/pods', '/metrics', '/containerLogs/default/web/main', '/what', '/exec/default/web/main']) {
    assert.deepEqual(pick(await ask(path, { headers: {} })), [401, 'Unauthorized'], path);
  }
  assert.equal((await ask('/pods', { headers: { authorization: 'Bearer bad' } })).code, 401);
  assert.equal((await ask('/pods', { headers: { authorization: 'Basic eDp5' } })).code, 401);
  assert.equal((await ask('/pods')).code, 200);
});

test('the node knows certificates of its authority and no others', async () => {
  assert.equal((await ask('/pods', { headers: {}, identity: certificate('someone') })).code, 200);
  const stranger = certificate('someone', makeAuthority({ now: Date.now(), days: 1 }));
  assert.equal((await ask('/pods', { headers: {}, identity: stranger })).code, 401);
  assert.deepEqual(pick(await ask('/pods', { headers: {}, identity: certificate('nobody') })), [
    403,
    'Forbidden (user=nobody, verb=get, resource=nodes, subresource(s)=[pods proxy])\n',
  ]);
});

test('the node serves its pods and its metrics', async () => {
  for (const path of ['/pods', '/runningpods/']) {
    const { kind, items } = JSON.parse((await ask(path)).text) as {
      kind: string;
      items: { metadata: { name: string } }[];
    };
    assert.deepEqual([kind, items.map(({ metadata }) => metadata.name)], ['PodList', ['web']]);
  }
  assert.deepEqual(pick(await ask('/metrics')), [200, 'up 1\n']);
});

const streams = 'command=true&output=1';
const spdy = { connection: 'Upgrade', upgrade: 'SPDY/3.1', 'x-stream-protocol-version': 'v4.channel.k8s.io' };
const refusals: readonly {
  readonly it: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly method?: string;
  readonly says: readonly [number, string];
}[] = [
  { it: 'a path it does not have', path: '/run/default/web/main', says: [404, '404 page not found\n'] },
  {
    it: 'a write where there is nothing to write',
    path: '/pods',
    method: 'POST',
    says: [405, '405: Method Not Allowed'],
  },
  {
    it: 'a command without an upgrade',
    path: `/exec/default/web/main?${streams}`,
    says: [400, 'Upgrade request required'],
  },
  { it: 'logs of no pod', path: '/containerLogs/default/x/main', says: [404, 'pod "x" does not exist'] },
  {
    it: 'logs of no container',
    path: '/containerLogs/default/web/x',
    says: [404, 'container "x" not found in pod "web"'],
  },
  {
    it: 'logs from nowhere',
    path: '/containerLogs/default/web/main?tailLines=-1',
    says: [422, '{"message": "Invalid request."}'],
  },
  {
    it: 'logs of nonsense',
    path: '/containerLogs/default/web/main?tailLines=x',
    says: [400, '{"message": "Unable to decode query."}'],
  },
  {
    it: 'an upgrade of a log',
    path: '/containerLogs/default/web/main',
    headers: spdy,
    says: [400, 'this path cannot be upgraded'],
  },
  {
    it: 'a command in no pod',
    path: `/exec/default/x/main?${streams}`,
    headers: spdy,
    says: [404, 'pod does not exist'],
  },
  {
    it: 'a command in a pod that is another now',
    path: `/exec/default/web/old/main?${streams}`,
    headers: spdy,
    says: [404, 'pod not found'],
  },
  {
    it: 'a command in no container',
    path: `/exec/default/web/x?${streams}`,
    headers: spdy,
    says: [500, 'container not found ("x")'],
  },
  {
    it: 'no command',
    path: '/exec/default/web/main?output=1',
    headers: spdy,
    says: [400, 'you must specify a command'],
  },
  {
    it: 'no streams',
    path: '/exec/default/web/main?command=true',
    headers: spdy,
    says: [400, 'you must specify at least 1 of stdin, stdout, stderr'],
  },
  {
    it: 'another protocol',
    path: `/exec/default/web/main?${streams}`,
    headers: { ...spdy, upgrade: 'h2c' },
    says: [400, 'unable to upgrade: missing upgrade headers in request'],
  },
  {
    it: 'a version of tomorrow',
    path: `/exec/default/web/main?${streams}`,
    headers: { ...spdy, 'x-stream-protocol-version': 'v9.channel.k8s.io' },
    says: [
      403,
      'unable to upgrade: unable to negotiate protocol: client supports [v9.channel.k8s.io], server accepts [v5.channel.k8s.io v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io channel.k8s.io]',
    ],
  },
  {
    it: 'a WebSocket of tomorrow',
    path: `/exec/default/web/main?${streams}`,
    headers: { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-protocol': 'v9.channel.k8s.io' },
    says: [
      403,
      'requested protocol(s) are not supported: [v9.channel.k8s.io]; supports [v5.channel.k8s.io v4.channel.k8s.io v4.base64.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io channel.k8s.io base64.channel.k8s.io]',
    ],
  },
  {
    it: 'no port',
    path: '/portForward/default/web',
    headers: { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-protocol': 'v4.channel.k8s.io' },
    says: [400, 'query parameter "port" is required'],
  },
  {
    it: 'a port that is none',
    path: '/portForward/default/web?port=70000',
    headers: { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-protocol': 'v4.channel.k8s.io' },
    says: [400, 'unable to parse "70000" as a port'],
  },
];
for (const { it, path, headers = {}, method = 'GET', says } of refusals) {
  test(`the node refuses ${it}`, async () => {
    const answer = await ask(path, { method, headers: { authorization: `Bearer ${goodToken}`, ...headers } });
    assert.deepEqual(pick(answer), says);
  });
}

test('a version that is not spoken is refused together with those that are', async () => {
  const headers = { ...spdy, authorization: `Bearer ${goodToken}`, 'x-stream-protocol-version': 'v9' };
  const answer = await ask(`/exec/default/web/main?${streams}`, { method: 'POST', headers });
  assert.match(String(answer.headers['x-accepted-stream-protocol-versions']), /^v5\.channel\.k8s\.io, v4/);
});

async function openSpdy(path: string, protocol: string, of = node): Promise<SpdyClient> {
  const headers = { ...spdy, authorization: `Bearer ${goodToken}`, 'x-stream-protocol-version': protocol };
  const { code, headers: answered, socket } = await ask(path, { method: 'POST', headers, of });
  assert.deepEqual([code, answered['x-stream-protocol-version']], [101, protocol]);
  assert.ok(socket !== undefined);
  return new SpdyClient(socket);
}

const spdyEnds: readonly { readonly protocol: string; readonly status: string }[] = [
  {
    protocol: 'v4.channel.k8s.io',
    status: JSON.stringify({
      metadata: {},
      status: 'Failure',
      message: 'command terminated with non-zero exit code: exit status 3',
      reason: 'NonZeroExitCode',
      details: { causes: [{ reason: 'ExitCode', message: '3' }] },
    }),
  },
  { protocol: 'v2.channel.k8s.io', status: 'command terminated with non-zero exit code: exit status 3' },
];
for (const { protocol, status } of spdyEnds) {
  test(`a command over SPDY with ${protocol}: streams, then its status, then the end`, async () => {
    const client = await openSpdy(
      `/exec/default/web/${podUid}/main?command=sh&command=-c&command=cat;exit+3&input=1&output=1`,
      protocol,
    );
    const [error, stdin, stdout] = ['error', 'stdin', 'stdout'].map((streamType) => client.open({ streamType }));
    assert.ok(error !== undefined && stdin !== undefined && stdout !== undefined);
    client.write(stdin, 'hello', true);
    assert.equal(await client.text(stdout), 'hello');
    assert.equal(await client.text(error), status);
    assert.equal((await client.next((frame) => frame.kind === 'goAway'))?.kind, 'goAway');
  });
}

test('a command in a container that has just ended: the words of the kubelet, and nothing of ours', async () => {
  await node.addPod('doomed', { main: ['cat'] });
  for (const [path, doing] of [
    ['exec/default/doomed/main?command=true&output=1', 'executing command in'],
    ['attach/default/doomed/main?output=1', 'attaching to'],
  ] as const) {
    await node.restart('doomed', 'main', ['cat']);
    const client = await openSpdy(`/${path}`, 'v4.channel.k8s.io');
    await node.processes.stop('doomed-main-1');
    const [error] = ['error', 'stdout'].map((streamType) => client.open({ streamType }));
    const { message, code } = JSON.parse(await client.text(error ?? 0)) as Record<string, unknown>;
    const words = `Internal error occurred: error ${doing} container: container not running (doomed-main-1)`;
    assert.deepEqual([message, code], [words, 500]);
  }
});

test('a client that opens too few streams is given up', async () => {
  const client = await openSpdy(`/exec/default/web/main?${streams}`, 'v4.channel.k8s.io', hasty);
  client.open({ streamType: 'error' });
  assert.equal(await client.next(() => false), undefined);
});

test('a stream that was not announced is refused', async () => {
  const client = await openSpdy(`/exec/default/web/main?${streams}`, 'v4.channel.k8s.io');
  const id = client.open({ streamType: 'stdin' });
  assert.deepEqual(await client.next((frame) => frame.kind === 'reset'), { kind: 'reset', streamId: id, code: 5 });
});

function webSocket(path: string, protocols: readonly string[]): WebSocket {
  return new WebSocket(`wss://127.0.0.1:${node.node.address.port}${path}`, [...protocols], {
    ca: node.authorityPem,
    headers: { authorization: `Bearer ${goodToken}` },
  });
}

async function messages(socket: WebSocket): Promise<string[]> {
  const seen: string[] = [];
  socket.on('message', (data: Buffer) => seen.push(data.toString('latin1')));
  const [code] = (await once(socket, 'close')) as [number];
  return [...seen, `close ${code}`];
}

const success = '{"metadata":{},"status":"Success"}';
const webSockets: readonly {
  readonly offered: readonly string[];
  readonly chosen: string;
  readonly says: readonly string[];
}[] = [
  {
    offered: ['v5.channel.k8s.io', 'v4.channel.k8s.io'],
    chosen: 'v5.channel.k8s.io',
    says: ['\u0001', '\u0001hi\n', `\u0003${success}`],
  },
  {
    offered: ['v9', 'v4.channel.k8s.io'],
    chosen: 'v4.channel.k8s.io',
    says: ['\u0001', '\u0001hi\n', `\u0003${success}`],
  },
  { offered: ['channel.k8s.io'], chosen: 'channel.k8s.io', says: ['\u0001', '\u0001hi\n'] },
  { offered: [], chosen: '', says: ['\u0001', '\u0001hi\n'] },
  {
    offered: ['v4.base64.channel.k8s.io'],
    chosen: 'v4.base64.channel.k8s.io',
    says: ['1', `1${Buffer.from('hi\n').toString('base64')}`, `3${Buffer.from(success).toString('base64')}`],
  },
];
for (const { offered, chosen, says } of webSockets) {
  test(`a command over a WebSocket that offers [${offered.join(' ')}]`, async () => {
    const socket = webSocket('/exec/default/web/main?command=echo&command=hi&output=1', offered);
    assert.deepEqual(await messages(socket), [...says, 'close 1000']);
    assert.equal(socket.protocol, chosen);
  });
}

test('input over a WebSocket ends with the close signal of the fifth protocol', async () => {
  const socket = webSocket('/exec/default/web/main?command=sort&input=1&output=1', ['v5.channel.k8s.io']);
  const seen = messages(socket);
  await once(socket, 'open');
  for (const bytes of ['\u0000b\na\n', '\u00ff\u0000']) socket.send(Buffer.from(bytes, 'latin1'));
  assert.deepEqual(await seen, ['\u0001', '\u0001a\nb\n', `\u0003${success}`, 'close 1000']);
});

test('a command ends when its client leaves', async () => {
  const earlier = node.notices.length;
  const socket = webSocket('/exec/default/web/main?command=sleep&command=1000&output=1', ['v4.channel.k8s.io']);
  await once(socket, 'message');
  socket.terminate();
  while (!node.notices.slice(earlier).some(({ kind }) => kind === 'NodeRequestServed')) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(node.notices.at(-1)?.kind, 'NodeRequestServed');
});

test('ports over the channels of a WebSocket: data, the port first, and errors', async (t) => {
  const echo = createPlainServer((peer) => peer.pipe(peer)).listen(0, '127.0.0.1');
  await once(echo, 'listening');
  t.after(() => void echo.close());
  const { port } = echo.address() as AddressInfo;
  const socket = webSocket(`/portForward/default/web?port=${port},1`, ['v4.channel.k8s.io']);
  const seen: Record<number, Buffer[]> = {};
  const echoed = new Promise<void>((resolve) => {
    socket.on('message', (data: Buffer) => {
      (seen[data[0] ?? 0] ??= []).push(data.subarray(1));
      if (seen[0]?.some((bytes) => bytes.includes('hello')) && (seen[3]?.length ?? 0) > 1) resolve();
    });
  });
  await once(socket, 'open');
  socket.send(Buffer.from('\u0000hello', 'latin1'));
  await echoed;
  assert.deepEqual(
    [0, 1, 2, 3].map((channel) => seen[channel]?.[0]?.readUInt16LE(0)),
    [port, port, 1, 1],
  );
  assert.match(seen[3]?.[1]?.toString() ?? '', /^error forwarding port 1 to pod web, uid .*: connect ECONNREFUSED/);
  socket.terminate();
});

test('ports over SPDY, and streams that make no sense', async (t) => {
  const echo = createPlainServer((peer) => peer.pipe(peer)).listen(0, '127.0.0.1');
  await once(echo, 'listening');
  t.after(() => void echo.close());
  const port = String((echo.address() as AddressInfo).port);
  const client = await openSpdy('/portForward/default/web', 'portforward.k8s.io');
  for (const headers of [{ streamType: 'data' }, { streamType: 'data', port: '0' }, { streamType: 'what', port }]) {
    const streamId = client.open(headers);
    assert.deepEqual(await client.next((frame) => frame.kind === 'reset'), { kind: 'reset', streamId, code: 5 });
  }
  const error = client.open({ streamType: 'error', port, requestID: '0' });
  const data = client.open({ streamType: 'data', port, requestID: '0' });
  client.write(data, 'round trip', true);
  assert.equal(await client.text(data), 'round trip');
  assert.equal(await client.text(error), '');
});

test('a stream for errors of a port without one for its data is given up', async () => {
  const client = await openSpdy('/portForward/default/web', 'portforward.k8s.io', hasty);
  const lonely = client.open({ streamType: 'error', port: '1', requestID: '1' });
  assert.match(await client.text(lonely), /timed out waiting for streams/);
});

test('a pod that closes its connection ends what is forwarded, though the client still listens', async (t) => {
  const server = createPlainServer((peer) => peer.end('all of it')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => void server.close());
  const port = String((server.address() as AddressInfo).port);
  const client = await openSpdy('/portForward/default/web', 'portforward.k8s.io');
  const error = client.open({ streamType: 'error', port, requestID: '0' });
  const data = client.open({ streamType: 'data', port, requestID: '0' });
  assert.equal(await client.text(data), 'all of it');
  assert.equal(await client.text(error), ''); // without an end of it, kubectl waits for ever
});

test('the server reports that it cannot listen', async () => {
  const { port } = node.node.address;
  const { certificatePem, keyPem } = node.api.authority;
  const settings = {
    host: '127.0.0.1',
    port,
    certificatePem,
    keyPem,
    clientAuthorityPem: certificatePem,
    limits: streamLimits,
    minVersion: 'TLSv1.2',
    ciphers: undefined,
  } as const;
  const deps = { ...node.nodeDeps };
  await assert.rejects(startNodeServer(settings, deps), {
    reason: 'CannotListen',
    message: /^Cannot listen on 127\.0\.0\.1:\d+ for/,
  });
});

function pick({ code, text }: Answer): [number, string] {
  return [code, text];
}
