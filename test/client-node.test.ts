/** A client that others wrote, against the real program: what most Node programs use to speak to Kubernetes. */
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { after, before, test } from 'node:test';
import {
  ApiException,
  CoreV1Api,
  KubeConfig,
  PatchStrategy,
  V1ConfigMap,
  Watch,
  makeInformer,
  setHeaderOptions,
} from '@kubernetes/client-node';
import type { RunningApiServer } from './api-server-program.ts';
import { startApiServerProgram } from './api-server-program.ts';
import { mountlet } from './mountlet-program.ts';

const base = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
const data = join(base, 'data');
let server: RunningApiServer;
let config: KubeConfig;
let api: CoreV1Api;

before(async () => {
  server = await startApiServerProgram(data);
  config = new KubeConfig();
  config.loadFromFile(server.kubeconfig);
  api = config.makeApiClient(CoreV1Api);
});

after(async () => {
  await server.kill();
  rmSync(base, { recursive: true, force: true });
});

/** A namespace for one test. */
async function namespace(name: string): Promise<string> {
  await api.createNamespace({ body: { metadata: { name } } });
  return name;
}

function create(ns: string, name: string, content: Record<string, string> = {}): Promise<V1ConfigMap> {
  return api.createNamespacedConfigMap({ namespace: ns, body: { metadata: { name }, data: content } });
}

/** All but what every namespace has. */
function namesOf(items: readonly V1ConfigMap[]): string[] {
  const names = items.map(({ metadata }) => metadata?.name ?? '');
  return names.filter((name) => name !== 'kube-root-ca.crt').toSorted();
}

async function failure(work: Promise<unknown>): Promise<{ code: number; reason: string; message: string }> {
  const error: unknown = await work.then(
    () => assert.fail('it succeeded'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof ApiException, String(error));
  const { reason, message } = JSON.parse(String(error.body)) as { reason: string; message: string };
  return { code: error.code, reason, message };
}

test('client-node creates, reads, replaces and deletes; dates and maps come back as it models them', async () => {
  const ns = await namespace('crud');
  const created = await create(ns, 'web', { a: '1' });
  assert.ok(created.metadata?.creationTimestamp instanceof Date);
  assert.match(created.metadata.uid ?? '', /^[0-9a-f-]{36}$/);
  const read = await api.readNamespacedConfigMap({ namespace: ns, name: 'web' });
  assert.deepEqual(read, created);
  const replaced = await api.replaceNamespacedConfigMap({
    namespace: ns,
    name: 'web',
    body: Object.assign(new V1ConfigMap(), read, { data: { b: '2' } }),
  });
  assert.deepEqual(replaced.data, { b: '2' });
  const stale = api.replaceNamespacedConfigMap({
    namespace: ns,
    name: 'web',
    body: Object.assign(new V1ConfigMap(), read, { data: { c: '3' } }),
  });
  assert.deepEqual(await failure(stale).then(({ code, reason }) => ({ code, reason })), {
    code: 409,
    reason: 'Conflict',
  });
  const status = await api.deleteNamespacedConfigMap({ namespace: ns, name: 'web' });
  assert.equal(status.status, 'Success');
  assert.deepEqual(await failure(api.readNamespacedConfigMap({ namespace: ns, name: 'web' })), {
    code: 404,
    reason: 'NotFound',
    message: 'configmaps "web" not found',
  });
});

test('client-node reads Secrets in base64 and writes stringData', async () => {
  const ns = await namespace('secrets');
  await api.createNamespacedSecret({ namespace: ns, body: { metadata: { name: 's' }, stringData: { password: 'ä' } } });
  const { data: content, type } = await api.readNamespacedSecret({ namespace: ns, name: 's' });
  assert.deepEqual({ content, type }, { content: { password: Buffer.from('ä').toString('base64') }, type: 'Opaque' });
});

test('client-node lists: all, by label, by name, in pages', async () => {
  const ns = await namespace('lists');
  for (const name of ['a', 'b', 'c', 'd', 'e']) {
    const labels = { parity: name.charCodeAt(0) % 2 === 0 ? 'even' : 'odd' };
    await api.createNamespacedConfigMap({ namespace: ns, body: { metadata: { name, labels } } });
  }
  assert.deepEqual(namesOf((await api.listNamespacedConfigMap({ namespace: ns })).items), ['a', 'b', 'c', 'd', 'e']);
  const even = await api.listConfigMapForAllNamespaces({ labelSelector: 'parity in (even)' });
  assert.deepEqual(namesOf(even.items), ['b', 'd']);
  const named = await api.listNamespacedConfigMap({ namespace: ns, fieldSelector: 'metadata.name=c' });
  assert.deepEqual(namesOf(named.items), ['c']);
  const pages: string[][] = [];
  let token: string | undefined;
  do {
    const page = await api.listNamespacedConfigMap({
      namespace: ns,
      limit: 2,
      ...(token !== undefined && { _continue: token }),
    });
    pages.push(namesOf(page.items));
    token = page.metadata?.['_continue'];
  } while (token !== undefined && token !== '');
  assert.deepEqual(pages, [['a', 'b'], ['c', 'd'], ['e']]);
});

const patches = [
  { strategy: 'MergePatch', body: { data: { a: null, m: 'merge' } }, gives: { k: 'v', m: 'merge' } },
  { strategy: 'StrategicMergePatch', body: { data: { s: 'strategic' } }, gives: { a: 'b', k: 'v', s: 'strategic' } },
  { strategy: 'JsonPatch', body: [{ op: 'replace', path: '/data/a', value: 'json' }], gives: { a: 'json', k: 'v' } },
] as const;
for (const { strategy, body, gives } of patches) {
  test(`client-node patches with ${strategy}`, async () => {
    const ns = await namespace(`patch-${strategy.toLowerCase()}`);
    await create(ns, 'web', { a: 'b', k: 'v' });
    const patched = await api.patchNamespacedConfigMap(
      { namespace: ns, name: 'web', body },
      setHeaderOptions('Content-Type', PatchStrategy[strategy]),
    );
    assert.deepEqual(patched.data, gives);
  });
}

test('client-node applies on the server', async () => {
  const ns = await namespace('apply');
  const apply = (fieldManager: string, content: Record<string, string>, force = false): Promise<V1ConfigMap> =>
    api.patchNamespacedConfigMap(
      {
        namespace: ns,
        name: 'web',
        fieldManager,
        force,
        body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'web' }, data: content },
      },
      setHeaderOptions('Content-Type', PatchStrategy.ServerSideApply),
    );
  await apply('one', { a: '1' });
  assert.deepEqual((await apply('two', { b: '2' })).data, { a: '1', b: '2' });
  assert.equal((await failure(apply('two', { a: '3' }))).code, 409);
  assert.deepEqual((await apply('two', { a: '3' }, true)).data, { a: '3' });
});

