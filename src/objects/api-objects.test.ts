/** The managers against the real API server, over TLS and HTTP/2, on the real clock. */
import { present } from '../testing/fakes/scripted-object-source.ts';
import { ApiObjectSource, type ObjectManagers, objectManagers } from './api-objects.ts';
import { managedConfigMaps, managedSecrets, type ObjectId } from './object-manager.ts';
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { issueClientCertificate } from '../apiserver/identity/certificates.ts';
import { systemClock } from '../base/clock.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import { configMaps, namespaces, nodes, pods, secrets, serviceAccounts } from '../client/api/resource-reference.ts';
import { type ReflectorNotice, reflect } from '../client/reflector.ts';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { aPod } from '../testing/fakes/builders.ts';
import { type RunningApiServer, runningApiServer } from '../testing/servers/test-api-server.ts';
import { memoryStore } from '../testing/servers/stores.ts';
import { ApiTokenRequester, TokenManager } from './tokens.ts';

const patience = (): AbortSignal => AbortSignal.timeout(120_000);
const many = Array.from({ length: 12 }, (_, index) => `c${index}`);

interface Managers extends ObjectManagers {
  /** Resolves when a watch failed, also one that did before. */
  readonly failed: Promise<void>;
}

/** The managers of one node, ended before the server. */
function managersOf(t: TestContext, client: ApiClient, strategy: string): Managers {
  const common = { clock: systemClock, random: () => 0 };
  let tellFailed = (): void => {};
  const failed = new Promise<void>((resolve) => (tellFailed = resolve));
  const notify = ({ kind }: ReflectorNotice): void => {
    if (kind === 'WatchFailed') tellFailed();
  };
  const deps = { ...common, client, notify };
  const managers = objectManagers(
    {
      ...common,
      ownNode: () => undefined,
      notify: () => {},
      configMaps: new ApiObjectSource(managedConfigMaps.resource, deps),
      secrets: new ApiObjectSource(managedSecrets.resource, deps),
    },
    { strategy, syncFrequencyMs: 60_000 },
  );
  const stop = new AbortController();
  const running = Promise.all([managers.configMaps.run(stop.signal), managers.secrets.run(stop.signal)]);
  t.after(async () => {
    stop.abort();
    await running;
  });
  return { ...managers, failed };
}

async function serverWithShop(t: TestContext, store = memoryStore()): Promise<RunningApiServer> {
  const server = await runningApiServer(t, store);
  await server.client().create(namespaces, {}, { metadata: { name: 'shop' } }, patience());
  return server;
}

function put(client: ApiClient, name: string, data: Record<string, string>, immutable?: boolean): Promise<unknown> {
  const object = { metadata: { name }, data, ...(immutable !== undefined && { immutable }) };
  return client.create(configMaps, { namespace: 'shop' }, object, patience());
}

function change(client: ApiClient, name: string, data: Record<string, string>): Promise<unknown> {
  return client.patch(configMaps, { namespace: 'shop', name, type: 'merge' }, { data }, patience());
}

function showing(names: readonly string[], uid = 'u1'): Pod {
  return aPod({ metadata: { uid }, volumes: names.map((name) => ({ name, configMap: { name } })) });
}

async function next(changes: AsyncIterator<ObjectId>): Promise<ObjectId> {
  const { value } = await changes.next();
  return value as ObjectId;
}

function dataOf(configMap: ConfigMap | undefined): Record<string, string> | undefined {
  return configMap && { ...configMap.data };
}

