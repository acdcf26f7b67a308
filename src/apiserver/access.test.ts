/** Who may do what, over real HTTP: checklist items 11 and 12. */
import assert from 'node:assert/strict';
import { connect } from 'node:http2';
import { type TestContext, test } from 'node:test';
import { type TestApiServer, startTestApiServer } from '../testing/servers/test-api-server.ts';
import {
  type TestClient,
  type TestJson,
  type TestResponse,
  http1Client,
  http2Client,
} from '../testing/servers/test-client.ts';
import { issueClientCertificate, makeAuthority } from './identity/certificates.ts';

const core = '/api/v1/namespaces/default';

interface World {
  readonly server: TestApiServer;
  readonly client: TestClient;
  readonly post: (path: string, body: object, token?: string) => Promise<TestResponse>;
  readonly as: (token: string, path: string) => Promise<TestResponse>;
}

const staticTokens = [
  { token: 'admin-token', user: { name: 'admin', uid: '1', groups: ['system:masters'] } },
  { token: 'node-token', user: { name: 'system:node:n', uid: '2', groups: ['system:nodes'] } },
  { token: 'user-token', user: { name: '<u>', uid: '3', groups: [] } },
];

async function world(t: TestContext, settings: object = {}): Promise<World> {
  const server = await startTestApiServer({ settings: { staticTokens, ...settings } });
  const client = http2Client(server);
  t.after(async () => {
    client.close();
    await server.close();
  });
  return {
    server,
    client,
    post: (path, body, token) => client.send(path, { method: 'POST', body, ...(token !== undefined && { token }) }),
    as: (token, path) => client.send(path, { token }),
  };
}

test('no credentials make an anonymous user, wrong ones a 401', async (t) => {
  const { as } = await world(t);
  const anonymous = await as('', `${core}/pods`);
  assert.deepEqual(
    [anonymous.status, anonymous.json.message],
    [
      403,
      'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "default"',
    ],
  );
  assert.equal(anonymous.headers['x-content-type-options'], 'nosniff');
  const wrong = await as('nonsense', '/healthz');
  assert.deepEqual([wrong.status, wrong.json.message, wrong.json.reason], [401, 'Unauthorized', 'Unauthorized']);
  assert.equal((await as('', '/healthz')).text, 'ok');
});

test('with anonymous access off, no credentials are a 401', async (t) => {
  const { as } = await world(t, { allowsAnonymous: false });
  assert.equal((await as('', '/healthz')).status, 401);
});

test('a name in a refusal cannot be markup', async (t) => {
  const { as } = await world(t);
  const { json } = await as('user-token', '/api/v1/nodes/n');
  assert.equal(
    json.message,
    'nodes "n" is forbidden: User "&lt;u&gt;" cannot get resource "nodes" in API group "" at the cluster scope',
  );
});

test('impersonation that is not allowed, or of nobody, is refused and never ignored', async (t) => {
  const { client } = await world(t);
  const answer = await client.send(`${core}/pods`, { headers: { 'impersonate-user': 'other' }, token: 'user-token' });
  assert.deepEqual(
    [answer.status, answer.json.message],
    [
      403,
      'users "other" is forbidden: User "&lt;u&gt;" cannot impersonate resource "users" in API group "" at the cluster scope',
    ],
  );
  const nameless = await client.send(`${core}/pods`, { headers: { 'impersonate-group': 'other' } });
  assert.equal(nameless.status, 400);
  assert.equal(nameless.json.message, 'requested [{Group  other    }] without impersonating a user');
});

test('a client certificate of our authority names its user; one of another authority names none', async (t) => {
  const { server } = await world(t);
  const validity = { now: Date.now(), days: 1 };
  const whoAmI = (authority: typeof server.authority): Promise<string> =>
    new Promise((resolve, reject) => {
      const { certificatePem: cert, keyPem: key } = issueClientCertificate(authority, {
        user: 'eve',
        groups: ['system:masters'],
        ...validity,
      });
      const session = connect(server.url, { ca: server.authority.certificatePem, cert, key });
      session.on('error', reject);
      const stream = session.request({
        ':method': 'POST',
        ':path': '/apis/authentication.k8s.io/v1/selfsubjectreviews',
        'content-type': 'application/json',
      });
      let text = '';
      stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
      stream.on('end', () => {
        session.close();
        const json: TestJson = JSON.parse(text);
        resolve(json.status.userInfo?.username ?? `${json.code}`);
      });
      stream.end('{}');
    });
  assert.equal(await whoAmI(server.authority), 'eve');
  assert.equal(await whoAmI(makeAuthority(validity)), '401');
});

