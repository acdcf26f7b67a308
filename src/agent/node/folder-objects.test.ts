import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ConfigMap } from '../../kube/kinds/config-map.ts';
import type { ObjectChange, ObjectId } from '../../objects/object-manager.ts';
import { aPod } from '../../testing/fakes/builders.ts';
import { FolderObjects } from './node-objects.ts';

const configMap = (name: string, resourceVersion: string): ConfigMap => ({
  metadata: { name, namespace: 'shop', resourceVersion },
});

test('without a cluster, only what the folder has is there', async () => {
  const { signal } = new AbortController();
  const objects = new FolderObjects<ConfigMap>('ConfigMap', undefined);
  assert.equal(await objects.get('shop', 'web', signal), undefined);
  objects.replace([configMap('web', '1')]);
  assert.equal((await objects.get('shop', 'web', signal))?.metadata.resourceVersion, '1');
});

test('what is added takes nothing away', async () => {
  const { signal } = new AbortController();
  const objects = new FolderObjects<ConfigMap>('ConfigMap', undefined);
  objects.replace([configMap('old', '1'), configMap('both', '1')]);
  objects.add([configMap('both', '2'), configMap('new', '1')]);
  const versions = ['old', 'both', 'new'].map(async (name) => (await objects.get('shop', name, signal))?.metadata);
  assert.deepEqual(
    (await Promise.all(versions)).map((metadata) => metadata?.resourceVersion),
    ['1', '2', '1'],
  );
});

test('additions, changes and removals are reported, and unchanged objects are not', async () => {
  const stop = new AbortController();
  const objects = new FolderObjects<ConfigMap>('ConfigMap', undefined);
  objects.replace([configMap('same', '1'), configMap('changed', '1'), configMap('gone', '1')]);
  const told: string[] = [];
  const listening = (async () => {
    for await (const { name } of objects.changes(stop.signal)) {
      told.push(name);
      if (told.length === 3) stop.abort();
    }
  })();
  await Promise.resolve();
  objects.replace([configMap('same', '1'), configMap('changed', '2'), configMap('new', '1')]);
  await listening;
  assert.deepEqual(told.sort(), ['changed', 'gone', 'new']);
});

function aCluster() {
  const asked: ObjectId[] = [];
  const registered: string[] = [];
  const base = {
    get: async (namespace: string, name: string) => {
      asked.push({ namespace, name });
      return configMap(name, '9');
    },
    registerPod: ({ metadata }: { readonly metadata: { readonly name: string } }) =>
      void registered.push(metadata.name),
    unregisterPod: () => {},
    changes: async function* (): AsyncGenerator<ObjectChange> {},
    run: async () => {},
  };
  return { base, asked, registered };
}

test('the folder takes precedence over the cluster, whose changes are reported too', async () => {
  const { signal } = new AbortController();
  const { base, asked } = aCluster();
  const objects = new FolderObjects<ConfigMap>('ConfigMap', base);
  objects.replace([configMap('own', '1')]);
  assert.equal((await objects.get('shop', 'own', signal))?.metadata.resourceVersion, '1');
  assert.equal((await objects.get('shop', 'other', signal))?.metadata.resourceVersion, '9');
  assert.deepEqual(asked, [{ namespace: 'shop', name: 'other' }]);
});

test('the cluster is not asked for what only static pods name: it would refuse it to a node', async () => {
  const { signal } = new AbortController();
  const { base, asked, registered } = aCluster();
  const objects = new FolderObjects<ConfigMap>('ConfigMap', base);
  const volumes = [{ name: 'config', configMap: { name: 'web' } }];
  const fromCluster = aPod({ volumes });
  const fromFolder = aPod({
    metadata: { name: 'static', annotations: { 'kubernetes.io/config.source': 'file' } },
    volumes,
  });
  objects.registerPod(fromFolder);
  assert.equal(await objects.get('shop', 'web', signal), undefined);
  objects.registerPod(fromCluster);
  assert.equal((await objects.get('shop', 'web', signal))?.metadata.resourceVersion, '9');
  objects.unregisterPod(fromCluster);
  assert.equal(await objects.get('shop', 'web', signal), undefined);
  assert.deepEqual([registered, asked.length], [['web'], 1]);
});
