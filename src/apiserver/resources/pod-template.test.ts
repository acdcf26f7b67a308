/** PodTemplates over HTTP, in JSON and in protobuf: what one file for a kind and one entry give. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { encodeProtobuf } from '../../testing/servers/protobuf-writer.ts';
import { type TestApiServer, startTestApiServer } from '../../testing/servers/test-api-server.ts';
import { type TestClient, http1Client } from '../../testing/servers/test-client.ts';

const templates = '/api/v1/namespaces/default/podtemplates';
const asTable = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' };

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

const containers = [
  { name: 'web', image: 'nginx:1' },
  { name: 'log', image: 'busybox' },
];

function podTemplate(name: string, template: object = { spec: { containers } }): { apiVersion: string; kind: string } {
  const object = { apiVersion: 'v1', kind: 'PodTemplate', metadata: { name }, template };
  return object;
}

test('a PodTemplate is completed like the pods made from it, and its generation follows its template', async () => {
  const labels = { tier: 'front', app: 'web' };
  const body = podTemplate('web', { metadata: { labels }, spec: { containers } });
  const created = await client.send(templates, { method: 'POST', body });
  assert.equal(created.status, 201);
  const { metadata, template } = created.json;
  assert.equal(metadata.generation, 1);
  assert.deepEqual(template.metadata, { labels });
  assert.equal(template.spec.restartPolicy, 'Always');
  assert.deepEqual(
    template.spec.containers.map(({ imagePullPolicy }: { imagePullPolicy: string }) => imagePullPolicy),
    ['IfNotPresent', 'Always'],
  );

  const headers = { 'content-type': 'application/strategic-merge-patch+json' };
  const patch = (change: object): ReturnType<TestClient['send']> =>
    client.send(`${templates}/web`, { method: 'PATCH', headers, body: change });
  assert.equal((await patch({ metadata: { labels: { a: 'b' } } })).json.metadata.generation, 1);
  const changed = await patch({ template: { spec: { containers: [{ name: 'web', image: 'nginx:2' }] } } });
  assert.equal(changed.json.metadata.generation, 2);
  assert.deepEqual(
    changed.json.template.spec.containers.map(({ image }: { image: string }) => image),
    ['nginx:2', 'busybox'],
  );

  const { json: table } = await client.send(templates, { headers: asTable });
  assert.deepEqual(
    table.columnDefinitions.map(({ name }: { name: string }) => name),
    ['Name', 'Containers', 'Images', 'Pod Labels'],
  );
  assert.deepEqual(table.rows[0].cells, ['web', 'web,log', 'nginx:2,busybox', 'app=web,tier=front']);

  const deleted = await client.send(`${templates}/web`, { method: 'DELETE' });
  assert.deepEqual([deleted.status, deleted.json.kind], [200, 'PodTemplate']);
  assert.equal((await client.send(`${templates}/web`)).status, 404);
});

test('a PodTemplate sent in protobuf is the one sent in JSON', async () => {
  const headers = { 'content-type': 'application/vnd.kubernetes.protobuf' };
  const body = encodeProtobuf(podTemplate('binary'));
  const sent = await client.send(templates, { method: 'POST', headers, body });
  assert.equal(sent.status, 201);
  const { json } = await client.send(templates, { method: 'POST', body: podTemplate('text') });
  assert.deepEqual(sent.json.template.spec, json.template.spec);
  const { json: listed } = await client.send(templates);
  assert.deepEqual(
    listed.items.map((item: { metadata: { name: string } }) => item.metadata.name),
    ['binary', 'text'],
  );
});

const refusals = [
  {
    it: 'without containers',
    template: undefined,
    says: /^PodTemplate "bad" is invalid: template\.spec\.containers: Required value/,
  },
  {
    it: 'with ephemeral containers',
    template: { spec: { containers, ephemeralContainers: [{ name: 'look', image: 'busybox' }] } },
    says: /template\.spec\.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template/,
  },
];
for (const { it, template, says } of refusals) {
  test(`a PodTemplate ${it} is refused`, async () => {
    const body = { ...podTemplate('bad'), template };
    const { status, json } = await client.send(templates, { method: 'POST', body });
    assert.equal(status, 422);
    assert.match(json.message, says);
  });
}
