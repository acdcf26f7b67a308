/** The cluster over HTTP through what networks and servers do: nothing that vanished is forgotten, and nothing is asked twice. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from '../../apiserver/store/store.ts';
import { systemClock } from '../../base/clock.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { secrets as secretReference } from '../../client/api/resource-reference.ts';
import { ConnectionPool, poolDefaults } from '../../client/transport/connection-pool.ts';
import { ApiClient as Client, apiClientDefaults } from '../../client/api/api-client.ts';
import { fixedCredentials } from '../../client/credentials/credentials.ts';
import { type Cluster, type Kind, type ObjectChange, coreKind } from '../../controllers/cluster/cluster.ts';
import { runLoops } from '../../controllers/controllers.ts';
import { ensureDefaultObjects } from '../../controllers/default-objects.ts';
import { faultyRelay } from '../../testing/servers/faulty-relay.ts';
import { memoryStore } from '../../testing/servers/stores.ts';
import { type RunningApiServer, runningApiServer } from '../../testing/servers/test-api-server.ts';
import { SharedCluster } from './http-cluster.ts';

type Notice = Parameters<Parameters<typeof SharedCluster.connect>[0]['notify']>[0];

interface Scene {
  readonly shared: SharedCluster;
  readonly cluster: Cluster;
  readonly secrets: Kind;
  readonly notices: Notice[];
}

const withoutLoops = {
  controllers: (
    host: Parameters<typeof ensureDefaultObjects>[0],
    signal: AbortSignal,
  ): { settled: Promise<void>; done: Promise<void> } => ({
    settled: ensureDefaultObjects(host, signal, []),
    done: Promise.resolve(),
  }),
};

async function start(
  t: TestContext,
  again: Partial<Pick<RunningApiServer, 'authority' | 'port'>> = {},
  store: Store = memoryStore(),
): Promise<RunningApiServer> {
  return runningApiServer(t, store, { ...again, ...withoutLoops });
}

async function connect(t: TestContext, client: ApiClient): Promise<Scene> {
  const stop = new AbortController();
  t.after(() => stop.abort());
  const notices: Notice[] = [];
  const notify = (notice: Notice): void => void notices.push(notice);
  const shared = await SharedCluster.connect({ client, clock: systemClock, random: () => 0, notify }, stop.signal);
  const cluster = shared.for('test', stop.signal);
  return { shared, cluster, secrets: coreKind(cluster, 'Secret'), notices };
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await holds()); tries += 1) {
    assert.ok(tries < 6_000, 'it does not happen');
    await sleep(20);
  }
}

const show = ({ type, object, isInitial }: ObjectChange): string =>
  `${isInitial ? 'initial ' : ''}${type} ${object.metadata.name}`;

test('what vanished or was made again while the server was away is reported as deleted', async (t) => {
  const first = await start(t);
  const { cluster, secrets } = await connect(t, first.client());
  const names = ['gone', 'kept', 'replaced'];
  for (const name of names) await cluster.create(secrets, 'default', { metadata: { name } });
  await cluster.ready([secrets]);
  const changes: ObjectChange[] = [];
  cluster.watch(secrets, (change) => changes.push(change));
  assert.deepEqual(
    changes.map(show).sort(),
    names.map((name) => `initial put ${name}`),
  );
  const before = changes.splice(0).find(({ object }) => object.metadata.name === 'replaced')?.object.metadata.uid;
  await first.close();
  // Another store, as after a restored backup: no event of the time between will ever come.
  const second = await start(t, first);
  const { cluster: other } = await connect(t, second.client());
  for (const name of ['replaced', 'new']) await other.create(secrets, 'default', { metadata: { name } });
  await until(() => changes.some((change) => show(change) === 'put new'));
  assert.deepEqual(changes.map(show).sort(), [
    'delete gone',
    'delete kept',
    'delete replaced',
    'put new',
    'put replaced',
  ]);
  const [deleted, made] = changes.filter(({ object }) => object.metadata.name === 'replaced');
  assert.equal(deleted?.object.metadata.uid, before);
  assert.notEqual(made?.object.metadata.uid, before);
});

test('a lost connection is reported and made again, and a deletion meanwhile is seen', async (t) => {
  const server = await start(t);
  const relay = await faultyRelay(t, server.port);
  const trust = async (): Promise<{ authorityPem: string; isInsecure: false }> => ({
    authorityPem: server.authorityPem,
    isInsecure: false,
  });
  const url = new URL(`https://127.0.0.1:${relay.port}`);
  const transport = new ConnectionPool({ url, trust }, systemClock, poolDefaults);
  const credentials = fixedCredentials({ headers: {}, identity: server.admin });
  const client = new Client({ transport, credentials, clock: systemClock }, apiClientDefaults);
  t.after(() => client.close());
  const { cluster, secrets, notices } = await connect(t, client);
  const changes: ObjectChange[] = [];
  await cluster.create(secrets, 'default', { metadata: { name: 'web' } });
  cluster.watch(secrets, (change) => changes.push(change));
  await until(() => changes.length === 1);
  await relay.stop();
  const direct = await connect(t, server.client());
  await direct.cluster.delete(direct.cluster.keyOf(secrets, 'default', 'web'));
  await until(() => notices.some(({ kind }) => kind === 'WatchFailed'));
  await relay.restart();
  await until(() => changes.length === 2);
  assert.deepEqual(changes.map(show).at(-1), 'delete web');
});

test('loops share one watch for each kind, and one that cannot read an object does not keep the others from it', async (t) => {
  const server = await start(t);
  const client = server.client();
  const watched: string[] = [];
  const watch = client.watch.bind(client);
  client.watch = (resource, ...rest) => {
    watched.push(resource.plural);
    return watch(resource, ...rest);
  };
  const { shared, cluster, secrets, notices } = await connect(t, client);
  const signal = new AbortController().signal;
  const seen: string[] = [];
  shared.for('broken', signal).watch(secrets, () => {
    throw new Error('unreadable');
  });
  shared.for('sound', signal).watch(secrets, ({ object }) => seen.push(object.metadata.name));
  await cluster.create(secrets, 'default', { metadata: { name: 'web' } });
  await until(() => seen.includes('web'));
  const late: string[] = [];
  const stop = cluster.watch(secrets, (change) => late.push(show(change)));
  assert.deepEqual(late, ['initial put web'], 'what is known is reported before the watch returns');
  stop();
  await cluster.delete(cluster.keyOf(secrets, 'default', 'web'));
  await until(() => notices.filter(({ kind }) => kind === 'ControllerFailed').length === 2);
  assert.deepEqual(watched, ['secrets']);
  assert.equal(late.length, 1, 'one that stopped hears no more');
});

test('an update is repeated on newer content, but not for ever', async (t) => {
  const server = await start(t);
  const client = server.client();
  const get = client.get.bind(client);
  let rivals = 0;
  const { cluster, secrets } = await connect(t, client);
  await cluster.create(secrets, 'default', { metadata: { name: 'web' } });
  let gets = 0;
  client.get = async (resource, place, signal) => {
    const found = await get(resource, place, signal);
    gets += 1;
    if (rivals > 0) {
      rivals -= 1;
      const changed = { ...found, metadata: { ...found.metadata, labels: { rival: String(rivals) } } };
      await client.update(secretReference, { namespace: 'default', name: 'web' }, changed, signal);
    }
    return found;
  };
  const key = cluster.keyOf(secrets, 'default', 'web');
  const mark = cluster.update.bind(cluster, key, (object) => ({
    ...object,
    metadata: { ...object.metadata, annotations: { marked: 'yes' } },
  }));
  rivals = 3;
  await mark();
  assert.equal(gets, 4);
  const found = await cluster.get(key);
  assert.deepEqual([found?.metadata.labels, found?.metadata.annotations], [{ rival: '0' }, { marked: 'yes' }]);
  [rivals, gets] = [100, 0];
  await assert.rejects(mark(), { code: 409 });
  assert.equal(gets, 5);
});

test('a group that does not answer stops the loops that need it, which say so, and no others', async (t) => {
  const server = await start(t);
  const client = server.client();
  const read = client.read.bind(client);
  client.read = async (path, ...rest) => {
    if (path.startsWith('/apis/coordination.k8s.io')) throw new Error('its server is away');
    return read(path, ...rest);
  };
  const { shared, cluster, notices } = await connect(t, client);
  assert.ok(notices.some((notice) => notice.kind === 'WatchFailed' && notice.what.includes('coordination.k8s.io')));
  const stop = new AbortController();
  const running = runLoops(
    {
      clusterFor: (controller, signal) => shared.for(controller, signal),
      clock: systemClock,
      random: { suffix: () => 'abcde' },
      notify: (notice) => notices.push(notice),
      authorityPem: undefined,
    },
    new Set(['node-lifecycle-controller', 'root-ca-certificate-publisher-controller', 'serviceaccount-controller']),
    stop.signal,
  );
  const accounts = coreKind(cluster, 'ServiceAccount');
  await until(async () => (await cluster.get(cluster.keyOf(accounts, 'default', 'default'))) !== undefined);
  const failed = notices.flatMap((notice) => (notice.kind === 'ControllerFailed' ? [notice] : []));
  assert.deepEqual(failed.map(({ controller, error }) => `${controller}: ${(error as Error).message}`).sort(), [
    'node-lifecycle-controller: it needs coordination.k8s.io/v1 Lease, which this API server does not have',
    'root-ca-certificate-publisher-controller: it publishes the certificate authority of the kubeconfig, which names none',
  ]);
  await assert.rejects(cluster.kinds(), /its server is away/);
  stop.abort();
  await running;
});
