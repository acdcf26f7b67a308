/** What the API server says to a node, and what it makes of a node's answers: against nodes that answer as a test wants. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { createServer, request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { type TestContext, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { WebSocket } from 'ws';
import { systemClock } from '../../base/clock.ts';
import { memoryStore } from '../../testing/servers/stores.ts';
import { type TestApiServer, adminToken, startTestApiServer } from '../../testing/servers/test-api-server.ts';
import { http1Client, http2Client } from '../../testing/servers/test-client.ts';
import {
  type Authority,
  issueNodeClientCertificate,
  issueNodeServingCertificate,
  makeAuthority,
} from '../identity/certificates.ts';
import { StoredObjects } from '../model/stored-objects.ts';
import { NodeProxy } from './node-proxy.ts';

interface FakeNode {
  readonly asked: IncomingMessage[];
  readonly users: string[];
  answer: (request: IncomingMessage) => { code: number; text: string };
  upgrade: (request: IncomingMessage, socket: Duplex) => void;
}

interface World {
  readonly api: TestApiServer;
  readonly node: FakeNode;
  readonly authority: Authority;
  /** Of the node's server. */
  readonly port: number;
}

const validity = { now: Date.now(), days: 1 };

async function world(t: TestContext, serving?: Authority, { shows = 'here', isInsecure = false } = {}): Promise<World> {
  const authority = makeAuthority(validity);
  const certificate = issueNodeServingCertificate(serving ?? authority, {
    ...validity,
    nodeName: shows,
    hosts: ['127.0.0.1'],
  });
  const node: FakeNode = {
    asked: [],
    users: [],
    answer: () => ({ code: 200, text: 'a line\n' }),
    upgrade: (_, socket) => void socket.destroy(),
  };
  const hear = (request: IncomingMessage): void => {
    node.asked.push(request);
    const subject = (request.socket as TLSSocket).getPeerCertificate().subject as
      | { CN?: string; O?: string }
      | undefined;
    node.users.push(`${subject?.CN} of ${subject?.O}`);
  };
  const server = createServer({
    cert: certificate.certificatePem,
    key: certificate.keyPem,
    ca: authority.certificatePem,
    requestCert: true,
  });
  server.on('request', (request, response) => {
    hear(request);
    const { code, text } = node.answer(request);
    response.writeHead(code).end(text);
  });
  server.on('upgrade', (request, socket) => {
    hear(request);
    node.upgrade(request, socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const store = memoryStore();
  const api = await startTestApiServer({
    store,
    deps: {
      nodes: new NodeProxy(
        { clock: systemClock, nodes: new StoredObjects(store) },
        {
          authorityPem: authority.certificatePem,
          isInsecure,
          client: issueNodeClientCertificate(authority, validity),
        },
      ),
    },
  });
  t.after(async () => {
    await api.close();
    server.closeAllConnections();
    server.close();
  });
  const client = http1Client(api);
  const { port } = server.address() as AddressInfo;
  const status = {
    addresses: [
      { type: 'Hostname', address: 'nowhere.invalid' },
      { type: 'InternalIP', address: '127.0.0.1' },
    ],
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
  };
  await client.send('/api/v1/nodes', { method: 'POST', body: { metadata: { name: 'here' }, status } });
  await client.send('/api/v1/nodes', { method: 'POST', body: { metadata: { name: 'bare' } } });
  for (const nodeName of ['here', 'bare', 'gone']) {
    const spec = { nodeName, containers: [{ name: 'main', image: 'x' }], automountServiceAccountToken: false };
    const body = { metadata: { name: `on-${nodeName}` }, spec };
    const { status: code, text } = await client.send('/api/v1/namespaces/default/pods', { method: 'POST', body });
    assert.equal(code, 201, text);
  }
  return { api, node, authority, port };
}

const log = '/api/v1/namespaces/default/pods/on-here/log';

for (const [version, client] of [
  ['1.1', http1Client],
  ['2', http2Client],
] as const) {
  test(`NodeProxy passes a log on over HTTP/${version} in the node's words, as itself and not as the client`, async (t) => {
    const { api, node } = await world(t);
    const asking = client(api);
    t.after(() => asking.close());
    const headers = { cookie: 'a=b', 'x-forwarded-for': '1.2.3.4' };
    const { status, text } = await asking.send(`${log}?follow=true&tailLines=5&pretty=1`, { headers });
    assert.deepEqual([status, text], [200, 'a line\n']);
    const [asked] = node.asked;
    assert.equal(asked?.url, '/containerLogs/default/on-here/main?follow=true&tailLines=5');
    assert.deepEqual(
      ['authorization', 'cookie', 'x-forwarded-for'].map((name) => asked?.headers[name]),
      [undefined, undefined, undefined],
    );
    assert.deepEqual(node.users, ['kube-apiserver-kubelet-client of system:masters']);
  });
}

for (const name of ['here', 'here:PORT', 'https:here:PORT', 'http:here:PORT']) {
  test(`nodes/${name}/proxy is the node's own server, asked as this server and not as the client`, async (t) => {
    const { api, node } = await world(t);
    node.answer = () => ({ code: 404, text: 'nothing there\n' });
    const client = http2Client(api);
    t.after(() => client.close());
    const port = (await client.send('/api/v1/nodes/here')).json.status.daemonEndpoints.kubeletEndpoint.Port as number;
    const path = `/api/v1/nodes/${name.replace('PORT', String(port))}/proxy/run/a%20b?x=1`;
    const headers = { 'impersonate-user': 'admin', 'impersonate-group': 'system:masters' };
    const { status, text } = await client.send(path, { method: 'POST', headers, body: 'hello' });
    assert.deepEqual([status, text], [404, 'nothing there\n'], 'as the node says it');
    const [asked] = node.asked;
    assert.deepEqual([asked?.method, asked?.url, asked?.headers['content-length']], ['POST', '/run/a%20b?x=1', '5']);
    assert.deepEqual(
      ['authorization', 'impersonate-user', 'impersonate-group'].map((header) => asked?.headers[header]),
      [undefined, undefined, undefined],
    );
    assert.deepEqual(node.users, ['kube-apiserver-kubelet-client of system:masters']);
  });
}

test("nodes/NAME/proxy shows this server's certificate to that node alone", async (t) => {
  const impostor = await world(t, undefined, { shows: 'there' });
  const client = http1Client(impostor.api);
  const { status, json } = await client.send('/api/v1/nodes/here/proxy/pods');
  assert.equal(status, 503);
  assert.match(json.message, /certificate is valid for system:node:there, not system:node:here$/);
  assert.equal(impostor.node.asked.length, 0);
  assert.equal((await client.send('/api/v1/nodes/none/proxy/pods')).json.message, 'nodes "none" not found');
});

const refusals: readonly {
  readonly code: number;
  readonly text: string;
  readonly says: readonly [number, string, string];
}[] = [
  { code: 400, text: 'no logs yet\n', says: [400, 'BadRequest', 'no logs yet'] },
  { code: 404, text: 'pod "x" does not exist', says: [404, 'NotFound', 'pod "x" does not exist'] },
  { code: 500, text: 'oops', says: [500, 'InternalError', 'oops'] },
  { code: 401, text: 'Unauthorized', says: [500, 'InternalError', 'the node refused this server: Unauthorized'] },
];
for (const { code, text, says } of refusals) {
  test(`NodeProxy makes a Status of a node's ${code}`, async (t) => {
    const { api, node } = await world(t);
    node.answer = () => ({ code, text });
    const { json } = await http1Client(api).send(log);
    assert.deepEqual([json.kind, json.code, json.reason, json.message], ['Status', ...says]);
  });
}

test('NodeProxy says why a node cannot be asked', async (t) => {
  const { api } = await world(t);
  const client = http1Client(api);
  const of = (pod: string): Promise<string> =>
    client.send(`/api/v1/namespaces/default/pods/${pod}/log`).then(({ json }) => `${json.code} ${json.message}`);
  assert.equal(await of('on-gone'), '404 nodes "gone" not found');
  assert.equal(await of('on-bare'), '500 Internal error occurred: no preferred addresses found; known addresses: []');
});

test('NodeProxy trusts nodes of its authority alone, unless the client asks otherwise', async (t) => {
  const { api, node } = await world(t, makeAuthority({ ...validity, name: 'somebody-else' }));
  const client = http1Client(api);
  const { json } = await client.send(log);
  assert.equal(json.code, 500);
  assert.match(json.message, /^Internal error occurred: error dialing backend: .*(certificate|issuer)/);
  assert.equal(node.asked.length, 0);
  assert.equal((await client.send(`${log}?insecureSkipTLSVerifyBackend=true`)).text, 'a line\n');
});

test('NodeProxy believes only the node that it means, unless it is told to believe all', async (t) => {
  const impostor = await world(t, undefined, { shows: 'there' });
  const { json } = await http1Client(impostor.api).send(log);
  assert.match(json.message, /certificate is valid for system:node:there, not system:node:here$/);
  assert.equal(impostor.node.asked.length, 0);
  const insecure = await world(t, makeAuthority({ ...validity, name: 'somebody-else' }), { isInsecure: true });
  assert.equal((await http1Client(insecure.api).send(log)).text, 'a line\n');
});

const messages: readonly (readonly [offered: string[], agreed: string, sent: readonly (string | Buffer)[]])[] = [
  [[], '', [Buffer.alloc(0), Buffer.from('a line\n')]],
  [['x', 'binary.k8s.io'], 'binary.k8s.io', [Buffer.alloc(0), Buffer.from('a line\n')]],
  [['base64.binary.k8s.io'], 'base64.binary.k8s.io', ['', Buffer.from('a line\n').toString('base64')]],
];
for (const [offered, agreed, sent] of messages) {
  test(`NodeProxy sends a log over a WebSocket that offers [${offered.join(' ')}]`, async (t) => {
    const { api } = await world(t);
    const socket = webSocketTo(api, offered);
    const received: (string | Buffer)[] = [];
    socket.on('message', (data: Buffer, isBinary) => received.push(isBinary ? data : data.toString()));
    const [code] = (await once(socket, 'close')) as [number];
    assert.equal(code, 1000);
    assert.equal(socket.protocol, agreed);
    assert.deepEqual(received, sent);
  });
}

test('NodeProxy refuses a WebSocket of no protocol that it knows, and a log that there is none of', async (t) => {
  const { api, node } = await world(t);
  const refusal = async (offered: string[]): Promise<unknown> => {
    const socket = webSocketTo(api, offered).on('error', () => {});
    const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
    response.resume();
    return response.statusCode;
  };
  assert.equal(await refusal(['v4.channel.k8s.io']), 403);
  node.answer = () => ({ code: 400, text: 'no logs yet' });
  assert.equal(await refusal([]), 400);
});

function webSocketTo(api: TestApiServer, offered: string[]): WebSocket {
  const headers = { authorization: `Bearer ${adminToken}` };
  return new WebSocket(`${api.url}${log}`, offered, { ca: api.authority.certificatePem, headers });
}

function upgrade(
  api: TestApiServer,
  path: string,
): Promise<{ response: IncomingMessage; socket?: Duplex; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = httpsRequest(`${api.url}${path}`, {
      method: 'POST',
      ca: api.authority.certificatePem,
      agent: false,
      headers: {
        authorization: `Bearer ${adminToken}`,
        cookie: 'a=b',
        connection: 'Upgrade',
        upgrade: 'SPDY/3.1',
        'x-stream-protocol-version': 'v4.channel.k8s.io',
      },
    });
    sent.on('upgrade', (response, socket) => resolve({ response, socket, text: '' }));
    sent.on('response', (response) => {
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      response.on('end', () => resolve({ response, text: Buffer.concat(pieces).toString() }));
    });
    sent.on('error', reject);
    sent.end();
  });
}

const exec = '/api/v1/namespaces/default/pods/on-here/exec?command=a&command=b%20c&stdin=true&stdout=1&tty=false';

test('NodeProxy passes the bytes of an upgraded connection on, both ways', async (t) => {
  const { api, node } = await world(t);
  node.upgrade = (_, socket) => {
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nSet-Cookie: x=y\r\n' +
        'X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\nfirst ',
    );
    socket.on('data', (bytes: Buffer) => socket.end(bytes.toString().toUpperCase()));
  };
  const { response, socket } = await upgrade(api, exec);
  assert.equal(response.statusCode, 101);
  assert.deepEqual(
    ['upgrade', 'x-stream-protocol-version', 'set-cookie'].map((name) => response.headers[name]),
    ['SPDY/3.1', 'v4.channel.k8s.io', undefined],
  );
  socket?.write('hello');
  const pieces: Buffer[] = [];
  for await (const piece of socket ?? []) pieces.push(piece as Buffer);
  assert.match(Buffer.concat(pieces).toString(), /HELLO$/);
  const [asked] = node.asked;
  assert.deepEqual(
    [asked?.method, asked?.url],
    ['POST', '/exec/default/on-here/main?input=1&output=1&command=a&command=b+c'],
  );
  assert.deepEqual([asked?.headers.authorization, asked?.headers.cookie], [undefined, undefined]);
});

