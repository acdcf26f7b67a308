/** What happens by itself: companions, namespaces that end, owners, scheduling, expiry. Checklist items 5 and 10. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { MemoryStore } from '../testing/servers/stores.ts';
import { type TestApiServer, startTestApiServer } from '../testing/servers/test-api-server.ts';
import { type TestClient, type TestJson, type TestResponse, http2Client } from '../testing/servers/test-client.ts';

interface World {
  readonly server: TestApiServer;
  readonly client: TestClient;
  /** The first event of a watch for which this holds. */
  readonly until: (path: string, holds: (event: TestJson) => boolean) => Promise<TestJson>;
  readonly post: (path: string, body: object) => Promise<TestResponse>;
}

async function world(t: TestContext, choices: Parameters<typeof startTestApiServer>[0] = {}): Promise<World> {
  const server = await startTestApiServer(choices);
  const client = http2Client(server);
  t.after(async () => {
    client.close();
    await server.close();
  });
  return {
    server,
    client,
    post: (path, body) => client.send(path, { method: 'POST', body }),
    async until(path, holds) {
      const watch = await client.watch(`${path}${path.includes('?') ? '&' : '?'}watch=1&resourceVersion=1`);
      for (;;) {
        const event = await watch.next();
        assert.notEqual(event, undefined, 'the watch ended');
        if (!holds(event)) continue;
        watch.close();
        return event;
      }
    },
  };
}

const core = '/api/v1/namespaces';
const merge = { 'content-type': 'application/merge-patch+json' };
const readyNode = (name: string, more: object = {}): object => ({
  metadata: { name },
  status: { conditions: [{ type: 'Ready', status: 'True' }] },
  ...more,
});
const pod = (name: string, spec: object = {}): object => ({
  metadata: { name },
  spec: { containers: [{ name: 'c', image: 'i' }], ...spec },
});

test('the objects every cluster has are there before the first request', async (t) => {
  const { client } = await world(t);
  for (const namespace of ['default', 'kube-system', 'kube-public', 'kube-node-lease']) {
    const { json } = await client.send(`${core}/${namespace}`);
    assert.deepEqual([json.status.phase, json.spec.finalizers], ['Active', ['kubernetes']]);
    assert.equal(json.metadata.labels['kubernetes.io/metadata.name'], namespace);
    assert.equal((await client.send(`${core}/${namespace}/serviceaccounts/default`)).status, 200);
  }
  const { json: service } = await client.send(`${core}/default/services/kubernetes`);
  assert.deepEqual([service.spec.clusterIP, service.spec.ports[0].port], ['10.96.0.1', 443]);
  const { json: endpoints } = await client.send(`${core}/default/endpoints/kubernetes`);
  assert.deepEqual(endpoints.subsets[0].addresses, [{ ip: '10.0.0.1' }]);
});

test('a new namespace gets its account and certificates; a damaged or lost one is restored', async (t) => {
  const { server, client, post, until } = await world(t);
  await post(core, { metadata: { name: 'shop' } });
  const map = `${core}/shop/configmaps`;
  const isAuthority = (event: TestJson): boolean =>
    event.object.metadata.name === 'kube-root-ca.crt' &&
    event.object.data['ca.crt'] === server.authority.certificatePem;
  await until(map, (event) => event.type === 'ADDED' && isAuthority(event));
  await client.send(`${map}/kube-root-ca.crt`, { method: 'PATCH', headers: merge, body: '{"data":{"ca.crt":"x"}}' });
  let sawDamage = false;
  await until(map, (event) => {
    if (event.type === 'MODIFIED' && !isAuthority(event)) sawDamage = true;
    return sawDamage && isAuthority(event);
  });
  await client.send(`${core}/shop/serviceaccounts/default`, { method: 'DELETE' });
  let sawDeletion = false;
  await until(`${core}/shop/serviceaccounts`, (event) => {
    sawDeletion ||= event.type === 'DELETED';
    return sawDeletion && event.type === 'ADDED';
  });
});

