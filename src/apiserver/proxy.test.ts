/** Requests that are passed on to pods, over real HTTP: where they go, what goes along, and where they never go. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import { type AddressInfo, createServer as createRawServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { after, before, test } from 'node:test';
import { memoryStore } from '../testing/servers/stores.ts';
import { type TestApiServer, startTestApiServer } from '../testing/servers/test-api-server.ts';
import {
  type TestClient,
  type TestJson,
  type TestResponse,
  http1Client,
  http2Client,
} from '../testing/servers/test-client.ts';

const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
/** Of this machine, and not the loopback address, where nothing is passed on to. */
const own = addresses.find(({ family, internal }) => family === 'IPv4' && !internal)?.address;
const skip = own === undefined && 'this machine has no address but the loopback one';

let server: TestApiServer;
let client: TestClient;
let backend: Server;
let port = 0;
const home = '/api/v1/namespaces/default';

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const { method, url, headers } = request;
  if (url === '/large') return void response.end('x'.repeat(3_000_000));
  const seen = { method, url, body: String(Buffer.concat(chunks)), headers };
  const answered = { 'content-type': 'application/json', 'x-pod': 'yes', 'x-hop': 'own', connection: 'close, x-hop' };
  const { location } = Object.fromEntries(new URLSearchParams(url?.split('?')[1]));
  const code = location !== undefined ? 302 : url === '/teapot' ? 418 : 200;
  response.writeHead(code, { ...answered, ...(location !== undefined && { location }) });
  response.end(JSON.stringify(seen));
}

before(async () => {
  const nodes = {
    connect: () => Promise.reject(new Error('nobody asks')),
    read: () => Promise.reject(new Error('nobody asks')),
    relay: () => Promise.reject(new Error('nobody asks')),
    addressOf: (name: string) => ({ host: name === 'n' ? (own ?? '') : '127.0.0.1', port: 10_250 }),
  };
  server = await startTestApiServer({ store: memoryStore(), deps: { nodes } });
  client = http2Client(server);
  backend = createServer((request, response) => void answer(request, response));
  backend.listen(0, own ?? '127.0.0.1');
  await once(backend, 'listening');
  ({ port } = backend.address() as AddressInfo);
  await post('/api/v1/nodes', { metadata: { name: 'n' } });
  await pod('web', own ?? '10.0.0.1');
  await post(`${home}/services`, {
    metadata: { name: 'web' },
    spec: { selector: { app: 'web' }, ports: [{ name: 'http', port: 80, targetPort: port }] },
  });
  const watch = await client.watch(
    '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?watch=true&labelSelector=kubernetes.io/service-name%3Dweb',
  );
  const isReady = ({ object }: TestJson): boolean =>
    (object.endpoints ?? []).some((one: TestJson) => one.conditions.ready);
  while (!isReady(await watch.next()));
  watch.close();
});
after(async () => {
  client.close();
  backend.close();
  await server.close();
});

function post(path: string, body: unknown): Promise<TestResponse> {
  return client.send(path, { method: 'POST', body });
}

async function pod(name: string, ip: string): Promise<void> {
  const container = { name: 'c', image: 'i', ports: [{ containerPort: port }] };
  const metadata = { name, labels: { app: name } };
  await post(`${home}/pods`, { metadata, spec: { nodeName: 'n', containers: [container] } });
  const conditions = [{ type: 'Ready', status: 'True' }];
  const body = JSON.stringify({ status: { phase: 'Running', podIP: ip, podIPs: [{ ip }], conditions } });
  const headers = { 'content-type': 'application/merge-patch+json' };
  const { status, text } = await client.send(`${home}/pods/${name}/status`, { method: 'PATCH', headers, body });
  assert.equal(status, 200, text);
}

