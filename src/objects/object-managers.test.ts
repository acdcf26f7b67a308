import { type ObjectManagers, objectManagers } from './api-objects.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Secret } from '../kube/kinds/secret.ts';
import { aPod } from '../testing/fakes/builders.ts';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { ScriptedObjectSource } from '../testing/fakes/scripted-object-source.ts';

function world(strategy: string) {
  const configMaps = new ScriptedObjectSource<ConfigMap>();
  const secrets = new ScriptedObjectSource<Secret>();
  const clock = new FakeClock();
  const make = (): ObjectManagers =>
    objectManagers(
      { clock, random: () => 0, notify: () => {}, ownNode: () => undefined, configMaps, secrets },
      { strategy, syncFrequencyMs: 60_000 },
    );
  return { configMaps, secrets, make, clock };
}

for (const strategy of ['', 'watch', 'Poll']) {
  test(`the strategy "${strategy}" is refused`, () => {
    assert.throws(world(strategy).make, {
      reason: 'UnknownStrategy',
      message: `unknown configmap and secret manager mode: ${strategy}`,
    });
  });
}

for (const strategy of ['Get', 'Cache', 'Watch']) {
  test(`${strategy}: ConfigMaps and Secrets have managers of their own, and an ended manager leaves nothing behind`, async () => {
    const { configMaps, secrets, make } = world(strategy);
    configMaps.put({ namespace: 'shop', name: 'a' }, { data: { key: 'ConfigMap' } });
    secrets.put({ namespace: 'shop', name: 'a' }, { data: { key: 'U2VjcmV0' } });
    const managers = make();
    const stop = new AbortController();
    const { signal } = stop;
    const running = Promise.all([managers.configMaps.run(signal), managers.secrets.run(signal)]);
    const pod = aPod({
      volumes: [
        { name: 'a', configMap: { name: 'a' } },
        { name: 'b', secret: { secretName: 'a' } },
      ],
    });
    for (const manager of [managers.configMaps, managers.secrets]) manager.registerPod(pod);
    assert.deepEqual((await managers.configMaps.get('shop', 'a', signal))?.data, { key: 'ConfigMap' });
    assert.deepEqual((await managers.secrets.get('shop', 'a', signal))?.data, { key: 'U2VjcmV0' });
    for (const manager of [managers.configMaps, managers.secrets]) manager.unregisterPod(pod);
    stop.abort();
    await running;
    assert.deepEqual([...configMaps.watched, ...secrets.watched], []);
  });
}

test('Get: every read asks the server, also for unregistered objects, and no change is ever reported', async () => {
  const { configMaps, make } = world('Get');
  const id = { namespace: 'shop', name: 'a' };
  configMaps.put(id, {});
  const { configMaps: objects } = make();
  const stop = new AbortController();
  const told: unknown[] = [];
  const listening = (async () => {
    for await (const change of objects.changes(stop.signal)) told.push(change);
  })();
  await objects.get('shop', 'a', stop.signal);
  configMaps.remove(id);
  assert.equal(await objects.get('shop', 'a', stop.signal), undefined);
  assert.deepEqual(configMaps.requests, ['get shop/a', 'get shop/a']);
  stop.abort();
  await listening;
  assert.deepEqual(told, []);
});

for (const strategy of ['Watch', 'Cache', 'Get']) {
  test(`${strategy}: what is missing is absent, and what is not registered is refused in the words of the kubelet`, async () => {
    const { configMaps, secrets } = world(strategy).make();
    const { signal } = new AbortController();
    const pod = aPod({
      volumes: [
        { name: 'a', configMap: { name: 'x' } },
        { name: 'b', secret: { secretName: 'x' } },
      ],
    });
    for (const manager of [configMaps, secrets]) {
      if (strategy !== 'Get')
        await assert.rejects(manager.get('shop', 'x', signal), {
          reason: 'ObjectNotRegistered',
          message: 'object "shop"/"x" not registered',
        });
      manager.registerPod(pod);
      assert.equal(await manager.get('shop', 'x', signal), undefined);
      manager.unregisterPod(pod);
    }
  });
}

test('Watch: an object that does not arrive in time is an error in the words of the kubelet, for both kinds', async () => {
  const { configMaps, secrets, make, clock } = world('Watch');
  const pod = aPod({
    volumes: [
      { name: 'a', configMap: { name: 'x' } },
      { name: 'b', secret: { secretName: 'x' } },
    ],
  });
  const managers = make();
  const { signal } = new AbortController();
  for (const source of [configMaps, secrets]) source.hold();
  for (const manager of [managers.configMaps, managers.secrets]) manager.registerPod(pod);
  const late = Promise.all([
    assert.rejects(managers.configMaps.get('shop', 'x', signal), {
      message: 'failed to sync configmap cache: timed out waiting for the condition',
    }),
    assert.rejects(managers.secrets.get('shop', 'x', signal), {
      message: 'failed to sync secret cache: timed out waiting for the condition',
    }),
  ]);
  await clock.advance(1_000);
  await late;
  for (const manager of [managers.configMaps, managers.secrets]) manager.unregisterPod(pod);
});