test('a namespace that is deleted takes nothing new, is emptied, and is gone', async (t) => {
  const { client, post, until } = await world(t);
  await post(core, { metadata: { name: 'shop' } });
  await post(`${core}/shop/configmaps`, { metadata: { name: 'held', finalizers: ['example.com/x'] } });
  await post(`${core}/shop/secrets`, { metadata: { name: 's' } });
  const deleted = await client.send(`${core}/shop`, { method: 'DELETE' });
  assert.deepEqual([deleted.status, deleted.json.status.phase], [200, 'Terminating']);
  assert.ok(deleted.json.metadata.deletionTimestamp);
  const refused = await post(`${core}/shop/configmaps`, { metadata: { name: 'late' } });
  assert.equal(
    refused.json.message,
    'configmaps "late" is forbidden: unable to create new content in namespace shop because it is being terminated',
  );
  assert.deepEqual(refused.json.details.causes, [
    { reason: 'NamespaceTerminating', message: 'namespace shop is being terminated', field: 'metadata.namespace' },
  ]);
  await until(`${core}/shop/secrets`, ({ type }) => type === 'DELETED');
  assert.equal((await client.send(`${core}/shop`)).status, 200);
  interface Condition {
    readonly status: string;
    readonly message: string;
  }
  const trueOnes = ({ status }: { status?: { conditions?: readonly Condition[] } }): readonly string[] =>
    (status?.conditions ?? []).flatMap((one) => (one.status === 'True' ? [one.message] : []));
  const ending = await until(core, ({ object }) => object.metadata.name === 'shop' && trueOnes(object).length === 2);
  assert.deepEqual(trueOnes(ending.object), [
    'Some resources are remaining: configmaps. has 1 resource instances',
    'Some content in the namespace has finalizers remaining: example.com/x in 1 resource instances',
  ]);
  await client.send(`${core}/shop/configmaps/held`, {
    method: 'PATCH',
    headers: merge,
    body: '{"metadata":{"finalizers":[]}}',
  });
  await until(core, ({ type, object }) => type === 'DELETED' && object.metadata.name === 'shop');
  assert.equal((await client.send(`${core}/shop`)).status, 404);
  assert.deepEqual((await client.send(`${core}/shop/configmaps`)).json.items, []);
});

test('in a namespace that ends, pods keep their configuration until they are gone', async (t) => {
  const { client, post, until } = await world(t);
  await post(core, { metadata: { name: 'shop' } });
  const kinds = ['configmaps', 'secrets'];
  for (const kind of kinds) await post(`${core}/shop/${kind}`, { metadata: { name: 'used' } });
  await post(`${core}/shop/pods`, pod('p', { nodeName: 'n' }));
  await client.send(`${core}/shop`, { method: 'DELETE' });
  await until(`${core}/shop/pods`, ({ object }) => object.metadata.deletionTimestamp !== undefined);
  await client.send(`${core}/shop/pods/p?gracePeriodSeconds=0`, { method: 'DELETE' });
  const goneAt = async (kind: string): Promise<number> => {
    const { object } = await until(`${core}/shop/${kind}`, ({ type }) => type === 'DELETED');
    return Number(object.metadata.resourceVersion);
  };
  const podGoneAt = await goneAt('pods');
  for (const kind of kinds) assert.ok((await goneAt(kind)) > podGoneAt, `${kind} went before the pod`);
  await until(core, ({ type, object }) => type === 'DELETED' && object.metadata.name === 'shop');
});

test('a namespace with claims goes, also with those of a copied manifest that name their finalizers', async (t) => {
  const { client, post, until } = await world(t);
  await post(core, { metadata: { name: 'shop' } });
  const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };
  for (const finalizers of [undefined, ['kubernetes.io/pvc-protection'], ['kubernetes.io/pvc-protection', 'a/b']]) {
    const metadata = { name: `claim-${finalizers?.length ?? 0}`, finalizers };
    assert.equal((await post(`${core}/shop/persistentvolumeclaims`, { metadata, spec })).status, 201);
  }
  assert.equal((await client.send(`${core}/shop`, { method: 'DELETE' })).status, 200);
  // Another finalizer still holds it.
  await until(`${core}/shop/persistentvolumeclaims`, ({ type, object }) => {
    return type === 'DELETED' && object.metadata.name === 'claim-1';
  });
  const held = await client.send(`${core}/shop/persistentvolumeclaims/claim-2`);
  assert.deepEqual(held.json.metadata.finalizers, ['a/b']);
  const body = '{"metadata":{"finalizers":[]}}';
  await client.send(`${core}/shop/persistentvolumeclaims/claim-2`, { method: 'PATCH', headers: merge, body });
  await until(core, ({ type, object }) => type === 'DELETED' && object.metadata.name === 'shop');

  const volume = {
    metadata: { name: 'disk', finalizers: ['kubernetes.io/pv-protection'] },
    spec: { capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'], hostPath: { path: '/tmp' } },
  };
  assert.equal((await post('/api/v1/persistentvolumes', volume)).status, 201);
  await client.send('/api/v1/persistentvolumes/disk', { method: 'DELETE' });
  assert.equal((await client.send('/api/v1/persistentvolumes/disk')).status, 404);
});

