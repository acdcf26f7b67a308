/** One watch and servers that do not do what they are asked. */
import { managedConfigMaps } from './object-manager.ts';
import { WatchedObjects } from './watched-objects.ts';
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { aPod } from '../testing/fakes/builders.ts';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import { ScriptedObjectSource, present } from '../testing/fakes/scripted-object-source.ts';

const minuteMs = 60_000;
const named = (name: string, namespace = 'shop') => ({ namespace, name });

function podWith(names: readonly string[], uid = 'u1', namespace = 'shop'): Pod {
  return aPod({ metadata: { uid, namespace }, volumes: names.map((name) => ({ name, configMap: { name } })) });
}

function world(t: TestContext) {
  const source = new ScriptedObjectSource<ConfigMap>();
  const clock = new FakeClock();
  const deps = { source, clock, random: () => 0, notify: () => {} };
  const objects = new WatchedObjects(managedConfigMaps, deps, { syncFrequencyMs: minuteMs });
  const stop = new AbortController();
  const running = objects.run(stop.signal);
  const told: string[] = [];
  const listening = (async () => {
    for await (const { name } of objects.changes(stop.signal)) told.push(name);
  })();
  t.after(async () => {
    stop.abort();
    await Promise.all([running, listening]);
    assert.deepEqual(source.watched, [], 'a watch outlived its manager');
  });
  const get = (name: string, namespace = 'shop'): Promise<ConfigMap> =>
    present(objects.get(namespace, name, new AbortController().signal));
  const takeTold = async (): Promise<readonly string[]> => {
    await settle();
    return told.splice(0).toSorted();
  };
  return { source, clock, objects, get, takeTold };
}

test('a server that answers with other objects than those asked for makes no pod read them', async (t) => {
  const { source, objects, get } = world(t);
  source.hold();
  objects.registerPod(podWith(['a']));
  await settle();
  const foreign = [
    { metadata: { name: 'a', namespace: 'bank', resourceVersion: '5' } },
    { metadata: { name: 'b', namespace: 'shop', resourceVersion: '5' } },
    { metadata: { name: 'a', resourceVersion: '5' } },
  ];
  source.send(named('a'), { kind: 'replaced', objects: foreign, resourceVersion: '5' });
  for (const object of foreign) source.send(named('a'), { kind: 'changed', object });
  await settle();
  await assert.rejects(get('a'), /not found/);
  const object = source.put(named('a'), {});
  source.release();
  await settle();
  assert.equal(await get('a'), object);
  for (const other of foreign) source.send(named('a'), { kind: 'deleted', object: other });
  await settle();
  assert.equal(await get('a'), object);
});

test('a relist of a server that was restored from a backup is believed although its versions are older', async (t) => {
  const { source, objects, get, takeTold } = world(t);
  for (let version = 0; version < 9; version += 1) source.put(named('a'), {});
  objects.registerPod(podWith(['a']));
  await get('a');
  const restored = { metadata: { name: 'a', namespace: 'shop', uid: 'uid-1', resourceVersion: '3' } };
  source.send(named('a'), { kind: 'replaced', objects: [restored], resourceVersion: '4' });
  assert.deepEqual(await takeTold(), ['a']);
  assert.equal(await get('a'), restored);
});

test('a source that breaks is started again, later each time', async (t) => {
  const { source, clock, objects, get } = world(t);
  source.put(named('a'), {});
  const watch = source.watch.bind(source);
  let tries = 0;
  source.watch = (...parameters) => {
    tries += 1;
    if (tries < 4) throw new Error('broken');
    return watch(...parameters);
  };
  objects.registerPod(podWith(['a']));
  await settle();
  assert.equal(tries, 1);
  await clock.advance(800);
  assert.equal(tries, 2);
  await clock.advance(800);
  assert.equal(tries, 2);
  await clock.advance(800 + 3_200);
  await settle();
  assert.equal((await get('a')).metadata.name, 'a');
});

test('a thousand objects at once ask a hundred questions at a time', async (t) => {
  const { source, objects, get } = world(t);
  const names = Array.from({ length: 1_000 }, (_, index) => `n${index}`);
  for (const name of names) source.put(named(name), {});
  source.hold();
  objects.registerPod(podWith(names));
  await settle();
  assert.equal(source.watched.length, 100);
  source.release();
  await settle(60);
  assert.equal(source.watched.length, 1_000);
  assert.equal((await get('n999')).metadata.name, 'n999');
});