const ways = [
  `${home}/pods/web`,
  `${home}/pods/http:web:PORT`,
  `${home}/services/web:80`,
  `${home}/services/web:http`,
  `${home}/services/http:web:80`,
  '/api/v1/nodes/n:PORT',
  '/api/v1/nodes/http:n:PORT',
];
for (const way of ways) {
  test(`a request for ${way}/proxy reaches the pod as it was sent`, { skip }, async () => {
    const uri = `${way.replace('PORT', String(port))}/proxy/a%20b/`;
    const headers = { 'x-own': 'mine', 'content-type': 'text/plain' };
    const { status, json } = await client.send(`${uri}?x=1&x=2`, { method: 'POST', headers, body: 'hello' });
    assert.equal(status, 200);
    const { 'x-own': given, 'x-forwarded-uri': forwarded } = json.headers;
    assert.deepEqual(
      [json.method, json.url, json.body, given, forwarded],
      ['POST', '/a%20b/?x=1&x=2', 'hello', 'mine', uri],
    );
  });
}

for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
  test(
    `${method} is passed on, and with nothing behind the proxy only a read is sent to its root`,
    { skip },
    async () => {
      const isRead = method === 'GET' || method === 'HEAD';
      for (const one of [client, http1Client(server)]) {
        const { status, headers, text } = await one.send(`${home}/pods/web/proxy/a`, { method });
        assert.deepEqual([status, headers['x-pod']], [200, 'yes']);
        if (method !== 'HEAD') assert.match(text, new RegExp(`"method":"${method}"`));
        const bare = await one.send(`/${home}/services/web:80/proxy?x=1`, { method });
        if (isRead) {
          assert.deepEqual([bare.status, bare.headers['location']], [301, `${home}/services/web:80/proxy/?x=1`]);
        } else assert.deepEqual([bare.status, bare.json.method, bare.json.url], [200, method, '/?x=1']);
      }
    },
  );
}

test('no credentials, no headers of a connection and no lies about the client reach a pod', { skip }, async () => {
  const old = http1Client(server);
  const headers = {
    connection: 'close, X-Hop',
    'x-hop': '1',
    te: 'trailers',
    'proxy-authorization': 'Basic eA==',
    'impersonate-user': 'somebody',
    'impersonate-group': 'system:masters',
    'x-forwarded-uri': '/elsewhere',
    'x-forwarded-host': 'elsewhere',
    'x-forwarded-for': '192.0.2.1',
  };
  const { json, headers: answered } = await old.send(`${home}/pods/web/proxy/`, { headers });
  const names = Object.keys(json.headers as object);
  const hidden = /^(authorization|x-hop|te|proxy-.*|impersonate-.*)$/;
  assert.deepEqual(
    names.filter((name) => hidden.test(name)),
    [],
  );
  const { 'x-forwarded-uri': uri, 'x-forwarded-host': host, 'x-forwarded-for': by } = json.headers;
  assert.deepEqual([uri, host], [`${home}/pods/web/proxy/`, new URL(server.url).host]);
  assert.match(by, /^192\.0\.2\.1, \S+$/);
  assert.equal(answered['x-hop'], undefined);
});

const redirects = [
  { to: '/login?x=1', becomes: `${home}/pods/web/proxy/login?x=1` },
  { to: 'http://OWN/login', becomes: `${home}/pods/web/proxy/login` },
  { to: 'http://OWN', becomes: `${home}/pods/web/proxy/` },
  { to: `${home}/pods/web/proxy/there`, becomes: `${home}/pods/web/proxy/there` },
  { to: 'login', becomes: 'login' },
  { to: 'https://example.com/login', becomes: 'https://example.com/login' },
  { to: '//example.com/login', becomes: '//example.com/login' },
];
for (const { to, becomes } of redirects) {
  test(`a pod that sends its client to ${to} sends it to ${becomes}`, { skip }, async () => {
    const location = encodeURIComponent(to.replace('OWN', `${own}:${port}`));
    const { status, headers } = await client.send(`${home}/pods/web/proxy/a?location=${location}`);
    assert.deepEqual([status, headers['location']], [302, becomes]);
  });
}

test('what is sent to a pod without any path goes to its root', { skip }, async () => {
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
    const { status, json } = await client.send(`${home}/pods/web/proxy?x=1`, { method });
    assert.deepEqual([status, json.method, json.url], [200, method, '/?x=1']);
  }
});

test('what the pod answers comes back as it is, large or refused, over either version of HTTP', { skip }, async () => {
  const old = http1Client(server);
  for (const one of [client, old]) {
    assert.equal((await one.send(`${home}/pods/web/proxy/teapot`)).status, 418);
    assert.equal((await one.send(`${home}/pods/web/proxy/large`)).bytes.length, 3_000_000);
  }
  old.close();
});