test('client-node watches from a list on: every change, once, in order', async () => {
  const ns = await namespace('watch');
  await create(ns, 'before');
  const { metadata } = await api.listNamespacedConfigMap({ namespace: ns });
  const seen: string[] = [];
  const over = new Promise<void>((resolve, reject) => {
    new Watch(config)
      .watch(
        `/api/v1/namespaces/${ns}/configmaps`,
        { resourceVersion: metadata?.resourceVersion ?? '', fieldSelector: 'metadata.name!=kube-root-ca.crt' },
        (type: string, object: V1ConfigMap) => {
          seen.push(`${type} ${object.metadata?.name} ${object.data?.['n'] ?? ''}`.trim());
          if (object.metadata?.name === 'last') resolve();
        },
        reject,
      )
      .catch(reject);
  });
  await create(ns, 'web', { n: '1' });
  for (const n of ['2', '3']) {
    await api.patchNamespacedConfigMap(
      { namespace: ns, name: 'web', body: { data: { n } } },
      setHeaderOptions('Content-Type', PatchStrategy.MergePatch),
    );
  }
  await api.deleteNamespacedConfigMap({ namespace: ns, name: 'web' });
  await create(ns, 'last');
  await over;
  assert.deepEqual(seen, ['ADDED web 1', 'MODIFIED web 2', 'MODIFIED web 3', 'DELETED web 3', 'ADDED last']);
});

interface Cache {
  /** How often it has listed from the beginning. */
  readonly lists: () => number;
  /** Resolves when the cache holds exactly these. */
  has(names: readonly string[]): Promise<void>;
}

/** An informer as its documentation shows it: started again whenever it reports an error. */
async function startInformer(t: TestContext, ns: string): Promise<Cache> {
  let lists = 0;
  let isOver = false;
  let changed = (): void => undefined;
  const informer = makeInformer(config, `/api/v1/namespaces/${ns}/configmaps`, () => {
    lists += 1;
    return api.listNamespacedConfigMap({ namespace: ns });
  });
  informer.on('change', () => changed());
  // To stop it is an error to it too, and to start it again would never end.
  informer.on('error', () => {
    if (!isOver) setTimeout(() => void informer.start(), 50);
  });
  t.after(() => {
    isOver = true;
    return informer.stop();
  });
  await informer.start();
  return {
    lists: () => lists,
    has: (names) =>
      new Promise((resolve) => {
        changed = () => {
          if (namesOf(informer.list()).join() === names.join()) resolve();
        };
        changed();
      }),
  };
}

test('client-node informer stays in sync over kill -9, and does not list again', { timeout: 240_000 }, async (t) => {
  const ns = await namespace('informer');
  await create(ns, 'a');
  const cache = await startInformer(t, ns);
  await create(ns, 'b');
  await cache.has(['a', 'b']);
  await server.kill();
  server = await startApiServerProgram(data, { listen: new URL(server.url).host });
  await api.deleteNamespacedConfigMap({ namespace: ns, name: 'a' });
  await create(ns, 'c');
  await cache.has(['b', 'c']);
  assert.equal(cache.lists(), 1, 'the log of the killed server is there: it goes on from its revision');
});

test('client-node informer lists again when its revision is gone (410)', { timeout: 240_000 }, async (t) => {
  const ns = await namespace('expired');
  await create(ns, 'a');
  const file = join(base, 'backup');
  assert.equal(mountlet(['apiserver', 'backup', file, '--data', data]).code, 0);
  await create(ns, 'lost');
  const cache = await startInformer(t, ns);
  await cache.has(['a', 'lost']);
  await server.kill();
  // What the restored store never had, its clients may have seen: it answers that their revision is too old.
  const restored = join(base, 'restored');
  cpSync(join(data, 'pki'), join(restored, 'pki'), { recursive: true });
  assert.equal(mountlet(['apiserver', 'restore', file, '--data', restored]).code, 0);
  server = await startApiServerProgram(restored, { listen: new URL(server.url).host });
  await cache.has(['a']);
  await create(ns, 'b');
  await cache.has(['a', 'b']);
  assert.ok(cache.lists() >= 2);
});