test('a token is asked for, bound to a pod, works, and ends with the pod', async (t) => {
  const { client, post, as } = await world(t);
  const path = `${core}/serviceaccounts/default/token`;
  const short = await post(path, { spec: { expirationSeconds: 599 } });
  assert.match(
    short.json.message,
    /spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes/,
  );
  const plain = await post(path, { spec: { expirationSeconds: 600 } });
  assert.deepEqual([plain.status, plain.json.spec.expirationSeconds], [201, 600]);
  assert.deepEqual(plain.json.spec.audiences, ['https://kubernetes.default.svc']);

  const { json: pod } = await post(`${core}/pods`, {
    metadata: { name: 'p' },
    spec: { containers: [{ name: 'c', image: 'i' }] },
  });
  const bind = (more: object): Promise<TestResponse> =>
    post(path, { spec: { boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: 'p', ...more } } });
  assert.match(
    (await bind({ uid: 'x' })).json.message,
    /the UID in the bound object reference \(x\) does not match the UID in record/,
  );
  assert.equal((await bind({ name: 'none' })).status, 404);
  assert.equal((await bind({ kind: 'Service' })).json.message, 'cannot bind token to object of type v1, Kind=Service');
  await post(`${core}/serviceaccounts`, { metadata: { name: 'other' } });
  const stranger = await post(`${core}/serviceaccounts/other/token`, {
    spec: { boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: 'p' } },
  });
  assert.equal(
    stranger.json.message,
    'cannot bind token for serviceaccount "other" to pod running with different serviceaccount name.',
  );

  const { token } = (await bind({ uid: pod.metadata.uid })).json.status;
  const who = await post('/apis/authentication.k8s.io/v1/selfsubjectreviews', {}, token);
  assert.equal(who.json.status.userInfo.username, 'system:serviceaccount:default:default');
  const review = (): Promise<TestResponse> => post('/apis/authentication.k8s.io/v1/tokenreviews', { spec: { token } });
  assert.equal((await review()).json.status.authenticated, true);
  await client.send(`${core}/pods/p`, { method: 'DELETE' });
  assert.equal((await as(token, '/healthz')).status, 401);
  assert.equal((await review()).json.status.authenticated, false);
});

test('reviews of access answer what a request would be answered', async (t) => {
  const { post } = await world(t);
  const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
  const spec = { resourceAttributes: { verb: 'get', resource: 'pods', namespace: 'default' } };
  assert.equal((await post(path, { spec })).json.status.allowed, true);
  assert.equal((await post(path, { spec }, 'user-token')).json.status.allowed, false);
  const rules = await post('/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', { spec: { namespace: 'default' } });
  assert.deepEqual(rules.json.status.resourceRules, [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }]);
});

test('a node reads what its pods name, by name, and nothing else', async (t) => {
  const { post, as, client } = await world(t);
  const maps = `${core}/configmaps`;
  await post(maps, { metadata: { name: 'used' } });
  await post(maps, { metadata: { name: 'other' } });
  const volumes = [
    { name: 'v', configMap: { name: 'used' } },
    { name: 'w', configMap: { name: 'absent', optional: true } },
  ];
  await post(`${core}/pods`, {
    metadata: { name: 'p' },
    spec: { nodeName: 'n', containers: [{ name: 'c', image: 'i' }], volumes },
  });
  const status = async (path: string): Promise<number> => (await as('node-token', path)).status;
  assert.equal(await status(`${maps}/used`), 200);
  assert.equal(await status(`${maps}/absent`), 404);
  assert.equal(await status(`${maps}/other`), 403);
  assert.equal(await status(`${maps}/nonexistent`), 403);
  assert.equal(await status(maps), 403);
  assert.equal(await status(`${maps}?fieldSelector=metadata.name%3Dused`), 200);
  assert.equal(await status(`${maps}?fieldSelector=metadata.name%3Dother`), 403);
  assert.equal(await status('/api/v1/pods?fieldSelector=spec.nodeName%3Dn'), 200);
  assert.equal(await status('/api/v1/pods'), 403);
  await client.send(`${core}/pods/p`, { method: 'DELETE', body: { gracePeriodSeconds: 0 } });
  assert.equal(await status(`${maps}/used`), 403);
});

test('a node writes its own objects and no others', async (t) => {
  const { post, client } = await world(t);
  const node = (name: string, metadata: object = {}): Promise<TestResponse> =>
    post('/api/v1/nodes', { metadata: { name, ...metadata } }, 'node-token');
  assert.match((await node('m')).json.message, /node "n" is not allowed to modify node "m"/);
  assert.match(
    (await node('n', { labels: { 'node-restriction.kubernetes.io/a': 'b' } })).json.message,
    /is not allowed to set the following labels: node-restriction.kubernetes.io\/a/,
  );
  assert.equal((await node('n')).status, 201);
  const pod = { metadata: { name: 'p' }, spec: { nodeName: 'n', containers: [{ name: 'c', image: 'i' }] } };
  assert.match((await post(`${core}/pods`, pod, 'node-token')).json.message, /can only create mirror pods/);
  await post(`${core}/pods`, { ...pod, metadata: { name: 'q' }, spec: { ...pod.spec, nodeName: 'm' } });
  const headers = { 'content-type': 'application/strategic-merge-patch+json' };
  const patched = await client.send(`${core}/pods/q/status`, {
    method: 'PATCH',
    headers,
    body: '{"status":{}}',
    token: 'node-token',
  });
  assert.match(patched.json.message, /node "n" can only update pod status for pods with spec.nodeName set to itself/);
  const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
  assert.equal((await post(leases, { metadata: { name: 'n' }, spec: {} }, 'node-token')).status, 201);
  assert.equal((await post(leases, { metadata: { name: 'm' }, spec: {} }, 'node-token')).status, 403);
});

test('no notice ever contains a token or the content of an object', async (t) => {
  const { server, post } = await world(t);
  await post(`${core}/secrets`, { metadata: { name: 's' }, stringData: { password: 'hunter2' } });
  await post(`${core}/secrets`, { metadata: { name: 's' }, stringData: { password: 5 } });
  await http1Client(server).send(`${core}/secrets?fieldSelector=hunter2`, {
    method: 'POST',
    body: '{"data": hunter2}',
  });
  const text = JSON.stringify(server.notices, (_key, value: unknown) =>
    value instanceof Error ? String(value) : value,
  );
  assert.ok(server.notices.length >= 3);
  assert.doesNotMatch(text, /hunter2|aHVudGVyMg|admin-token/);
});