test('a change, a deletion and a new creation reach those who listen', async (t) => {
  const server = await serverWithShop(t);
  const admin = server.client();
  await Promise.all(many.map((name) => put(admin, name, { key: 'old' })));
  const objects = managersOf(t, server.client(), 'Watch').configMaps;
  const changes = objects.changes(patience())[Symbol.asyncIterator]();
  objects.registerPod(showing([...many, 'later']));
  for (const name of many) assert.deepEqual(dataOf(await objects.get('shop', name, patience())), { key: 'old' });
  assert.equal(await objects.get('shop', 'later', patience()), undefined);
  await change(admin, 'c3', { key: 'new' });
  const { namespace, name } = await next(changes);
  assert.deepEqual({ namespace, name }, { namespace: 'shop', name: 'c3' });
  assert.deepEqual(dataOf(await objects.get('shop', 'c3', patience())), { key: 'new' });
  await put(admin, 'later', { key: 'late' });
  assert.equal((await next(changes)).name, 'later');
  await admin.delete(configMaps, { namespace: 'shop', name: 'c3' }, undefined, patience());
  assert.equal((await next(changes)).name, 'c3');
  assert.equal(await objects.get('shop', 'c3', patience()), undefined);
});

test('the content and identity of an object are kept, not its managedFields', async (t) => {
  const server = await serverWithShop(t);
  const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': 'the content once more' };
  await server
    .client()
    .create(
      secrets,
      { namespace: 'shop' },
      { metadata: { name: 's', annotations }, type: 'Opaque', stringData: { key: 'value' } },
      patience(),
    );
  const { secrets: objects } = managersOf(t, server.client(), 'Watch');
  objects.registerPod(aPod({ volumes: [{ name: 'v', secret: { secretName: 's' } }] }));
  const { metadata, data, type } = await present(objects.get('shop', 's', patience()));
  assert.deepEqual(Object.keys(metadata).toSorted(), ['name', 'namespace', 'resourceVersion', 'uid']);
  assert.equal(Buffer.from(data?.['key'] ?? '', 'base64').toString(), 'value');
  assert.equal(type, 'Opaque');
});

for (const strategy of ['Cache', 'Get'] as const) {
  test(`${strategy}: objects are read from the server, and a missing one is absent`, async (t) => {
    const server = await serverWithShop(t);
    const admin = server.client();
    await put(admin, 'a', { key: 'value' });
    const objects = managersOf(t, server.client(), strategy).configMaps;
    objects.registerPod(showing(['a', 'b', '..', 'x/../../secrets/y']));
    assert.deepEqual(dataOf(await objects.get('shop', 'a', patience())), { key: 'value' });
    assert.equal(await objects.get('shop', 'b', patience()), undefined);
    await assert.rejects(objects.get('shop', '..', patience()), {
      message: `invalid resource name "..": [may not be '..']`,
    });
    await assert.rejects(objects.get('shop', 'x/../../secrets/y', patience()), {
      message: `invalid resource name "x/../../secrets/y": [may not contain '/']`,
    });
  });
}

test('a name that looks like a path or a selector finds nothing', async (t) => {
  const server = await serverWithShop(t);
  const admin = server.client();
  await put(admin, 'a', { key: 'value' });
  const objects = managersOf(t, server.client(), 'Watch').configMaps;
  const names = ['a,metadata.namespace=shop', '../configmaps/a', 'a\\', '.', 'a=a', '%61'];
  objects.registerPod(showing(names));
  for (const name of names) {
    assert.equal(await objects.get('shop', name, patience()), undefined, name);
  }
});

test('the credentials of a node are enough, because every object is watched by itself', async (t) => {
  const server = await serverWithShop(t);
  const admin = server.client();
  const group = { groups: ['system:nodes'], now: Date.now(), days: 1 };
  const identity = issueClientCertificate(server.authority, { user: 'system:node:here', ...group });
  await Promise.all(many.map((name) => put(admin, name, { key: 'old' })));
  await admin.create(nodes, {}, { metadata: { name: 'here' } }, patience());
  await defaultAccount(admin);
  const { spec } = showing(many);
  const bound = { metadata: { name: 'web' }, spec: { ...spec, nodeName: 'here' } };
  const pod = await admin.create(pods, { namespace: 'shop' }, bound, patience());
  const { configMaps: objects } = managersOf(t, server.client({}, identity), 'Watch');
  const changes = objects.changes(patience())[Symbol.asyncIterator]();
  objects.registerPod(showing(many, pod.metadata.uid));
  for (const name of many) {
    // The server learns of the pod through its own watch; until then it refuses even these.
    for (;;) {
      const answer = await objects.get('shop', name, patience()).catch((error: Error) => error);
      if (!(answer instanceof Error)) break;
      assert.match(answer.message, /failed to sync/);
    }
  }
  await change(admin, 'c5', { key: 'new' });
  while ((await next(changes)).name !== 'c5');
  assert.deepEqual(dataOf(await objects.get('shop', 'c5', patience())), { key: 'new' });
});

