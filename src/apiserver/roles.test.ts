/** Roles, bindings and impersonation over real HTTP: what they allow, from when on, and who may grant it. */
import assert from 'node:assert/strict';
import { type TestContext, after, before, test } from 'node:test';
import { type TestApiServer, startTestApiServer } from '../testing/servers/test-api-server.ts';
import {
  type TestClient,
  type TestJson,
  type TestRequest,
  http1Client,
  http2Client,
} from '../testing/servers/test-client.ts';

const group = 'rbac.authorization.k8s.io';
const api = `/apis/${group}/v1`;
const staticTokens = [
  { token: 'admin-token', user: { name: 'admin', uid: '1', groups: ['system:masters'] } },
  { token: 'ann-token', user: { name: 'ann', uid: '2', groups: ['dev'] } },
  { token: 'bob-token', user: { name: 'bob', uid: '3', groups: [] } },
];
const reads = { apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list'] };

let server: TestApiServer;
let client: TestClient;
before(async () => {
  server = await startTestApiServer({ settings: { staticTokens } });
  client = http2Client(server);
});
after(async () => {
  client.close();
  await server.close();
});

/** The code and the object or message. */
async function send(path: string, request: TestRequest = {}): Promise<readonly [number, TestJson]> {
  const { status, json } = await client.send(path, request);
  return [status, status < 300 ? json : json.message];
}

const post = (path: string, body: object, token = 'admin-token'): ReturnType<typeof send> =>
  send(path, { method: 'POST', body, token });
const codeOf = async (path: string, token: string): Promise<number> => (await send(path, { token }))[0];

/** A namespace of its own, in which a role with the rules is bound to the subjects. */
async function home(t: TestContext, rules: readonly object[] = [], ...subjects: readonly object[]): Promise<string> {
  const name = t.name
    .replaceAll(/[^a-z]+/g, '-')
    .slice(0, 50)
    .replace(/-$/, '');
  assert.equal((await post('/api/v1/namespaces', { metadata: { name } }))[0], 201);
  if (rules.length > 0) {
    assert.equal((await post(`${api}/namespaces/${name}/roles`, { metadata: { name: 'own' }, rules }))[0], 201);
    const binding = { metadata: { name: 'own' }, subjects, roleRef: { kind: 'Role', name: 'own' } };
    assert.equal((await post(`${api}/namespaces/${name}/rolebindings`, binding))[0], 201);
  }
  return name;
}

const ann = { kind: 'User', name: 'ann' };

test('a role holds from its binding to the end of it', async (t) => {
  const name = await home(t, [reads], ann);
  const maps = `/api/v1/namespaces/${name}/configmaps`;
  assert.equal(await codeOf(maps, 'ann-token'), 200);
  assert.deepEqual(await send(maps, { token: 'bob-token' }), [
    403,
    `configmaps is forbidden: User "bob" cannot list resource "configmaps" in API group "" in the namespace "${name}"`,
  ]);
  assert.equal(await codeOf('/api/v1/configmaps', 'ann-token'), 403);
  assert.equal(await codeOf(`/api/v1/namespaces/${name}/secrets`, 'ann-token'), 403);
  await send(`${api}/namespaces/${name}/roles/own`, { method: 'DELETE' });
  assert.deepEqual(await send(maps, { token: 'ann-token' }), [
    403,
    `configmaps is forbidden: User "ann" cannot list resource "configmaps" in API group "" in the namespace "${name}": RBAC: role.${group} "own" not found`,
  ]);
  await post(`${api}/namespaces/${name}/roles`, { metadata: { name: 'own' }, rules: [reads] });
  assert.equal(await codeOf(maps, 'ann-token'), 200);
  await send(`${api}/namespaces/${name}/rolebindings/own`, { method: 'DELETE' });
  assert.equal(await codeOf(maps, 'ann-token'), 403);
});

test('the token of a service account may do what its role says and nothing else', async (t) => {
  const rule = { ...reads, resourceNames: ['mine'] };
  const name = await home(t, [rule], { kind: 'ServiceAccount', name: 'robot' });
  const accounts = `/api/v1/namespaces/${name}/serviceaccounts`;
  await post(accounts, { metadata: { name: 'robot' } });
  const [, { status }] = await post(`${accounts}/robot/token`, { spec: {} });
  const maps = `/api/v1/namespaces/${name}/configmaps`;
  for (const one of ['mine', 'yours']) await post(maps, { metadata: { name: one } });
  const codes = [`${maps}/mine`, `${maps}?fieldSelector=metadata.name%3Dmine`, `${maps}/yours`, maps].map((path) =>
    codeOf(path, status.token),
  );
  assert.deepEqual(await Promise.all(codes), [200, 200, 403, 403]);
  assert.equal((await post(maps, { metadata: { name: 'new' } }, status.token))[0], 403);
});

test('nobody grants in a role what they do not hold', async (t) => {
  const manages = { apiGroups: [group], resources: ['roles'], verbs: ['create', 'update', 'patch'] };
  const name = await home(t, [manages, reads], ann);
  const roles = `${api}/namespaces/${name}/roles`;
  const role = (rules: readonly object[], token = 'ann-token'): ReturnType<typeof send> =>
    post(roles, { metadata: { generateName: 'r-' }, rules }, token);
  assert.equal((await role([{ ...reads, verbs: ['get'], resourceNames: ['x'] }]))[0], 201);
  const more = { apiGroups: ['', 'apps'], resources: ['configmaps'], verbs: ['list', 'delete', 'get'] };
  const [refusedWith, why] = await role([more]);
  assert.equal(refusedWith, 403);
  assert.equal(
    why.replace(/"r-.{5}"/, '"r-"'),
    `roles.${group} "r-" is forbidden: user "ann" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n` +
      `{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}\n` +
      `{APIGroups:["apps"], Resources:["configmaps"], Verbs:["list" "delete" "get"]}`,
  );
  // Neither by an update, nor by a patch, nor with a body that another thread reads.
  const [, { metadata }] = await role([reads]);
  const change = (method: string, body: object, type = 'application/json'): ReturnType<typeof send> =>
    send(`${roles}/${metadata.name}`, { method, body, token: 'ann-token', headers: { 'content-type': type } });
  assert.equal((await change('PUT', { metadata: { name: metadata.name }, rules: [more] }))[0], 403);
  assert.equal((await change('PATCH', { rules: [more] }, 'application/merge-patch+json'))[0], 403);
  const [code, message] = await role(
    Array.from({ length: 1000 }, (_, index) => ({ ...more, resources: [`r${index}`] })),
  );
  assert.equal(code, 403);
  assert.match(message, /Resources:\["r0"\][^]*and more, too many to list$/);
  // What the garbage collector changes is no grant.
  await send(`${roles}/${metadata.name}`, {
    method: 'PUT',
    body: { metadata: { name: metadata.name, finalizers: ['a.example/b'] }, rules: [more] },
  });
  assert.equal((await change('PATCH', { metadata: { finalizers: [] } }, 'application/merge-patch+json'))[0], 200);
  assert.equal((await change('PATCH', { metadata: { labels: { a: 'b' } } }, 'application/merge-patch+json'))[0], 403);
});

test('who may escalate or bind may grant more than they hold', async (t) => {
  const manages = { apiGroups: [group], resources: ['roles', 'rolebindings'], verbs: ['create', 'escalate'] };
  const binds = { apiGroups: [group], resources: ['clusterroles'], resourceNames: ['view'], verbs: ['bind'] };
  const name = await home(t, [manages, binds], ann);
  const place = `${api}/namespaces/${name}`;
  const everything = { apiGroups: ['*'], resources: ['*'], verbs: ['*'] };
  assert.equal((await post(`${place}/roles`, { metadata: { name: 'all' }, rules: [everything] }, 'ann-token'))[0], 201);
  const bind = (kind: string, role: string): ReturnType<typeof send> =>
    post(`${place}/rolebindings`, { metadata: { name: role }, roleRef: { kind, name: role } }, 'ann-token');
  assert.equal((await bind('ClusterRole', 'view'))[0], 201);
  assert.deepEqual(await bind('ClusterRole', 'gone'), [404, `clusterroles.${group} "gone" not found`]);
  const [code, message] = await bind('Role', 'all');
  assert.equal(code, 403);
  assert.equal(
    message,
    `rolebindings.${group} "all" is forbidden: user "ann" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`,
  );
});

test('an aggregated role has the rules of those it selects, and only an administrator makes one', async () => {
  const manages = { apiGroups: [group], resources: ['clusterroles'], verbs: ['create'] };
  await post(`${api}/clusterroles`, { metadata: { name: 'role-maker' }, rules: [manages] });
  const binding = {
    metadata: { name: 'role-maker' },
    subjects: [ann],
    roleRef: { kind: 'ClusterRole', name: 'role-maker' },
  };
  await post(`${api}/clusterrolebindings`, binding);
  const sum = {
    metadata: { name: 'sum' },
    aggregationRule: { clusterRoleSelectors: [{ matchLabels: { part: 'yes' } }] },
    rules: null,
  };
  assert.deepEqual(await post(`${api}/clusterroles`, sum, 'ann-token'), [
    403,
    `clusterroles.${group} "sum" is forbidden: must have cluster-admin privileges to use the aggregationRule`,
  ]);
  const watch = await client.watch(`${api}/clusterroles?watch=true&fieldSelector=metadata.name%3Dsum`);
  const becomes = async (resources: readonly string[]): Promise<void> => {
    for (;;) {
      const { object } = await watch.next();
      const found = (object.rules ?? []).flatMap((rule: TestJson) => rule.resources);
      if (found.join() === resources.join()) return;
    }
  };
  await post(`${api}/clusterroles`, sum);
  const part = (name: string, resource: string): ReturnType<typeof send> =>
    post(`${api}/clusterroles`, {
      metadata: { name, labels: { part: 'yes' } },
      rules: [{ apiGroups: [''], resources: [resource], verbs: ['get'] }],
    });
  await part('b-part', 'pods');
  await part('a-part', 'nodes');
  await part('c-part', 'pods');
  await becomes(['nodes', 'pods']);
  await send(`${api}/clusterroles/a-part`, { method: 'DELETE' });
  await becomes(['pods']);
  watch.close();
});

test('who views, edits and administers a namespace by the default roles', async (t) => {
  const name = await home(t);
  const bind = (role: string, user: string): ReturnType<typeof send> =>
    post(`${api}/namespaces/${name}/rolebindings`, {
      metadata: { name: role },
      subjects: [{ kind: 'User', name: user }],
      roleRef: { kind: 'ClusterRole', name: role },
    });
  for (const role of ['view', 'edit', 'admin']) assert.equal((await bind(role, role))[0], 201);
  const may = async (user: string, verb: string, resource: string, of = ''): Promise<boolean> => {
    const resourceAttributes = { namespace: name, verb, resource, group: of };
    const [, review] = await post('/apis/authorization.k8s.io/v1/subjectaccessreviews', {
      spec: { user, resourceAttributes },
    });
    return review.status.allowed;
  };
  const questions = [
    ['view', 'get', 'pods'],
    ['view', 'get', 'secrets'],
    ['view', 'create', 'pods'],
    ['view', 'list', 'pods', 'metrics.k8s.io'],
    ['edit', 'list', 'secrets'],
    ['edit', 'patch', 'deployments', 'apps'],
    ['edit', 'create', 'roles', group],
    ['admin', 'create', 'roles', group],
    ['admin', 'delete', 'namespaces'],
  ] as const;
  const answers = await Promise.all(questions.map(([user, verb, resource, of]) => may(user, verb, resource, of)));
  assert.deepEqual(answers, [true, false, false, true, true, true, false, true, false]);
});

test('the rules of a user are listed, for a namespace', async (t) => {
  const name = await home(t, [reads], { kind: 'Group', name: 'dev' });
  const path = '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews';
  const [, { status }] = await post(path, { spec: { namespace: name } }, 'ann-token');
  assert.deepEqual(
    status.resourceRules.find(({ resources }: TestJson) => resources.includes('configmaps')),
    reads,
  );
  assert.ok(status.nonResourceRules.some(({ nonResourceURLs }: TestJson) => nonResourceURLs.includes('/apis/*')));
  assert.deepEqual(await post(path, { spec: {} }, 'ann-token'), [400, 'no namespace on request']);
});

for (const [version, clientOf] of Object.entries({ 'HTTP/1.1': http1Client, 'HTTP/2': http2Client })) {
  test(`who may impersonate acts as somebody else, over ${version}`, async (t) => {
    const own = clientOf(server);
    t.after(() => own.close());
    const whoAmI = async (headers: Record<string, string | string[]>, token = 'admin-token'): Promise<TestJson> => {
      const request = { method: 'POST', body: { metadata: {} }, headers: headers as Record<string, string>, token };
      const { json } = await own.send('/apis/authentication.k8s.io/v1/selfsubjectreviews', request);
      return json.status.userInfo ?? json.message;
    };
    const headers = { 'impersonate-user': 'eve', 'impersonate-group': ['a, b', 'c'], 'impersonate-extra-x': 'y' };
    assert.deepEqual(await whoAmI(headers), {
      username: 'eve',
      groups: ['a, b', 'c', 'system:authenticated'],
      extra: { x: ['y'] },
    });
    assert.match(await whoAmI(headers, 'bob-token'), /^users "eve" is forbidden: User "bob" cannot impersonate/);
    const listed = await own.send('/api/v1/nodes', { headers: { 'impersonate-user': 'eve' } });
    assert.match(listed.json.message, /^nodes is forbidden: User "eve" cannot list/);
  });
}

test('impersonation needs a permission for each part', async () => {
  const rules = [{ apiGroups: [''], resources: ['users'], resourceNames: ['eve'], verbs: ['impersonate'] }];
  await post(`${api}/clusterroles`, { metadata: { name: 'as-eve' }, rules });
  const bob = { kind: 'User', name: 'bob' };
  const binding = { metadata: { name: 'as-eve' }, subjects: [bob], roleRef: { kind: 'ClusterRole', name: 'as-eve' } };
  await post(`${api}/clusterrolebindings`, binding);
  const as = (headers: Record<string, string>): ReturnType<typeof send> =>
    send('/api', { token: 'bob-token', headers });
  assert.equal((await as({ 'impersonate-user': 'eve' }))[0], 200);
  assert.equal((await as({ 'impersonate-user': 'ann' }))[0], 403);
  const cannot = (what: string, kind: string, of: string): readonly [number, string] => [
    403,
    `${what} is forbidden: User "bob" cannot impersonate resource "${kind}" in API group "${of}" at the cluster scope`,
  ];
  const eve = { 'impersonate-user': 'eve' };
  assert.deepEqual(
    await as({ ...eve, 'impersonate-group': 'system:masters' }),
    cannot('groups "system:masters"', 'groups', ''),
  );
  const authentication = 'authentication.k8s.io';
  assert.deepEqual(
    await as({ ...eve, 'impersonate-uid': '7' }),
    cannot(`uids.${authentication} "7"`, 'uids', authentication),
  );
  assert.deepEqual(
    await as({ ...eve, 'impersonate-extra-scopes': 'all' }),
    cannot(`userextras.${authentication} "all"`, 'userextras/scopes', authentication),
  );
  const extras = { apiGroups: [authentication], resources: ['userextras/scopes'], resourceNames: ['all'] };
  await send(`${api}/clusterroles/as-eve`, {
    method: 'PATCH',
    body: { rules: [...rules, { ...extras, verbs: ['impersonate'] }] },
    headers: { 'content-type': 'application/merge-patch+json' },
  });
  assert.equal((await as({ ...eve, 'impersonate-extra-scopes': 'all' }))[0], 200);
  assert.equal((await as({ ...eve, 'impersonate-extra-scopes': 'more' }))[0], 403);
  assert.equal((await as({ ...eve, 'impersonate-extra-other': 'all' }))[0], 403);
});

test('default roles are kept at each start, but for what says that it is not to be', async () => {
  const change = (path: string, body: object): ReturnType<typeof send> =>
    send(`${api}/${path}`, { method: 'PATCH', body, headers: { 'content-type': 'application/merge-patch+json' } });
  const own = { apiGroups: [''], resources: ['pods'], verbs: ['get'] };
  await change('clusterroles/system:kube-dns', { rules: [own] });
  await change('clusterroles/system:heapster', {
    rules: [own],
    metadata: { annotations: { [`${group}/autoupdate`]: 'false' } },
  });
  await send(`${api}/clusterroles/system:kube-aggregator`, { method: 'DELETE' });
  const other = { metadata: { name: 'system:kube-dns' }, roleRef: { kind: 'ClusterRole', name: 'view' } };
  await send(`${api}/clusterrolebindings/system:kube-dns`, { method: 'DELETE' });
  await post(`${api}/clusterrolebindings`, other);
  const again = await startTestApiServer({ store: server.store, settings: { staticTokens } });
  const second = http1Client(again);
  try {
    const rulesOf = async (name: string): Promise<TestJson> =>
      (await second.send(`${api}/clusterroles/${name}`)).json.rules;
    const watches = { apiGroups: [''], resources: ['endpoints', 'services'], verbs: ['list', 'watch'] };
    assert.deepEqual(await rulesOf('system:kube-dns'), [own, watches]);
    assert.deepEqual(await rulesOf('system:heapster'), [own]);
    assert.deepEqual(await rulesOf('system:kube-aggregator'), [{ ...watches, verbs: ['get', 'list', 'watch'] }]);
    const { json } = await second.send(`${api}/clusterrolebindings/system:kube-dns`);
    assert.deepEqual([json.roleRef.name, json.subjects.length], ['system:kube-dns', 1]);
  } finally {
    await again.close();
  }
});
