/** Requests that no client would send, over real HTTP: each is answered, and never with an internal error. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { type TestApiServer, impatientClock, startTestApiServer } from '../testing/servers/test-api-server.ts';
import { type TestClient, http1Client, http2Client } from '../testing/servers/test-client.ts';

let server: TestApiServer;
let client: TestClient;
before(async () => {
  server = await startTestApiServer({ deps: { clock: impatientClock } });
  client = http2Client(server);
  await client.send('/api/v1/namespaces/default/configmaps', {
    method: 'POST',
    body: { metadata: { name: 'x' }, data: { a: '1' } },
  });
});
after(async () => {
  client.close();
  await server.close();
});

const part = fc.oneof(
  fc.constantFrom(
    'api',
    'apis',
    'v1',
    'namespaces',
    'default',
    'pods',
    'configmaps',
    'secrets',
    'events',
    'nodes',
    'x',
  ),
  fc.constantFrom('status', 'log', 'exec', 'token', 'binding', 'eviction', 'finalize', 'proxy', 'leases'),
  fc.constantFrom(
    'coordination.k8s.io',
    'events.k8s.io',
    'authentication.k8s.io',
    'tokenreviews',
    'bindings',
    'default',
  ),
  fc.constantFrom('..', '.', '%2e%2e', '%2F', '%00', '__proto__', 'constructor', '%E0%A4%A', '', '~', '*'),
  fc.string({ maxLength: 12 }).map((text) => encodeURIComponent(text)),
);
const path = fc.oneof(
  fc.array(part, { maxLength: 8 }).map((parts) => `/${parts.join('/')}`),
  fc.constantFrom(
    '/api/v1/namespaces/default/configmaps',
    '/api/v1/namespaces/default/configmaps/x',
    '/api/v1/namespaces/default/pods',
    '/api/v1/namespaces/default/serviceaccounts/default/token',
    '/api/v1/nodes',
    '/apis/events.k8s.io/v1/namespaces/default/events',
    '/apis/coordination.k8s.io/v1/namespaces/default/leases/l',
  ),
);
const queryName = fc.constantFrom(
  'labelSelector',
  'fieldSelector',
  'limit',
  'continue',
  'resourceVersion',
  'resourceVersionMatch',
  'timeoutSeconds',
  'dryRun',
  'fieldManager',
  'fieldValidation',
  'force',
  'pretty',
  'includeObject',
  'gracePeriodSeconds',
  'propagationPolicy',
  'sendInitialEvents',
);
const queryValue = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.constantFrom(
    '1',
    '0',
    '-1',
    '99999999999999999999',
    'true',
    'All',
    'Strict',
    'a in (b',
    '!',
    'metadata.name=x',
    'a\\',
    'Exact',
    'Object',
  ),
  fc.constantFrom(
    'eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTk5OTk5LCJzdGFydCI6ImEifQ',
    'e30',
    'NotOlderThan',
    'Orphan',
    '\0',
    '2',
  ),
);
const query = fc
  .array(fc.tuple(queryName, queryValue), { maxLength: 4 })
  // A watch that works never ends; those are tested elsewhere.
  .map((pairs) => new URLSearchParams(pairs.map(([name, value]): [string, string] => [name, value])).toString());
const contentType = fc.constantFrom(
  'application/json',
  'application/yaml',
  'application/vnd.kubernetes.protobuf',
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
  'application/apply-patch+yaml',
  'text/html',
  ';;',
  '',
);
const accept = fc.constantFrom(
  '',
  '*/*',
  'application/json',
  'application/yaml',
  'application/json;as=Table;v=v1;g=meta.k8s.io',
  'a/b',
  ';q=',
  'application/json;q=x',
  'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io',
  'application/vnd.kubernetes.protobuf',
);
const text = fc.oneof(
  fc.string({ maxLength: 8 }),
  fc.constantFrom('x', 'v1', 'ConfigMap', '$patch', 'delete', '__proto__', 'a/b'),
);
const body = fc.oneof(
  fc.string({ maxLength: 60 }),
  fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.concat([Buffer.from('k8s\0'), bytes])),
  fc.jsonValue({ maxDepth: 4 }).map((json) => JSON.stringify(json)),
  fc
    .record(
      {
        apiVersion: text,
        kind: text,
        metadata: fc.record(
          {
            name: text,
            generateName: text,
            labels: fc.dictionary(text, text),
            finalizers: fc.array(text, { maxLength: 2 }),
            uid: text,
            resourceVersion: text,
          },
          { requiredKeys: [] },
        ),
        data: fc.oneof(fc.dictionary(text, text), fc.jsonValue()),
        spec: fc.jsonValue({ maxDepth: 3 }),
      },
      { requiredKeys: [] },
    )
    .map((json) => JSON.stringify(json)),
  fc
    .array(
      fc.record({
        op: fc.constantFrom('add', 'remove', 'replace', 'move', 'copy', 'test', 'x'),
        path: fc.constantFrom('/data/a', '/metadata', '', '/', '/data/-', '/__proto__/x', '/metadata/name'),
        from: fc.constantFrom('/data', '/metadata'),
        value: fc.jsonValue({ maxDepth: 2 }),
      }),
      { maxLength: 3 },
    )
    .map((json) => JSON.stringify(json)),
);
const method = fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE', 'FOO');

test("whatever is sent is answered, and never by a 5xx of the server's own making", async () => {
  await fc.assert(
    fc.asyncProperty(path, query, method, contentType, accept, body, async (where, asked, verb, type, wanted, sent) => {
      const hasBody = verb !== 'GET' && verb !== 'HEAD';
      const headers = { ...(type !== '' && { 'content-type': type }), ...(wanted !== '' && { accept: wanted }) };
      const { status } = await client.send(`${where}?${asked}`, {
        method: verb,
        headers,
        ...(hasBody && { body: sent }),
      });
      // 504 is the API's own answer to a version that has not come yet.
      assert.ok((status >= 200 && status < 500) || status === 504, `${verb} ${where}?${asked} gave ${status}`);
    }),
    { numRuns: 800, seed: 20260816 },
  );
  const failures = server.notices.filter(({ kind }) => kind !== 'RequestServed');
  assert.deepEqual(failures, []);
  assert.equal((await client.send('/readyz')).text, 'ok');
});

test('patches of the fields of an object are answered, and leave an object that can be read', async () => {
  const types = fc.constantFrom(
    'json-patch+json',
    'merge-patch+json',
    'strategic-merge-patch+json',
    'apply-patch+yaml',
  );
  await fc.assert(
    fc.asyncProperty(types, body, async (type, sent) => {
      const headers = { 'content-type': `application/${type}` };
      const target = '/api/v1/namespaces/default/configmaps/x?fieldManager=f';
      const { status } = await client.send(target, { method: 'PATCH', headers, body: sent });
      assert.ok(status < 500, `${type} ${String(sent)} gave ${status}`);
      const list = await client.send('/api/v1/namespaces/default/configmaps?labelSelector=a');
      assert.equal(list.status, 200);
    }),
    { numRuns: 250, seed: 20260817 },
  );
});

test('bytes that are not TLS or not HTTP close their own connection and nothing else', async () => {
  for (const bytes of ['GET / HTTP/1.1\r\n\r\n', '\0\0\0', 'x'.repeat(1000)]) {
    const socket = connect(server.address.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.end(bytes);
    await new Promise((resolve) => socket.once('close', resolve));
  }
  assert.equal((await http1Client(server).send('/healthz')).text, 'ok');
});