test('a server that was away is caught up with, and until then the last objects are there', async (t) => {
  const store = memoryStore();
  const server = await serverWithShop(t, store);
  const admin = server.client();
  await put(admin, 'a', { key: 'old' });
  const { configMaps: objects, failed } = managersOf(t, server.client(), 'Watch');
  const changes = objects.changes(patience())[Symbol.asyncIterator]();
  objects.registerPod(showing(['a']));
  await objects.get('shop', 'a', patience());
  await server.close();
  await failed;
  assert.deepEqual(dataOf(await objects.get('shop', 'a', patience())), { key: 'old' });
  const again = await runningApiServer(t, store, server);
  await change(again.client(), 'a', { key: 'new' });
  assert.equal((await next(changes)).name, 'a');
  assert.deepEqual(dataOf(await objects.get('shop', 'a', patience())), { key: 'new' });
});

test('the uid of an object is asked for without its content', async (t) => {
  const server = await serverWithShop(t);
  const admin = server.client();
  await put(admin, 'a', { key: 'value' }, true);
  const source = new ApiObjectSource(managedConfigMaps.resource, {
    client: server.client(),
    clock: systemClock,
    random: () => 0,
    notify: () => {},
  });
  const id = { namespace: 'shop', name: 'a' };
  const { metadata } = await present(source.get(id, { mayBeCached: true }, patience()));
  assert.equal(await source.uidOf(id, patience()), metadata.uid);
  assert.equal(await source.uidOf({ ...id, name: 'b' }, patience()), undefined);
  const bare = await admin.getMetadata(configMaps, id, patience());
  assert.ok(!('data' in bare));
});

test('a token comes from the server, bound to its pod, and without the account in the words of the kubelet', async (t) => {
  const server = await serverWithShop(t);
  const admin = server.client();
  const made = { metadata: { name: 'web' }, spec: { containers: [{ name: 'main', image: 'web' }], nodeName: 'here' } };
  await defaultAccount(admin);
  const { metadata } = await admin.create(pods, { namespace: 'shop' }, made, patience());
  const pod = { name: 'web', uid: metadata.uid ?? '' };
  const requester = new ApiTokenRequester(server.client());
  const tokens = new TokenManager({ requester, clock: systemClock, random: () => 0, notify: () => {} });
  const request = {
    namespace: 'shop',
    serviceAccountName: 'default',
    audiences: ['vault'],
    expirationSeconds: 3600,
    pod,
  };
  const token = await tokens.get(request, patience());
  const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<string, unknown>;
  assert.equal(claims['sub'], 'system:serviceaccount:shop:default');
  assert.deepEqual(claims['aud'], ['vault']);
  assert.deepEqual((claims['kubernetes.io'] as Record<string, unknown>)['pod'], pod);
  assert.equal(await tokens.get(request, patience()), token);
  const dueInMs = (tokens.nextRefresh(pod.uid) ?? NaN) - Date.now();
  assert.ok(dueInMs > 47 * 60_000 && dueInMs <= 48 * 60_000, `due in ${dueInMs} ms`);
  await assert.rejects(tokens.get({ ...request, serviceAccountName: 'nobody' }, patience()), {
    message: 'failed to fetch token: serviceaccounts "nobody" not found',
  });
});

/** The service account of a new namespace is made by a controller a moment later. */
async function defaultAccount(client: ApiClient): Promise<void> {
  const deps = { client, clock: systemClock, random: () => 0, notify: () => {} };
  const target = { resource: serviceAccounts, namespace: 'shop' };
  for await (const event of reflect(deps, target, patience())) {
    const objects = event.kind === 'replaced' ? event.objects : [event.object];
    if (objects.some(({ metadata }) => metadata.name === 'default')) return;
  }
}