test('a namespace whose deletion was begun before a restart ends after it', async (t) => {
  const store = new MemoryStore();
  const first = await startTestApiServer({ store });
  const client = http2Client(first);
  await client.send(core, { method: 'POST', body: { metadata: { name: 'shop' } } });
  await client.send(`${core}/shop/configmaps`, {
    method: 'POST',
    body: { metadata: { name: 'held', finalizers: ['a/b'] } },
  });
  await client.send(`${core}/shop`, { method: 'DELETE' });
  client.close();
  await first.close();
  const { client: second, until } = await world(t, { store });
  await second.send(`${core}/shop/configmaps/held`, {
    method: 'PATCH',
    headers: merge,
    body: '{"metadata":{"finalizers":[]}}',
  });
  await until(core, ({ type, object }) => type === 'DELETED' && object.metadata.name === 'shop');
});

async function owned(w: World, name: string, owner: TestJson, more: object = {}): Promise<void> {
  const { name: ownerName, uid } = owner.metadata;
  const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: ownerName, uid, ...more }];
  const { status } = await w.post(`${core}/default/configmaps`, { metadata: { name, ownerReferences } });
  assert.equal(status, 201);
}

const maps = `${core}/default/configmaps`;
const ends = (name: string) => (event: TestJson) => event.type === 'DELETED' && event.object.metadata.name === name;

test('an object goes when all its owners are gone, and not before', async (t) => {
  const w = await world(t);
  const one = (await w.post(maps, { metadata: { name: 'one' } })).json;
  const two = (await w.post(maps, { metadata: { name: 'two' } })).json;
  const reference = ({ metadata }: TestJson): object => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    name: metadata.name,
    uid: metadata.uid,
  });
  await w.post(maps, { metadata: { name: 'child', ownerReferences: [reference(one), reference(two)] } });
  await w.client.send(`${maps}/one`, { method: 'DELETE' });
  const { object } = await w.until(
    maps,
    ({ type, object: child }) => type === 'MODIFIED' && child.metadata.name === 'child',
  );
  assert.deepEqual(object.metadata.ownerReferences, [reference(two)]);
  await w.client.send(`${maps}/two`, { method: 'DELETE' });
  await w.until(maps, ends('child'));
});

test('an owner of the same name and another uid does not count; an unknown kind may be one', async (t) => {
  const w = await world(t);
  const live = (await w.post(maps, { metadata: { name: 'live' } })).json;
  await owned(w, 'stranger', { metadata: { name: 'live', uid: 'other' } });
  await w.until(maps, ends('stranger'));
  await owned(w, 'foreign', live, { apiVersion: 'example.com/v1', kind: 'Widget' });
  // A Node is in no namespace, and there is no ConfigMap in none: that says nothing of the one that was meant.
  const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'live', uid: live.metadata.uid }];
  await w.post('/api/v1/nodes', { metadata: { name: 'lost', ownerReferences } });
  await owned(w, 'child', live);
  await w.client.send(`${maps}/live`, { method: 'DELETE' });
  await w.until(maps, ends('child'));
  assert.equal((await w.client.send(`${maps}/foreign`)).status, 200);
  assert.equal((await w.client.send('/api/v1/nodes/lost')).status, 200);
});

test('deletion in the foreground waits for dependents that block it', async (t) => {
  const w = await world(t);
  const owner = (await w.post(maps, { metadata: { name: 'owner' } })).json;
  await owned(w, 'child', owner, { blockOwnerDeletion: true });
  const body = { propagationPolicy: 'Foreground' };
  const { json } = await w.client.send(`${maps}/owner`, { method: 'DELETE', body });
  assert.deepEqual(json.metadata.finalizers, ['foregroundDeletion']);
  const order: string[] = [];
  await w.until(maps, ({ type, object }) => {
    if (type === 'DELETED') order.push(object.metadata.name);
    return order.length === 2;
  });
  assert.deepEqual(order, ['child', 'owner']);
});

