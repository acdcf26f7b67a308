import type { ConfigMap } from '../../kube/kinds/config-map.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aConfigMap, aPod } from './builders.ts';
import { FakeObjectManager } from './scripted-object-source.ts';

test('FakeObjectManager answers what it was given and reports changes', async () => {
  const manager = new FakeObjectManager<ConfigMap>();
  const stop = new AbortController();
  const { signal } = stop;
  const running = manager.run(signal);
  const changes = manager.changes(signal)[Symbol.asyncIterator]();
  assert.equal(await manager.get('shop', 'a', signal), undefined);
  const object = aConfigMap({ name: 'a' });
  manager.put(object);
  assert.deepEqual(await changes.next(), {
    done: false,
    value: { namespace: 'shop', name: 'a', resourceVersion: object.metadata.resourceVersion },
  });
  assert.equal(await manager.get('shop', 'a', signal), object);
  assert.equal(await manager.get('bank', 'a', signal), undefined);
  manager.fail(new Error('away'));
  await assert.rejects(manager.get('shop', 'a', signal), /away/);
  manager.fail(undefined);
  manager.remove({ namespace: 'shop', name: 'a' });
  manager.registerPod(aPod());
  manager.registerPod(aPod());
  assert.equal(manager.registered.length, 1);
  manager.unregisterPod(aPod());
  assert.deepEqual(manager.registered, []);
  stop.abort();
  await running;
});
