/** Everything that is not a resource, over real HTTP: checklist item 1. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestApiServer, startTestApiServer } from '../testing/servers/test-api-server.ts';
import { type TestClient, type TestJson, http2Client } from '../testing/servers/test-client.ts';

let server: TestApiServer;
let client: TestClient;
before(async () => {
  server = await startTestApiServer();
  client = http2Client(server);
});
after(async () => {
  client.close();
  await server.close();
});

const newest =
  'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json';
const older = 'application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json';

test('the old form of discovery names groups, versions, resources and subresources', async () => {
  const { json: versions } = await client.send('/api');
  assert.deepEqual([versions.kind, versions.versions], ['APIVersions', ['v1']]);
  const { json: groups } = await client.send('/apis', { headers: { accept: 'application/json' } });
  assert.equal(groups.kind, 'APIGroupList');
  for (const { name, preferredVersion, versions: all } of groups.groups) {
    const { json: group } = await client.send(`/apis/${name}`);
    assert.deepEqual([group.kind, group.preferredVersion], ['APIGroup', preferredVersion]);
    for (const { groupVersion } of all) {
      const { json: list } = await client.send(`/apis/${groupVersion}`);
      assert.deepEqual([list.kind, list.groupVersion], ['APIResourceList', groupVersion]);
      assert.ok(list.resources.every(({ verbs, kind }: TestJson) => verbs.length > 0 && kind !== ''));
    }
  }
  const { json: core } = await client.send('/api/v1/');
  const token = core.resources.find(({ name }: TestJson) => name === 'serviceaccounts/token');
  assert.deepEqual([token.group, token.version, token.kind], ['authentication.k8s.io', 'v1', 'TokenRequest']);
  const pods = core.resources.find(({ name }: TestJson) => name === 'pods');
  assert.deepEqual([pods.shortNames, pods.categories, pods.namespaced], [['po'], ['all'], true]);
});

for (const [accept, version] of [
  [newest, 'v2'],
  [older, 'v2beta1'],
] as const) {
  test(`aggregated discovery in version ${version} is chosen by Accept and need not be sent twice`, async () => {
    for (const path of ['/api', '/apis']) {
      const answer = await client.send(path, { headers: { accept } });
      assert.equal(
        answer.headers['content-type'],
        `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`,
      );
      assert.equal(answer.json.apiVersion, `apidiscovery.k8s.io/${version}`);
      assert.equal(answer.headers['vary'], 'Accept');
      const resources = answer.json.items.flatMap(({ versions }: TestJson) =>
        versions.flatMap((one: TestJson) => one.resources),
      );
      assert.ok(resources.length > 0);
      assert.ok(resources.every(({ responseKind }: TestJson) => responseKind.kind !== ''));
      const again = await client.send(path, { headers: { accept, 'if-none-match': String(answer.headers['etag']) } });
      assert.deepEqual([again.status, again.text], [304, '']);
    }
  });
}

test('health is ok in short, in lines, by check and with exclusions', async () => {
  const text = async (path: string): Promise<string> => (await client.send(path, { token: '' })).text;
  assert.equal(await text('/healthz'), 'ok');
  assert.equal(await text('/livez'), 'ok');
  assert.equal(await text('/readyz'), 'ok');
  const admin = async (path: string): Promise<string> => (await client.send(path)).text;
  assert.equal(await admin('/readyz/ping'), 'ok');
  assert.match(await admin('/readyz?verbose'), /^\[\+\]ping ok\n[\s\S]*readyz check passed\n$/);
  assert.match(
    await admin('/healthz?verbose&exclude=ping&exclude=x'),
    /^\[\+\]ping excluded: ok\n[^]*\nwarn: some health checks cannot be excluded: no matches for "x"\nhealthz check passed\n$/,
  );
  const usual = ['ping', 'log', 'etcd', 'poststarthook/rbac/bootstrap-roles', 'poststarthook/bootstrap-controller'];
  for (const endpoint of ['healthz', 'livez', 'readyz']) {
    const lines = (await admin(`/${endpoint}?verbose`)).split('\n');
    for (const name of usual) {
      assert.ok(lines.includes(`[+]${name} ok`), `${endpoint} ${name}`);
      assert.equal(await admin(`/${endpoint}/${name}`), 'ok');
    }
  }
  assert.match(await admin('/readyz?verbose'), /\[\+\]etcd-readiness ok\n\[\+\]informer-sync ok\n/);
  assert.equal((await client.send('/readyz/none')).status, 404);
});

test('the version can be parsed', async () => {
  const { json } = await client.send('/version?timeout=32s');
  assert.match(json.gitVersion, /^v\d+\.\d+\.\d+/);
  assert.deepEqual([json.major, json.minor, json.platform], ['1', '32', 'linux/amd64']);
});

test('the figures have the names people look for', async () => {
  await client.send('/api/v1/namespaces/default/configmaps');
  const { text, headers } = await client.send('/metrics');
  assert.match(String(headers['content-type']), /^text\/plain; version=0\.0\.4/);
  for (const name of [
    'apiserver_request_total',
    'apiserver_request_duration_seconds_bucket',
    'apiserver_current_inflight_requests',
    'apiserver_longrunning_requests',
    'apiserver_storage_objects',
  ]) {
    assert.match(text, new RegExp(`^# TYPE ${name.replace('_bucket', '')} `, 'm'));
  }
  assert.match(
    text,
    /apiserver_request_total\{verb="LIST",group="",version="v1",resource="configmaps",subresource="",scope="namespace",code="200"\}/,
  );
});

test('OpenAPI is there in both versions, and moves to its right address', async () => {
  const { json: index } = await client.send('/openapi/v3');
  const { serverRelativeURL: path } = index.paths['api/v1'];
  const document = await client.send(path);
  assert.equal(document.status, 200);
  assert.match(String(document.headers['cache-control']), /immutable/);
  const moved = await client.send('/openapi/v3/api/v1?hash=old');
  assert.deepEqual([moved.status, moved.headers['location']], [301, path]);
  const second = await client.send('/openapi/v2');
  assert.equal(second.headers['content-type'], 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf');
});

test('the keys of tokens are published', async () => {
  const { json } = await client.send('/.well-known/openid-configuration');
  assert.equal(json.jwks_uri, `${server.url}/openid/v1/jwks`);
  const keys = await client.send('/openid/v1/jwks');
  assert.equal(keys.headers['content-type'], 'application/jwk-set+json');
  assert.equal(keys.json.keys.length, 1);
});

test('other methods on such paths are refused', async () => {
  assert.equal((await client.send('/version', { method: 'POST', body: {} })).status, 405);
  assert.equal((await client.send('/', {})).json.paths.includes('/apis'), true);
});