test('an object that owns itself does not wait for its own end', async (t) => {
  const w = await world(t);
  const { uid } = (await w.post(maps, { metadata: { name: 'self' } })).json.metadata;
  const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'self', uid, blockOwnerDeletion: true }];
  const body = JSON.stringify({ metadata: { ownerReferences } });
  await w.client.send(`${maps}/self`, { method: 'PATCH', headers: merge, body });
  await w.client.send(`${maps}/self`, { method: 'DELETE', body: { propagationPolicy: 'Foreground' } });
  await w.until(maps, ends('self'));
});

test('orphans live on without their owner', async (t) => {
  const w = await world(t);
  const owner = (await w.post(maps, { metadata: { name: 'owner' } })).json;
  await owned(w, 'child', owner);
  await w.client.send(`${maps}/owner`, { method: 'DELETE', body: { propagationPolicy: 'Orphan' } });
  await w.until(maps, ends('owner'));
  const { json } = await w.client.send(`${maps}/child`);
  assert.equal(json.metadata.ownerReferences, undefined);
});

test('a pod without a node waits, says why, and goes to the first that fits', async (t) => {
  const { client, post, until } = await world(t);
  const pods = `${core}/default/pods`;
  await post(pods, pod('p', { nodeSelector: { disk: 'fast' } }));
  const waits = ({ object }: TestJson): boolean =>
    object.status.conditions?.some((one: TestJson) => one.type === 'PodScheduled' && one.status === 'False');
  const { object } = await until(pods, waits);
  assert.equal(object.status.conditions[0].message, 'no nodes available to schedule pods');
  await post('/api/v1/nodes', readyNode('a'));
  await post('/api/v1/nodes', readyNode('b', { metadata: { name: 'b', labels: { disk: 'fast' } } }));
  const bound = await until(pods, (event) => event.object.spec.nodeName !== undefined);
  assert.equal(bound.object.spec.nodeName, 'b');
  assert.deepEqual(
    [bound.object.status.conditions[0].type, bound.object.status.conditions[0].status],
    ['PodScheduled', 'True'],
  );
  const events = await until(`${core}/default/events`, ({ object: event }) => event.reason === 'Scheduled');
  assert.equal(events.object.message, 'Successfully assigned default/p to b');
  const { json } = await client.send(`${core}/default/events?fieldSelector=reason%3DFailedScheduling`);
  assert.equal(json.items[0].type, 'Warning');
});

test('a pod that fits nowhere counts why, the more important one is first, and gates hold a pod back', async (t) => {
  const { client, post, until } = await world(t);
  const pods = `${core}/default/pods`;
  const status = { conditions: [{ type: 'Ready', status: 'True' }], allocatable: { cpu: '1', pods: '9' } };
  await post('/api/v1/nodes', readyNode('full', { status }));
  await post('/api/v1/nodes', readyNode('shut', { spec: { unschedulable: true } }));
  await post('/apis/scheduling.k8s.io/v1/priorityclasses', { metadata: { name: 'high' }, value: 9 });
  const asks = (name: string, spec: object = {}): object =>
    pod(name, { containers: [{ name: 'c', image: 'i', resources: { requests: { cpu: '1' } } }], ...spec });
  const named = (name: string, holds: (object: TestJson) => boolean): Promise<TestJson> =>
    until(pods, ({ object }) => object.metadata.name === name && holds(object));
  const isBound = (object: TestJson): boolean => object.spec.nodeName === 'full';
  const waits = (object: TestJson): boolean => object.status.conditions?.[0]?.reason === 'Unschedulable';
  await post(pods, asks('first'));
  await named('first', isBound);
  await post(pods, asks('low'));
  await post(pods, asks('high', { priorityClassName: 'high' }));
  const { object } = await named('high', waits);
  assert.equal(
    object.status.conditions[0].message,
    '0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.',
  );
  await named('low', waits);
  await client.send(`${pods}/first?gracePeriodSeconds=0`, { method: 'DELETE' });
  await named('high', isBound);
  assert.equal((await client.send(`${pods}/low`)).json.spec.nodeName, undefined);

  await post(pods, pod('gated', { schedulingGates: [{ name: 'example.com/wait' }] }));
  const gated = (await client.send(`${pods}/gated`)).json;
  assert.deepEqual([gated.status.conditions[0].reason, gated.spec.nodeName], ['SchedulingGated', undefined]);
  await client.send(`${pods}/gated`, { method: 'PATCH', headers: merge, body: '{"spec":{"schedulingGates":[]}}' });
  await named('gated', isBound);
});

