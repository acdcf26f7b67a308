/** Bugs inside one request, and clients that vanish in any phase: one answer fails, and everyone else is served. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { type Socket, connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { type TLSSocket, connect as connectTls } from 'node:tls';
import { memoryStore } from '../testing/servers/stores.ts';
import { type TestApiServer, adminToken, startTestApiServer } from '../testing/servers/test-api-server.ts';
import { type TestClient, type TestWatch, http1Client, http2Client } from '../testing/servers/test-client.ts';
import type { KubeObject, Resource } from './model/resource.ts';
import { resources } from './resources/resources.ts';

const path = '/api/v1/namespaces/default/configmaps';
const table = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' };

/** A bug that shows with objects of this label alone. */
function fault({ metadata }: KubeObject, where: string): void {
  assert.notEqual(metadata.labels?.['fault'], where, 'a secret: hunter2');
}

function faulty(resource: Resource): Resource {
  if (resource.plural !== 'configmaps') return resource;
  return {
    ...resource,
    validate: (object) => (fault(object, 'validate'), resource.validate(object)),
    validateUpdate: (object, old) => (fault(object, 'validateUpdate'), resource.validateUpdate(object, old)),
    prepareForCreate: (object, now) => (fault(object, 'prepare'), resource.prepareForCreate(object, now)),
    columns: [{ ...name, cell: (object) => (fault(object, 'table'), object.metadata.name) }],
    fields: { bug: (object) => (fault(object, 'select'), '') },
  };
}
const name = { name: 'Name', type: 'string', description: '', priority: 0 } as const;

let server: TestApiServer;
let bystander: TestClient;
let watching: TestWatch;
let count = 0;
before(async () => {
  server = await startTestApiServer({ store: memoryStore(), deps: { resources: resources.map(faulty) } });
  bystander = http2Client(server);
  watching = await bystander.watch(`${path}?watch=true&labelSelector=watched`);
});
after(async () => {
  bystander.close();
  await server.close();
});

/** Another client writes and gets an answer. */
async function othersAreServed(): Promise<void> {
  count += 1;
  const metadata = { name: `other-${count}`, labels: { watched: '' } };
  const { status, text } = await bystander.send(path, { method: 'POST', body: { metadata } });
  assert.equal(status, 201, text);
  assert.equal((await watching.next()).object.metadata.name, metadata.name);
}

/** However it ends: Node's client of HTTP/2 shows an end before it shows that it was broken off. */
async function over(watch: TestWatch): Promise<void> {
  try {
    while ((await watch.next()) !== undefined);
  } catch {
    // Broken off.
  }
}

const failures = (): unknown[] => server.notices.filter(({ kind }) => kind === 'RequestFailed');

for (const { version, make } of [
  { version: 'HTTP/1.1', make: http1Client },
  { version: 'HTTP/2', make: http2Client },
]) {
  describe(`a failed assertion over ${version}`, () => {
    const post = (client: TestClient, where: string): ReturnType<TestClient['send']> =>
      client.send(path, { method: 'POST', body: { metadata: { generateName: 'x', labels: { fault: where } } } });

    for (const where of ['validate', 'prepare']) {
      test(`in ${where} is a 500 that quotes nothing`, async () => {
        const client = make(server);
        const earlier = failures().length;
        const { status, text, json } = await post(client, where);
        assert.deepEqual([status, json.reason], [500, 'InternalError']);
        assert.doesNotMatch(text, /hunter2/);
        assert.equal(failures().length, earlier + 1);
        // The same connection goes on.
        assert.equal((await client.send(`${path}?limit=1`)).status, 200);
        client.close();
        await othersAreServed();
      });
    }

    test('in a decision on the newest state fails that write alone', async () => {
      const client = make(server);
      const { json } = await post(client, 'validateUpdate');
      const body = { metadata: { ...json.metadata, annotations: { a: 'b' } } };
      const [refused] = await Promise.all([
        client.send(`${path}/${json.metadata.name}`, { method: 'PUT', body }),
        othersAreServed(),
      ]);
      assert.equal(refused.status, 500);
      client.close();
    });

    test('while an answer or an event is printed ends that list or watch alone', async () => {
      const client = make(server);
      const earlier = failures().length;
      const live = await client.watch(`${path}?watch=true`, table);
      const { json } = await post(client, 'table');
      await over(live);
      assert.equal((await client.send(path, { headers: table })).status, 500);
      await othersAreServed();
      // The replay of what was missed has the same bug.
      const revision = Number(json.metadata.resourceVersion) - 1;
      await client.watch(`${path}?watch=true&resourceVersion=${revision}`, table).then(over, () => {});
      await othersAreServed();
      assert.equal(failures().length, earlier + 3);
      await bystander.send(`${path}/${json.metadata.name}`, { method: 'DELETE' });
      client.close();
    });

    test('in the selection of a watch ends that watch alone', async () => {
      const client = make(server);
      const live = await client.watch(`${path}?watch=true&fieldSelector=bug!=x`);
      const { json } = await post(client, 'select');
      await over(live);
      await othersAreServed();
      await bystander.send(`${path}/${json.metadata.name}`, { method: 'DELETE' });
      client.close();
    });
  });
}