test('NodeProxy makes a Status of a refused upgrade', async (t) => {
  const { api, node } = await world(t);
  node.upgrade = (_, socket) =>
    void socket.end(
      'HTTP/1.1 403 Forbidden\r\nX-Accepted-Stream-Protocol-Versions: v4\r\nContent-Length: 7\r\nConnection: close\r\n\r\nno such',
    );
  const refused = await upgrade(api, exec);
  assert.deepEqual(
    [refused.response.statusCode, refused.response.headers['x-accepted-stream-protocol-versions']],
    [403, 'v4'],
  );
  assert.equal((JSON.parse(refused.text) as { message: string }).message, 'no such');
  node.upgrade = (_, socket) =>
    void socket.end('HTTP/1.1 500 Oops\r\nContent-Length: 25\r\nConnection: close\r\n\r\ncontainer not found ("x")');
  const { message } = JSON.parse((await upgrade(api, exec)).text) as { message: string };
  assert.equal(message, 'unable to upgrade connection: container not found ("x")');
});

test('NodeProxy ends both sides when the server stops', async (t) => {
  const { api, node } = await world(t);
  node.upgrade = (_, socket) =>
    void socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n');
  const { socket } = await upgrade(api, exec);
  const closed = socket && once(socket, 'close');
  socket?.resume();
  socket?.on('error', () => {});
  await api.close();
  await closed;
  assert.equal(socket?.destroyed, true);
});
