/** What a body says that does not fit its kind or its path, over real HTTP: refused, warned of, or put right. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestApiServer, startTestApiServer } from '../testing/servers/test-api-server.ts';
import { type TestClient, type TestResponse, http2Client } from '../testing/servers/test-client.ts';

const maps = '/api/v1/namespaces/default/configmaps';
const merge = { 'content-type': 'application/merge-patch+json' };
const applyPatch = { 'content-type': 'application/apply-patch+yaml' };

let server: TestApiServer;
let client: TestClient;
before(async () => {
  server = await startTestApiServer();
  client = http2Client(server);
  await client.send(maps, { method: 'POST', body: configMap('new') });
});
after(async () => {
  client.close();
  await server.close();
});

function configMap(name: string, data: Record<string, string> = {}, metadata: object = {}): object {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, ...metadata }, data };
}

function says({ status, json }: TestResponse): string {
  return `${status} ${json.reason ?? json.status ?? json.kind}: ${json.message ?? ''}`;
}

test('unknown and doubled fields are refused, warned of or dropped, as the client wishes', async () => {
  const body = '{"metadata":{"name":"odd"},"dta":{},"data":{"a":"1","a":"2"}}';
  const strict = await client.send(`${maps}?fieldValidation=Strict`, { method: 'POST', body });
  assert.equal(
    strict.json.message,
    'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dta", duplicate field "data.a"',
  );
  const warned = await client.send(maps, { method: 'POST', body });
  assert.equal(warned.status, 201);
  assert.match(String(warned.headers['warning']), /299 - "unknown field \\"dta\\""/);
  assert.match(String(warned.headers['warning']), /299 - "duplicate field \\"data.a\\""/);
  assert.equal(warned.json.dta, undefined);
  const patch = { method: 'PATCH', headers: merge, body: '{"tada":1}' };
  assert.match(
    (await client.send(`${maps}/odd?fieldValidation=Strict`, patch)).json.message,
    /strict decoding error: unknown field "tada"/,
  );
  assert.equal((await client.send(`${maps}/odd?fieldValidation=Ignore`, patch)).headers['warning'], undefined);
});

test('so are keys that stand twice in YAML, which are named by their lines', async () => {
  const body = 'metadata: {name: doubled}\ndta: {}\ndata:\n  a: "1"\n  a: "2"\n  b: "3"\n  b: "4"\n';
  const yaml = { method: 'POST', body, headers: { 'content-type': 'application/yaml' } };
  const lines = ['line 5: key "a" already set in map', 'line 7: key "b" already set in map'];
  const strict = await client.send(`${maps}?fieldValidation=Strict`, yaml);
  assert.equal(
    says(strict),
    `400 BadRequest: ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  ${lines.join('\n  ')}, unknown field "dta"`,
  );
  const warned = await client.send(maps, yaml);
  assert.deepEqual([warned.status, warned.json.data], [201, { a: '2', b: '4' }]);
  for (const line of [...lines, 'unknown field "dta"']) {
    assert.ok(String(warned.headers['warning']).includes(`299 - ${JSON.stringify(line)}`), line);
  }
  const apply = (validation: string): Promise<TestResponse> => {
    const path = `${maps}/doubled?fieldManager=one&force=true&fieldValidation=${validation}`;
    const own = `apiVersion: v1\nkind: ConfigMap\n${body.replace('dta: {}\n', '')}`;
    return client.send(path, { method: 'PATCH', headers: applyPatch, body: own });
  };
  assert.match(
    says(await apply('Strict')),
    /^400 BadRequest: error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n {2}line 6: key "a"/,
  );
  const ignored = await apply('Ignore');
  assert.deepEqual([ignored.status, ignored.headers['warning']], [200, undefined]);
});

test('an owner that is named twice is kept once, and warned of', async () => {
  const [one, other] = ['1', '2'].map((uid) => ({ apiVersion: 'v1', kind: 'Pod', name: 'p', uid }));
  const body = configMap('owned', {}, { ownerReferences: [one, other, { uid: '1', ...one }] });
  const created = await client.send(`${maps}?dryRun=All`, { method: 'POST', body });
  assert.deepEqual(created.json.metadata.ownerReferences, [one, other]);
  assert.match(String(created.headers['warning']), /ownerReferences contains duplicate entries; .*observed: 1"$/);
});

test('a namespace is nothing to an object of the cluster', async () => {
  const path = '/api/v1/namespaces/kube-public';
  const patch = { method: 'PATCH', headers: merge, body: '{"metadata":{"namespace":"x"}}' };
  const { status, json } = await client.send(path, patch);
  assert.deepEqual([status, json.metadata.namespace], [200, undefined]);
});

const refusals = [
  {
    it: 'a patch of another name',
    path: `${maps}/new`,
    method: 'PATCH',
    headers: merge,
    body: '{"metadata":{"name":"other"}}',
    says: '400 BadRequest: the name of the object (other) does not match the name on the URL (new)',
  },
  {
    it: 'an apply of another name, where nothing is yet',
    path: `${maps}/absent?fieldManager=m`,
    method: 'PATCH',
    headers: applyPatch,
    body: configMap('other'),
    says: '400 BadRequest: the name of the object (other) does not match the name on the URL (absent)',
  },
  {
    it: 'an apply without a name, where nothing is yet',
    path: `${maps}/absent?fieldManager=m`,
    method: 'PATCH',
    headers: applyPatch,
    body: { apiVersion: 'v1', kind: 'ConfigMap' },
    says: '400 BadRequest: the name of the object (absent based on URL) was undeterminable: name must be provided',
  },
  {
    it: 'an apply to another namespace than the path',
    path: `${maps}/absent?fieldManager=m`,
    method: 'PATCH',
    headers: applyPatch,
    body: configMap('absent', {}, { namespace: 'other' }),
    says: '400 BadRequest: the namespace of the provided object does not match the namespace sent on the request',
  },
  {
    it: 'an apply of an object that was there once',
    path: `${maps}/absent?fieldManager=m`,
    method: 'PATCH',
    headers: applyPatch,
    body: configMap('absent', {}, { uid: 'gone' }),
    says: '409 Conflict: Operation cannot be fulfilled on configmaps "absent": uid mismatch: the provided object specified uid gone, and no existing object was found',
  },
  {
    it: 'a PUT of a lease that was there once',
    path: '/apis/coordination.k8s.io/v1/namespaces/default/leases/gone',
    method: 'PUT',
    body: { metadata: { name: 'gone', uid: 'old' }, spec: {} },
    says: '409 Conflict: Operation cannot be fulfilled on leases.coordination.k8s.io "gone": uid mismatch: the provided object specified uid old, and no existing object was found',
  },
  {
    it: 'a PUT without a name',
    path: `${maps}/new`,
    method: 'PUT',
    body: { metadata: {} },
    says: '400 BadRequest: the name of the object (new based on URL) was undeterminable: name must be provided',
  },
  {
    it: 'a deletion whose body is the object',
    path: `${maps}/new`,
    method: 'DELETE',
    body: configMap('new'),
    says: '400 BadRequest: no kind "ConfigMap" is registered for version "v1"',
  },
];
for (const { it, path, says: expected, ...request } of refusals) {
  test(`refuses ${it}`, async () => {
    assert.equal(says(await client.send(path, request)), expected);
  });
}
