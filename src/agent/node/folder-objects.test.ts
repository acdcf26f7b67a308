import type { ObjectChange, ObjectId } from '../../objects/object-manager.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ConfigMap } from '../../kube/kinds/config-map.ts';
import { FolderObjects } from './node-objects.ts';

const configMap = (name: string, resourceVersion: string): ConfigMap => ({
  metadata: { name, namespace: 'shop', resourceVersion },
});

test('without a cluster, only what the folder has is there', async () => {
  const { signal } = new AbortController();
  const objects = new FolderObjects<ConfigMap>(undefined);
  assert.equal(await objects.get('shop', 'web', signal), undefined);
  objects.replace([configMap('web', '1')]);
  assert.equal((await objects.get('shop', 'web', signal))?.metadata.resourceVersion, '1');
});

test('what is added takes nothing away', async () => {
  const { signal } = new AbortController();
  const objects = new FolderObjects<ConfigMap>(undefined);
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
  const objects = new FolderObjects<ConfigMap>(undefined);
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

test('the folder takes precedence over the cluster, whose changes are reported too', async () => {
  const { signal } = new AbortController();
  const asked: ObjectId[] = [];
  const base = {
    get: async (namespace: string, name: string) => {
      asked.push({ namespace, name });
      return configMap(name, '9');
    },
    registerPod: () => {},
    unregisterPod: () => {},
    changes: async function* (): AsyncGenerator<ObjectChange> {},
    run: async () => {},
  };
  const objects = new FolderObjects<ConfigMap>(base);
  objects.replace([configMap('own', '1')]);
  assert.equal((await objects.get('shop', 'own', signal))?.metadata.resourceVersion, '1');
  assert.equal((await objects.get('shop', 'other', signal))?.metadata.resourceVersion, '9');
  assert.deepEqual(asked, [{ namespace: 'shop', name: 'other' }]);
});