test('a pod that was deleted and made again under the same name gets a node again', async (t) => {
  const { client, post, until } = await world(t);
  const pods = `${core}/default/pods`;
  await post('/api/v1/nodes', readyNode('a'));
  for (let time = 0; time < 3; time += 1) {
    const { json } = await post(pods, pod('p'));
    const { uid } = json.metadata;
    const { object } = await until(pods, (event) => event.object.metadata.uid === uid && event.object.spec.nodeName);
    assert.equal(object.spec.nodeName, 'a');
    await client.send(`${pods}/p?gracePeriodSeconds=0`, { method: 'DELETE' });
  }
});

test('a new node gets the annotation that forbids caching', async (t) => {
  const { post, until } = await world(t);
  await post('/api/v1/nodes', readyNode('a'));
  await until('/api/v1/nodes', ({ object }) => object.metadata.annotations?.['node.alpha.kubernetes.io/ttl'] === '0');
});

test('an event goes an hour after its last update', async (t) => {
  const clock = new FakeClock();
  const { client, post } = await world(t, { deps: { clock } });
  const events = `${core}/default/events`;
  const event = (name: string): object => ({
    metadata: { name },
    involvedObject: { namespace: 'default' },
    reason: 'R',
  });
  await post(events, event('one'));
  await clock.advance(30 * 60_000);
  await post(events, event('two'));
  await client.send(`${events}/one`, { method: 'PATCH', headers: merge, body: '{"count":2}' });
  await clock.advance(59 * 60_000);
  assert.equal((await client.send(events)).json.items.length, 2);
  await client.send(`${events}/one`, { method: 'PATCH', headers: merge, body: '{"count":3}' });
  await clock.advance(2 * 60_000);
  const { json } = await client.send(events);
  assert.deepEqual(
    json.items.map((item: TestJson) => item.metadata.name),
    ['one'],
  );
});

test('a new pod gets an account, a token volume, tolerations and a priority', async (t) => {
  const { client, post } = await world(t);
  await post(`${core}/default/serviceaccounts`, { metadata: { name: 'robot' }, imagePullSecrets: [{ name: 'pull' }] });
  const { json } = await post(`${core}/default/pods`, pod('p', { serviceAccountName: 'robot' }));
  const { spec } = json;
  assert.deepEqual([spec.serviceAccount, spec.priority, spec.preemptionPolicy], ['robot', 0, 'PreemptLowerPriority']);
  assert.deepEqual(spec.imagePullSecrets, [{ name: 'pull' }]);
  assert.deepEqual(
    spec.tolerations.map(({ key }: TestJson) => key),
    ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable'],
  );
  assert.match(spec.volumes[0].name, /^kube-api-access-[a-z0-9]{5}$/);
  assert.equal(spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds, 3607);
  assert.equal(spec.containers[0].volumeMounts[0].mountPath, '/var/run/secrets/kubernetes.io/serviceaccount');
  const plain = await post(`${core}/default/pods`, pod('q', { automountServiceAccountToken: false }));
  assert.equal(plain.json.spec.volumes, undefined);
  const missing = await post(`${core}/default/pods`, pod('r', { serviceAccountName: 'nobody' }));
  assert.deepEqual(
    [missing.status, missing.json.message],
    [403, 'pods "r" is forbidden: error looking up service account default/nobody: serviceaccount "nobody" not found'],
  );
  assert.equal((await client.send(`${core}/default/pods/r`)).status, 404);
});

test('a pod in a namespace that was made a moment ago finds its account', async (t) => {
  const { post } = await world(t);
  const [namespace, created] = await Promise.all([
    post(core, { metadata: { name: 'fresh' } }),
    post(core, { metadata: { name: 'fresh2' } }).then(() => post(`${core}/fresh2/pods`, pod('p'))),
  ]);
  assert.deepEqual([namespace.status, created.status], [201, 201]);
});