const odd = [
  { it: 'another protocol', says: '101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket', code: 503 },
  { it: 'no status that there is', says: '999 Odd\r\nContent-Length: 0', code: 503 },
  { it: 'a status below all', says: '099 Odd\r\nContent-Length: 0', code: 503 },
  {
    it: 'headers of a connection',
    says: '200 OK\r\nProxy-Connection: x\r\nHTTP2-Settings: x\r\nContent-Length: 0',
    code: 200,
  },
  { it: 'nothing, of some length', says: '204 No Content\r\nContent-Length: 5', code: 204 },
];
for (const { it, says, code } of odd) {
  test(`a pod that answers with ${it} stops nobody`, { skip }, async () => {
    const raw = createRawServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.write(`HTTP/1.1 ${says}\r\n\r\n`));
    });
    raw.listen(0, own);
    await once(raw, 'listening');
    const old = http1Client(server);
    const path = `${home}/pods/web:${(raw.address() as AddressInfo).port}/proxy/`;
    const answers = await Promise.all([client, old].map((one) => one.send(path)));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [code, code],
    );
    old.close();
    raw.close();
  });
}

test('an answer that breaks off is no whole answer, over either version of HTTP', { skip }, async () => {
  const raw = createRawServer((socket) => {
    socket.on('error', () => {});
    const part = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n';
    socket.once('data', () => socket.end(part));
  });
  raw.listen(0, own);
  await once(raw, 'listening');
  const path = `${home}/pods/web:${(raw.address() as AddressInfo).port}/proxy/`;
  const old = http1Client(server);
  for (const one of [client, old]) await assert.rejects(one.send(path));
  old.close();
  raw.close();
});

const refusals = [
  { it: 'a service that is not there', path: 'services/none/proxy/', code: 404, text: /services "none" not found/ },
  { it: 'a pod that is not there', path: 'pods/none/proxy/', code: 404, text: /pods "none" not found/ },
  {
    it: 'a port that the service has not',
    path: 'services/web:81/proxy/',
    code: 503,
    text: /no service port 81 found for service "web"/,
  },
  {
    it: 'a name that the service has not',
    path: 'services/web:x/proxy/',
    code: 503,
    text: /no endpoints available for service "web"/,
  },
  {
    it: 'the address of the API server',
    path: 'services/kubernetes:443/proxy/',
    code: 503,
    text: /no endpoints available/,
  },
  { it: 'another scheme', path: 'services/ftp:web:80/proxy/', code: 400, text: /invalid service request/ },
  { it: 'a port that is none', path: 'pods/web:99999/proxy/', code: 400, text: /invalid port "99999"/ },
  { it: 'a node of another scheme', path: '/api/v1/nodes/ftp:n:80/proxy/', code: 400, text: /invalid node request/ },
  { it: 'a port that no node has', path: '/api/v1/nodes/n:x/proxy/', code: 400, text: /invalid port "x"/ },
  { it: 'a node on loopback', path: '/api/v1/nodes/local:80/proxy/', code: 400, text: /address not allowed/ },
];
for (const { it, path, code, text } of refusals) {
  test(`a request for ${it} is refused`, async () => {
    const { status, json } = await client.send(path.startsWith('/') ? path : `${home}/${path}`);
    assert.equal(status, code);
    assert.match(json.message, text);
  });
}

for (const ip of ['127.0.0.1', '169.254.169.254', '0.0.0.0', '224.0.0.1', '::1', 'fe80::1']) {
  test(`nothing is passed on to ${ip}, whatever a pod says of itself`, async () => {
    const name = `odd-${ip.replaceAll(/[.:]/g, '-')}0`;
    await pod(name, ip);
    const { status, json } = await client.send(`${home}/pods/${name}/proxy/`);
    assert.deepEqual([status, json.message], [400, 'address not allowed']);
  });
}

test('a pod that does not answer is an error that says so', { skip }, async () => {
  const { status, json } = await client.send(`${home}/pods/web:1/proxy/`);
  assert.equal(status, 503);
  assert.match(json.message, /^error trying to reach service: /);
});