const head = `host: x\r\nauthorization: Bearer ${adminToken}\r\n`;
const vanishing: readonly { readonly phase: string; readonly sends: string; readonly untilAnswer?: boolean }[] = [
  { phase: 'after the handshake', sends: '' },
  { phase: 'in the middle of the headers', sends: `GET ${path} HTTP/1.1\r\nhost` },
  { phase: 'in the middle of the body', sends: `POST ${path} HTTP/1.1\r\n${head}content-length: 100\r\n\r\n{"me` },
  { phase: 'before the answer', sends: `GET ${path} HTTP/1.1\r\n${head}\r\n` },
  { phase: 'in a watch', sends: `GET ${path}?watch=true HTTP/1.1\r\n${head}\r\n`, untilAnswer: true },
  { phase: 'with more requests waiting', sends: `GET ${path} HTTP/1.1\r\n${head}\r\n`.repeat(50) },
  { phase: 'asking to leave HTTP', sends: `GET ${path} HTTP/1.1\r\n${head}connection: upgrade\r\nupgrade: x\r\n\r\n` },
];
for (const { phase, sends, untilAnswer = false } of vanishing) {
  for (const how of ['end', 'destroy', 'reset'] as const) {
    test(`a client that vanishes ${phase} (${how}) hurts no one`, async () => {
      const connection = await openTls();
      connection.tls.write(sends);
      if (untilAnswer) await once(connection.tls, 'data');
      vanish(connection, how);
      await othersAreServed();
    });
  }
}

test('a client that vanishes in the middle of the handshake hurts no one', async () => {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname).on('error', () => {});
  await once(socket, 'connect');
  // The beginning of a ClientHello.
  socket.write(Buffer.from('16030100c8010000c40303', 'hex'));
  socket.resetAndDestroy();
  await othersAreServed();
});

test('a session of HTTP/2 that vanishes with open streams, or sends invalid frames, affects no other', async () => {
  for (const end of ['destroy', 'garbage'] as const) {
    const session = connectHttp2(server.url, { ca: server.authority.certificatePem }).on('error', () => {});
    const headers = { authorization: `Bearer ${adminToken}` };
    const watch = session.request({ ':path': `${path}?watch=true`, ...headers }).on('error', () => {});
    const write = session.request({ ':path': path, ':method': 'POST', ...headers }).on('error', () => {});
    write.write('{"metadata":');
    await once(watch, 'response');
    if (end === 'destroy') session.destroy();
    else {
      const { tls } = await openTls('h2');
      tls.write(`PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${'\xff'.repeat(200)}`, 'latin1');
      await once(tls, 'close');
      session.destroy();
    }
    await othersAreServed();
  }
});

interface Connection {
  readonly tls: TLSSocket;
  readonly tcp: Socket;
}

async function openTls(protocol = 'http/1.1'): Promise<Connection> {
  const { hostname, port } = new URL(server.url);
  const tcp = connect(Number(port), hostname).on('error', () => {});
  const options = { socket: tcp, host: hostname, ca: server.authority.certificatePem, ALPNProtocols: [protocol] };
  const tls = connectTls(options).on('error', () => {});
  await once(tls, 'secureConnect');
  tls.resume();
  return { tls, tcp };
}

function vanish({ tls, tcp }: Connection, how: 'end' | 'destroy' | 'reset'): void {
  if (how === 'end') tls.end();
  else if (how === 'destroy') tls.destroy();
  else tcp.resetAndDestroy();
}
