/** ControllerRevisions over HTTP, in JSON and in protobuf. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { encodeProtobuf } from '../../testing/servers/protobuf-writer.ts';
import { type TestApiServer, startTestApiServer } from '../../testing/servers/test-api-server.ts';
import { type TestClient, type TestResponse, http1Client } from '../../testing/servers/test-client.ts';

const revisions = '/apis/apps/v1/namespaces/default/controllerrevisions';

let server: TestApiServer;
let client: TestClient;
before(async () => {
  server = await startTestApiServer();
  client = http1Client(server);
});
after(async () => {
  client.close();
  await server.close();
});

const data = { spec: { template: { spec: { containers: [{ name: 'web', image: 'nginx' }] } }, empty: {} } };

function revision(name: string, more: object = {}): { apiVersion: string; kind: string } {
  const object = { apiVersion: 'apps/v1', kind: 'ControllerRevision', metadata: { name }, data, revision: 3, ...more };
  return object;
}

function merge(name: string, body: object): Promise<TestResponse> {
  const headers = { 'content-type': 'application/merge-patch+json' };
  return client.send(`${revisions}/${name}`, { method: 'PATCH', headers, body });
}

test('a ControllerRevision is kept as it was sent; its number may change, its data may not', async () => {
  // Of a kind that is unknown here, as an owner that is known and not there would take it along.
  const owner = { apiVersion: 'example.com/v1', kind: 'DaemonSet', name: 'web', uid: '1', controller: true };
  const metadata = { name: 'web-1', ownerReferences: [owner] };
  const created = await client.send(revisions, { method: 'POST', body: revision('web-1', { metadata }) });
  assert.equal(created.status, 201);
  assert.deepEqual([created.json.data, created.json.revision], [data, 3]);
  assert.deepEqual((await client.send(`${revisions}/web-1`)).json, created.json);

  assert.equal((await merge('web-1', { revision: 4 })).json.revision, 4);
  const refused = await merge('web-1', { data: { spec: { empty: { not: 'any more' } } } });
  assert.equal(refused.status, 422);
  assert.match(
    refused.json.message,
    /^ControllerRevision\.apps "web-1" is invalid: data: Invalid value: .*: field is immutable$/,
  );

  const headers = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' };
  const { json: table } = await client.send(revisions, { headers });
  assert.deepEqual(
    table.columnDefinitions.map(({ name }: { name: string }) => name),
    ['Name', 'Controller', 'Revision', 'Age'],
  );
  assert.deepEqual(table.rows[0].cells.slice(0, 3), ['web-1', 'daemonset.example.com/web', 4]);

  assert.equal((await client.send(`${revisions}/web-1`, { method: 'DELETE' })).json.status, 'Success');
  assert.equal((await client.send(`${revisions}/web-1`)).status, 404);
});

test('a ControllerRevision sent in protobuf is the one sent in JSON', async () => {
  const headers = { 'content-type': 'application/vnd.kubernetes.protobuf' };
  const body = encodeProtobuf(revision('binary', { revision: 0 }));
  const { status, json } = await client.send(revisions, { method: 'POST', headers, body });
  assert.deepEqual([status, json.data, json.revision], [201, data, 0]);
  const { json: listed } = await client.send(revisions);
  assert.deepEqual(
    listed.items.map((item: { metadata: { name: string } }) => item.metadata.name),
    ['binary'],
  );
});

const refusals = [
  { it: 'without data', change: { data: undefined }, says: /data: Required value: data is mandatory/ },
  {
    it: 'of a negative number',
    change: { revision: -1 },
    says: /revision: Invalid value: -1: must be greater than or equal to 0/,
  },
];
for (const { it, change, says } of refusals) {
  test(`a ControllerRevision ${it} is refused`, async () => {
    const { status, json } = await client.send(revisions, { method: 'POST', body: revision('bad', change) });
    assert.equal(status, 422);
    assert.match(json.message, says);
  });
}

test('data is written as Go writes it: kube-controller-manager compares bytes', async () => {
  const command = ['sh', '-c', 'a >b && <c'];
  const body = revision('web-2', { data: { spec: { command } } });
  assert.equal((await client.send(revisions, { method: 'POST', body })).status, 201);
  const { text } = await client.send(`${revisions}/web-2`);
  const written = String.raw`"data":{"spec":{"command":["sh","-c","a \u003eb \u0026\u0026 \u003cc"]}}`;
  assert.ok(text.includes(written), text);
});
