/** Objects over real HTTP, in both versions of it: the reference's checklist, items 2, 3, 5, 6, 8, 9 and 13. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { type TestApiServer, impatientClock, startTestApiServer } from '../testing/servers/test-api-server.ts';
import { type TestClient, type TestResponse, http1Client, http2Client } from '../testing/servers/test-client.ts';

const maps = '/api/v1/namespaces/default/configmaps';
const strategic = { 'content-type': 'application/strategic-merge-patch+json' };
const merge = { 'content-type': 'application/merge-patch+json' };
const jsonPatch = { 'content-type': 'application/json-patch+json' };
const applyPatch = { 'content-type': 'application/apply-patch+yaml' };

function configMap(name: string, data: Record<string, string> = {}, metadata: object = {}): object {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, ...metadata }, data };
}

function says({ status, json }: TestResponse): string {
  return `${status} ${json.reason ?? json.status ?? json.kind}: ${json.message ?? ''}`;
}

for (const [protocol, connect] of [
  ['HTTP/1.1', http1Client],
  ['HTTP/2', http2Client],
] as const) {
  describe(`objects over ${protocol}`, () => {
    let server: TestApiServer;
    let client: TestClient;
    before(async () => {
      server = await startTestApiServer({ deps: { clock: impatientClock } });
      client = connect(server);
    });
    after(async () => {
      client.close();
      await server.close();
    });

    test('what is kept and not acted on is said to those who write it, and not to those who report a status', async () => {
      const topologySpreadConstraints = [{ maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway' }];
      const spec = { containers: [{ name: 'main', image: 'i' }], topologySpreadConstraints };
      const body = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'spread' }, spec };
      const pods = '/api/v1/namespaces/default/pods';
      const created = await client.send(pods, { method: 'POST', body });
      assert.match(String(created.headers['warning']), /topologySpreadConstraints: kept, but this server's scheduler/);
      const status = { method: 'PATCH', headers: merge, body: { status: { message: 'here' } } };
      const reported = await client.send(`${pods}/spread/status`, status);
      assert.deepEqual([reported.status, reported.headers['warning']], [200, undefined]);
    });

    test('a created object has a name, a uid, a time, a version and an owner of its fields', async () => {
      const created = await client.send(`${maps}?fieldManager=tester`, {
        method: 'POST',
        body: configMap('new', { a: '1' }),
      });
      assert.equal(created.status, 201);
      assert.equal(created.headers['content-type'], 'application/json');
      const { metadata, kind, apiVersion, data } = created.json;
      assert.deepEqual([kind, apiVersion, data], ['ConfigMap', 'v1', { a: '1' }]);
      assert.match(metadata.uid, /^[0-9a-f-]{36}$/);
      assert.match(metadata.resourceVersion, /^\d+$/);
      assert.match(metadata.creationTimestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
      assert.equal(metadata.managedFields[0].manager, 'tester');
      const read = await client.send(`${maps}/new`);
      assert.deepEqual(read.json, created.json);
    });

    test('what a client says of uid, times and generation does not count', async () => {
      const metadata = {
        uid: 'mine',
        creationTimestamp: '2000-01-01T00:00:00Z',
        generation: 9,
        deletionTimestamp: null,
      };
      const { json } = await client.send(maps, { method: 'POST', body: configMap('forged', {}, metadata) });
      assert.notEqual(json.metadata.uid, 'mine');
      assert.notEqual(json.metadata.creationTimestamp, metadata.creationTimestamp);
      assert.equal(json.metadata.generation, undefined);
    });

    test('a name is generated from its beginning', async () => {
      const body = { metadata: { generateName: `${'a'.repeat(70)}-` } };
      const { json } = await client.send(maps, { method: 'POST', body });
      assert.match(json.metadata.name, /^a{58}[bcdfghjklmnpqrstvwxz2456789]{5}$/);
    });

    const refusals: readonly {
      it: string;
      path: string;
      method?: string;
      body?: unknown;
      headers?: Record<string, string>;
      says: string;
    }[] = [
      { it: 'an object that is not there', path: `${maps}/none`, says: '404 NotFound: configmaps "none" not found' },
      {
        it: 'an unknown resource',
        path: '/api/v1/widgets',
        says: '404 NotFound: the server could not find the requested resource',
      },
      {
        it: 'an unknown subresource',
        path: `${maps}/new/status`,
        says: '404 NotFound: the server could not find the requested resource',
      },
      {
        it: 'a method that the path does not know',
        path: maps,
        method: 'PUT',
        body: {},
        says: '405 MethodNotAllowed: the server does not allow this method on the requested resource',
      },
      {
        it: 'OPTIONS (13)',
        path: maps,
        method: 'OPTIONS',
        says: '405 MethodNotAllowed: the server does not allow this method on the requested resource',
      },
      {
        it: 'a second object of the name',
        path: maps,
        method: 'POST',
        body: configMap('new'),
        says: '409 AlreadyExists: configmaps "new" already exists',
      },
      {
        it: 'no name at all',
        path: maps,
        method: 'POST',
        body: configMap(''),
        says: '422 Invalid: ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
      },
      {
        it: 'another namespace than the path',
        path: maps,
        method: 'POST',
        body: configMap('x', {}, { namespace: 'other' }),
        says: '400 BadRequest: the namespace of the provided object does not match the namespace sent on the request',
      },
      {
        it: 'a namespace that is not there',
        path: '/api/v1/namespaces/nowhere/configmaps',
        method: 'POST',
        body: configMap('x'),
        says: '404 NotFound: namespaces "nowhere" not found',
      },
      {
        it: 'another API version',
        path: maps,
        method: 'POST',
        body: { apiVersion: 'v2', kind: 'ConfigMap', metadata: { name: 'x' } },
        says: '400 BadRequest: the API version in the data (v2) does not match the expected API version (v1)',
      },
      {
        it: 'a version set by the client',
        path: maps,
        method: 'POST',
        body: configMap('x', {}, { resourceVersion: '5' }),
        says: '400 BadRequest: resourceVersion should not be set on objects to be created',
      },
      {
        it: 'another name than the path',
        path: `${maps}/new`,
        method: 'PUT',
        body: configMap('old'),
        says: '400 BadRequest: the name of the object (old) does not match the name on the URL (new)',
      },
      {
        it: 'a body of an unknown type',
        path: maps,
        method: 'POST',
        body: 'x',
        headers: { 'content-type': 'text/plain' },
        says: '415 UnsupportedMediaType: the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf',
      },
      {
        it: 'a patch of an unknown type',
        path: `${maps}/new`,
        method: 'PATCH',
        body: '{}',
        headers: { 'content-type': 'application/json' },
        says: '415 UnsupportedMediaType: the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml',
      },
      {
        it: 'an answer that cannot be given',
        path: maps,
        headers: { accept: 'text/html' },
        says: '406 NotAcceptable: only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf',
      },
      {
        it: 'a body that is not JSON',
        path: maps,
        method: 'POST',
        body: '{"a',
        headers: { 'content-type': 'application/json' },
        says: '400 BadRequest: the object provided is unrecognized (must be of type ConfigMap): unexpected end of JSON input ({"a)',
      },
      {
        it: 'an empty body',
        path: maps,
        method: 'POST',
        body: '',
        headers: { 'content-type': 'application/json' },
        says: '400 BadRequest: the object provided is unrecognized (must be of type ConfigMap): unexpected end of JSON input (<empty>)',
      },
      {
        it: 'a wrong dry run',
        path: `${maps}?dryRun=Some`,
        method: 'POST',
        body: configMap('x'),
        says: '422 Invalid: CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
      },
      {
        it: 'a field selector of an unknown field',
        path: `${maps}?fieldSelector=data.a%3Db`,
        says: '400 BadRequest: "data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
      },
      {
        it: 'a label selector that cannot be read',
        path: `${maps}?labelSelector=%3D`,
        says: "400 BadRequest: found '=', expected: !, identifier, or 'end of string'",
      },
      {
        it: 'a merge object under the name of a JSON patch',
        path: `${maps}/new`,
        method: 'PATCH',
        body: '{"data":{}}',
        headers: jsonPatch,
        says: '400 BadRequest: error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp',
      },
      {
        it: 'a JSON patch whose test fails',
        path: `${maps}/new`,
        method: 'PATCH',
        body: '[{"op":"test","path":"/data/a","value":"2"}]',
        headers: jsonPatch,
        says: '422 Invalid: the server rejected our request due to an error in our request',
      },
      {
        it: 'an apply without a manager',
        path: `${maps}/new`,
        method: 'PATCH',
        body: '{}',
        headers: applyPatch,
        says: '422 Invalid: PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
      },
      {
        it: 'a PUT of nothing',
        path: `${maps}/none`,
        method: 'PUT',
        body: configMap('none'),
        says: '404 NotFound: configmaps "none" not found',
      },
      {
        it: 'a patch of another uid',
        path: `${maps}/new`,
        method: 'PATCH',
        body: '{"metadata":{"uid":"a"}}',
        headers: strategic,
        says: '422 Invalid: ConfigMap "new" is invalid: metadata.uid: Invalid value: "a": field is immutable',
      },
      {
        it: 'a deletion of another uid',
        path: `${maps}/new`,
        method: 'DELETE',
        body: { preconditions: { uid: 'a' } },
        says: '409 Conflict: Operation cannot be fulfilled on ConfigMap "new": the UID in the precondition (a) does not match the UID in record (UID). The object might have been deleted and then recreated',
      },
      {
        it: 'a strange propagation policy',
        path: `${maps}/new`,
        method: 'DELETE',
        body: { propagationPolicy: 'x' },
        says: '422 Invalid: DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "x": supported values: "Foreground", "Background", "Orphan", "nil"',
      },
      {
        it: 'to delete a namespace that must stay',
        path: '/api/v1/namespaces/default',
        method: 'DELETE',
        says: '403 Forbidden: namespaces "default" is forbidden: this namespace may not be deleted',
      },
      {
        it: 'a lease without a version',
        path: '/apis/coordination.k8s.io/v1/namespaces/default/leases/l',
        method: 'PUT',
        body: { metadata: { name: 'l' }, spec: { leaseDurationSeconds: 40 } },
        says: '422 Invalid: leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update',
      },
    ];
    for (const { it, path, says: expected, ...request } of refusals) {
      test(`refuses ${it}`, async () => {
        if (path.endsWith('/leases/l')) await client.send(path, { method: 'PUT', body: request.body });
        const answer = await client.send(path, request);
        const uid = (await client.send(`${maps}/new`)).json.metadata.uid;
        assert.equal(says(answer).replace(uid, 'UID'), expected);
      });
    }

    test('unknown paths are answered in plain text', async () => {
      for (const path of ['/nothing', '/apis/none/v1/things', '/api/v2/pods', '/api/v1/namespaces/../x']) {
        const answer = await client.send(path);
        assert.deepEqual([answer.status, answer.text], [404, '404 page not found\n'], path);
      }
    });

    test('trailing slashes, HEAD, charset parameters and a missing content type are all right (13)', async () => {
      assert.equal((await client.send(`${maps}/new/`)).status, 200);
      const head = await client.send(`${maps}/new`, { method: 'HEAD' });
      assert.deepEqual([head.status, head.text], [200, '']);
      const headers = { 'content-type': 'application/json; charset=utf-8' };
      assert.equal(
        (await client.send(maps, { method: 'POST', body: JSON.stringify(configMap('charset')), headers })).status,
        201,
      );
      assert.equal((await client.send(maps, { method: 'POST', body: JSON.stringify(configMap('plain')) })).status, 201);
      const yaml = { 'content-type': 'application/yaml', accept: 'application/yaml' };
      const answer = await client.send(maps, {
        method: 'POST',
        body: 'metadata: {name: yaml}\ndata: {a: "1"}\n',
        headers: yaml,
      });
      assert.equal(answer.status, 201);
      assert.match(answer.text, /^ {2}a: "1"$/m);
    });

    test('a client that prefers protobuf gets JSON, and says so', async () => {
      const headers = { accept: 'application/vnd.kubernetes.protobuf,application/json' };
      assert.equal((await client.send(`${maps}/new`, { headers })).headers['content-type'], 'application/json');
    });

    test('a dry run answers as if and stores nothing', async () => {
      const { revision } = server.store;
      const answer = await client.send(`${maps}?dryRun=All`, { method: 'POST', body: configMap('dry') });
      assert.equal(answer.status, 201);
      assert.ok(answer.json.metadata.uid);
      assert.equal(answer.json.metadata.resourceVersion, undefined);
      await client.send(`${maps}/new?dryRun=All`, { method: 'PATCH', headers: merge, body: '{"data":{"dry":"1"}}' });
      await client.send(`${maps}/new?dryRun=All`, { method: 'DELETE' });
      assert.equal(server.store.revision, revision);
    });

    test('a write that changes nothing keeps the version', async () => {
      const { json: stored } = await client.send(`${maps}/new`);
      const put = await client.send(`${maps}/new`, { method: 'PUT', body: stored });
      assert.equal(put.json.metadata.resourceVersion, stored.metadata.resourceVersion);
      const patch = await client.send(`${maps}/new`, { method: 'PATCH', headers: merge, body: '{"data":{"a":"1"}}' });
      assert.equal(patch.json.metadata.resourceVersion, stored.metadata.resourceVersion);
    });

    test('of fifty writes on the same version one succeeds (8)', async () => {
      const { json } = await client.send(maps, { method: 'POST', body: configMap('race') });
      const writes = Array.from({ length: 50 }, (_, index) =>
        client.send(`${maps}/race`, { method: 'PUT', body: { ...json, data: { winner: String(index) } } }),
      );
      const statuses = (await Promise.all(writes)).map(({ status }) => status).sort();
      assert.deepEqual(statuses, [200, ...Array.from({ length: 49 }, () => 409)]);
    });

    test('fifty patches of different keys all succeed (8)', async () => {
      await client.send(maps, { method: 'POST', body: configMap('many', { first: '' }) });
      const writes = Array.from({ length: 50 }, (_, index) =>
        client.send(`${maps}/many`, {
          method: 'PATCH',
          headers: jsonPatch,
          body: `[{"op":"add","path":"/data/k${index}","value":"v"}]`,
        }),
      );
      assert.ok((await Promise.all(writes)).every(({ status }) => status === 200));
      assert.equal(Object.keys((await client.send(`${maps}/many`)).json.data).length, 51);
    });

    test('a PUT of another uid is a conflict (6)', async () => {
      const body = configMap('many', {}, { uid: 'other' });
      const answer = await client.send(`${maps}/many`, { method: 'PUT', body });
      assert.match(
        says(answer),
        /^409 Conflict: Operation cannot be fulfilled on configmaps "many": StorageError: invalid object, Code: 4, Key: .*, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: /,
      );
    });

    test('apply creates, keeps, refuses what others own, and takes it by force (3)', async () => {
      const send = (manager: string, value: string, force = ''): Promise<TestResponse> =>
        client.send(`${maps}/applied?fieldManager=${manager}${force}`, {
          method: 'PATCH',
          headers: applyPatch,
          body: configMap('applied', { k: value }),
        });
      const first = await send('one', '1');
      assert.equal(first.status, 201);
      const again = await send('one', '1');
      assert.deepEqual([again.status, again.json.metadata.resourceVersion], [200, first.json.metadata.resourceVersion]);
      const refused = await send('two', '2');
      assert.equal(says(refused), '409 Conflict: Apply failed with 1 conflict: conflict with "one": .data.k');
      assert.deepEqual(refused.json.details.causes, [
        { reason: 'FieldManagerConflict', message: 'conflict with "one"', field: '.data.k' },
      ]);
      assert.equal((await send('two', '2', '&force=true')).json.data.k, '2');
    });

    test('a finalizer holds an object until it is taken away (5)', async () => {
      await client.send(maps, { method: 'POST', body: configMap('held', {}, { finalizers: ['example.com/hold'] }) });
      const deleted = await client.send(`${maps}/held`, { method: 'DELETE' });
      assert.equal(deleted.json.kind, 'ConfigMap');
      assert.equal(deleted.json.metadata.deletionGracePeriodSeconds, 0);
      const again = await client.send(`${maps}/held`, { method: 'DELETE' });
      assert.equal(again.json.metadata.resourceVersion, deleted.json.metadata.resourceVersion);
      assert.equal(
        says(await client.send(maps, { method: 'POST', body: configMap('held') })),
        '409 AlreadyExists: object is being deleted: configmaps "held" already exists',
      );
      const added = await client.send(`${maps}/held`, {
        method: 'PATCH',
        headers: merge,
        body: '{"metadata":{"finalizers":["example.com/hold","example.com/b"]}}',
      });
      assert.match(
        added.json.message,
        /no new finalizers can be added if the object is being deleted, found new finalizers \[\]string{"example.com\/b"}/,
      );
      await client.send(`${maps}/held`, { method: 'PATCH', headers: merge, body: '{"metadata":{"finalizers":null}}' });
      assert.equal((await client.send(`${maps}/held`)).status, 404);
    });

    test('deletes answer with a Status or with the object, by kind', async () => {
      const { json: created } = await client.send(maps, { method: 'POST', body: configMap('gone') });
      const { json } = await client.send(`${maps}/gone`, { method: 'DELETE' });
      assert.deepEqual(json, {
        kind: 'Status',
        apiVersion: 'v1',
        metadata: {},
        status: 'Success',
        details: { name: 'gone', kind: 'configmaps', uid: created.metadata.uid },
      });
      const accounts = '/api/v1/namespaces/default/serviceaccounts';
      await client.send(accounts, { method: 'POST', body: { metadata: { name: 'sa' } } });
      assert.equal((await client.send(`${accounts}/sa`, { method: 'DELETE' })).json.kind, 'ServiceAccount');
    });

    test('a collection is deleted by selector', async () => {
      for (const name of ['d1', 'd2', 'd3']) {
        await client.send(maps, {
          method: 'POST',
          body: configMap(name, {}, { labels: { batch: name === 'd3' ? 'no' : 'yes' } }),
        });
      }
      const { json } = await client.send(`${maps}?labelSelector=batch%3Dyes`, { method: 'DELETE' });
      assert.equal(json.kind, 'ConfigMapList');
      assert.equal(json.items.length, 2);
      const left = await client.send(`${maps}?labelSelector=batch`);
      assert.deepEqual(
        left.json.items.map((item: { metadata: { name: string } }) => item.metadata.name),
        ['d3'],
      );
    });

    test('a body of more than 3 MiB is refused, declared or not (6)', async () => {
      const body = configMap('big', { a: 'x'.repeat(3 * 1024 * 1024) });
      const answer = await client.send(maps, { method: 'POST', body });
      assert.equal(says(answer), '413 RequestEntityTooLarge: Request entity too large: limit is 3145728');
    });

    test('a large answer is compressed for those who can read it', async () => {
      await client.send(maps, { method: 'POST', body: configMap('large', { a: 'x'.repeat(200_000) }) });
      const plain = await client.send(`${maps}/large`);
      assert.equal(plain.headers['content-encoding'], undefined);
      const packed = await client.send(`${maps}/large`, { headers: { 'accept-encoding': 'gzip' } });
      assert.equal(packed.headers['content-encoding'], 'gzip');
      assert.match(String(packed.headers['vary']), /Accept-Encoding/);
      assert.equal(gunzipSync(packed.bytes).toString(), plain.text);
    });

    test('tables, metadata alone and lines are made on request', async () => {
      const table = await client.send(maps, { headers: { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' } });
      assert.equal(table.json.kind, 'Table');
      assert.ok(table.json.metadata.resourceVersion);
      assert.deepEqual(
        table.json.columnDefinitions.map(({ name }: { name: string }) => name),
        ['Name', 'Data', 'Age'],
      );
      assert.equal(table.json.rows[0].object.kind, 'PartialObjectMetadata');
      const partial = await client.send(`${maps}/new`, {
        headers: { accept: 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io' },
      });
      assert.deepEqual([partial.json.kind, partial.json.data], ['PartialObjectMetadata', undefined]);
      assert.match((await client.send(`${maps}/new?pretty=true`)).text, /^\{\n {2}"/);
    });

    test('pages show each object once, as it was when the first was read (6)', async () => {
      const names = ['p1', 'p2', 'p3', 'p4', 'p5'];
      for (const name of names)
        await client.send(maps, { method: 'POST', body: configMap(name, {}, { labels: { paged: 'yes' } }) });
      const seen: string[] = [];
      let token = '';
      do {
        const query = `labelSelector=paged&limit=2${token === '' ? '' : `&continue=${token}`}`;
        const { json } = await client.send(`${maps}?${query}`);
        seen.push(...json.items.map((item: { metadata: { name: string } }) => item.metadata.name));
        token = json.metadata.continue ?? '';
        await client.send(`${maps}/p5`, { method: 'DELETE' });
        await client.send(maps, { method: 'POST', body: configMap('p45', {}, { labels: { paged: 'yes' } }) });
      } while (token !== '');
      assert.deepEqual(seen, names);
      const { json } = await client.send(`${maps}?limit=1`);
      assert.equal(typeof json.metadata.remainingItemCount, 'number');
    });

    test('a version that is yet to come is refused after a wait', async () => {
      const answer = await client.send(`${maps}?resourceVersion=99999999&resourceVersionMatch=NotOlderThan`);
      assert.match(says(answer), /^504 Timeout: Timeout: Too large resource version: 99999999, current: \d+$/);
      assert.equal(answer.headers['retry-after'], '1');
    });
  });
}