test('a pod on a node is given time, less on request, and is removed by force', async (t) => {
  const { client, post } = await world(t);
  const pods = `${core}/default/pods`;
  const created = await post(pods, pod('p', { nodeName: 'n' }));
  const first = await client.send(`${pods}/p`, { method: 'DELETE' });
  assert.deepEqual([first.status, first.json.metadata.deletionGracePeriodSeconds], [200, 30]);
  assert.equal(first.json.metadata.generation, created.json.metadata.generation + 1);
  const same = await client.send(`${pods}/p`, { method: 'DELETE', body: { gracePeriodSeconds: 60 } });
  assert.equal(same.json.metadata.resourceVersion, first.json.metadata.resourceVersion);
  const shorter = await client.send(`${pods}/p?gracePeriodSeconds=5`, { method: 'DELETE' });
  assert.equal(shorter.json.metadata.deletionGracePeriodSeconds, 5);
  const stale = { gracePeriodSeconds: 0, preconditions: { uid: 'other' } };
  assert.equal((await client.send(`${pods}/p`, { method: 'DELETE', body: stale })).status, 409);
  const uid = created.json.metadata.uid;
  await client.send(`${pods}/p`, { method: 'DELETE', body: { gracePeriodSeconds: 0, preconditions: { uid } } });
  assert.equal((await client.send(`${pods}/p`)).status, 404);
});

test('status, binding and eviction of a pod', async (t) => {
  const { client, post } = await world(t);
  const pods = `${core}/default/pods`;
  const { json } = await post(pods, pod('p', { schedulerName: 'mine' }));
  const headers = { 'content-type': 'application/strategic-merge-patch+json' };
  const status = (uid: string): Promise<TestResponse> =>
    client.send(`${pods}/p/status`, {
      method: 'PATCH',
      headers,
      body: JSON.stringify({ metadata: { uid }, status: { phase: 'Running' } }),
    });
  assert.equal(
    (await status('other')).json.message,
    'Pod "p" is invalid: metadata.uid: Invalid value: "other": field is immutable',
  );
  assert.equal((await status(json.metadata.uid)).json.status.phase, 'Running');
  const main = await client.send(`${pods}/p`, { method: 'PATCH', headers, body: '{"status":{"phase":"Failed"}}' });
  assert.equal(main.json.status.phase, 'Running');

  const target = { kind: 'Node', name: 'n' };
  const wrong = await post(`${pods}/p/binding`, { metadata: { name: 'q' }, target });
  assert.equal(wrong.json.message, 'name in URL does not match name in Binding object');
  const bound = await post(`${pods}/p/binding`, { metadata: { name: 'p' }, target });
  assert.deepEqual(bound.json, { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 });
  const twice = await post(`${core}/default/bindings`, { metadata: { name: 'p' }, target });
  assert.equal(
    twice.json.message,
    'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"',
  );

  const evicted = await post(`${pods}/p/eviction`, {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name: 'p' },
  });
  assert.equal(evicted.status, 201);
  const { json: after } = await client.send(`${pods}/p`);
  assert.ok(after.metadata.deletionTimestamp);
  assert.ok(
    after.status.conditions.some(
      (one: TestJson) => one.type === 'DisruptionTarget' && one.reason === 'EvictionByEvictionAPI',
    ),
  );
});

test("logs and exec that cannot be had are refused in the API's words", async (t) => {
  const { client, post } = await world(t);
  const pods = `${core}/default/pods`;
  const containers = [
    { name: 'a', image: 'i' },
    { name: 'b', image: 'i' },
  ];
  await post(pods, pod('p', { containers, schedulerName: 'mine' }));
  const get = async (path: string): Promise<string> => (await client.send(`${pods}/${path}`)).json.message;
  assert.equal(await get('none/log'), 'pods "none" not found');
  assert.equal(await get('p/log'), 'a container name must be specified for pod p, choose one of: [a b]');
  assert.equal(await get('p/log?container=c'), 'container c is not valid for pod p');
  const empty = await client.send(`${pods}/p/log?container=a`);
  assert.deepEqual([empty.status, empty.text], [200, '']);
  assert.equal(await get('p/exec?container=a&command=ls&stdout=true'), 'pod p does not have a host assigned');
});
