/** Watches of whole namespaces, the way there and back, and servers that do not heed what they are asked. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { aPod } from '../testing/fakes/builders.ts';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import { ScriptedObjectSource } from '../testing/fakes/scripted-object-source.ts';
import { managedConfigMaps } from './managed-kind.ts';
import { type WatchScopeSetting, WatchedObjects } from './watched-objects.ts';

const minuteMs = 60_000;
const named = (name: string, namespace = 'shop') => ({ namespace, name });
const many = Array.from({ length: 10 }, (_, index) => `c${index}`);
const watchesOf = (names: readonly string[]): readonly string[] => names.map((name) => `shop/${name}`).toSorted();

function podWith(names: readonly string[], uid = 'u1', namespace = 'shop'): Pod {
  return aPod({ metadata: { uid, namespace }, volumes: names.map((name) => ({ name, configMap: { name } })) });
}

function world(t: TestContext, scope: WatchScopeSetting) {
  const source = new ScriptedObjectSource<ConfigMap>('configmaps');
  const clock = new FakeClock();
  const deps = { source, clock, random: () => 0, notify: () => {} };
  const objects = new WatchedObjects(managedConfigMaps, deps, { scope, syncFrequencyMs: minuteMs });
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
    objects.get(namespace, name, new AbortController().signal);
  const takeTold = async (): Promise<readonly string[]> => {
    await settle();
    return told.splice(0).toSorted();
  };
  return { source, clock, objects, get, takeTold };
}

test('namespace: one watch serves all objects of a namespace, and ends with the last of them', async (t) => {
  const { source, objects, get, takeTold } = world(t, 'namespace');
  for (const name of ['a', 'b', 'foreign']) source.put(named(name), {});
  source.put(named('a', 'bank'), {});
  objects.registerPod(podWith(['a', 'b']));
  objects.registerPod(podWith(['a'], 'u2', 'bank'));
  await Promise.all([get('a'), get('b'), get('a', 'bank')]);
  assert.deepEqual(source.watched, ['bank', 'shop']);
  source.put(named('b'), { data: { key: 'new' } });
  source.put(named('foreign'), { data: { key: 'new' } });
  assert.deepEqual(await takeTold(), ['b']);
  await assert.rejects(get('foreign'), { message: 'object "shop"/"foreign" not registered' });
  objects.unregisterPod(podWith([]));
  await settle();
  assert.deepEqual(source.watched, ['bank']);
});

test('namespace: who joins a running watch is asked for once, and an event that comes in between is not lost', async (t) => {
  const { source, objects, get, takeTold } = world(t, 'namespace');
  source.put(named('a'), {});
  source.put(named('late'), { data: { key: 'old' } });
  objects.registerPod(podWith(['a']));
  await get('a');
  source.whileGetting(async (object) => {
    source.whileGetting(undefined);
    if (object !== undefined) source.put(named('late'), { data: { key: 'new' } });
    await settle();
  });
  objects.registerPod(podWith(['late', 'missing'], 'u2'));
  assert.deepEqual((await get('late')).data, { key: 'new' });
  await settle();
  assert.deepEqual((await get('late')).data, { key: 'new' }, 'the older answer came after the event and was dropped');
  await assert.rejects(get('missing'), { message: 'configmap "missing" not found' });
  assert.deepEqual(
    source.requests.filter((request) => request.startsWith('get')),
    ['get shop/late', 'get shop/missing'],
  );
  source.put(named('missing'), {});
  assert.deepEqual(await takeTold(), ['missing']);
});

test('namespace: an event from before what was fetched does not take the object back', async (t) => {
  const { source, objects, get } = world(t, 'namespace');
  source.put(named('a'), {});
  objects.registerPod(podWith(['a']));
  await get('a');
  const old = source.put(named('late'), { data: { key: 'old' } });
  const current = source.put(named('late'), { data: { key: 'new' } });
  objects.registerPod(podWith(['late'], 'u2'));
  assert.equal(await get('late'), current);
  source.send({ namespace: 'shop' }, { kind: 'changed', object: old });
  source.send({ namespace: 'shop' }, { kind: 'deleted', object: old });
  await settle();
  assert.equal(await get('late'), current);
});

test('namespace: who joins while the server is away is asked for again until it answers', async (t) => {
  const { source, clock, objects, get, takeTold } = world(t, 'namespace');
  source.put(named('a'), {});
  objects.registerPod(podWith(['a']));
  await get('a');
  const names = Array.from({ length: 20 }, (_, index) => `late${index}`);
  for (const name of names) source.put(named(name), {});
  await settle();
  const away = new Error('connection refused');
  const answer = source.get.bind(source);
  source.get = () => Promise.reject(away);
  objects.registerPod(podWith(names, 'u2'));
  const failed = assert.rejects(get('late7'), { reason: 'ObjectNotSynced', cause: away });
  await settle();
  await clock.advance(1_000);
  await failed;
  source.get = answer;
  await clock.advance(minuteMs);
  assert.equal(await get('late19'), source.current(named('late19')));
  assert.deepEqual(await takeTold(), ['late7']);
});

test('auto: few objects have a watch each; with enough of them one watch takes over, and no read notices', async (t) => {
  const { source, objects, get, takeTold } = world(t, 'auto');
  for (const name of many) source.put(named(name), {});
  objects.registerPod(podWith(many.slice(0, 9)));
  await settle();
  assert.deepEqual(source.watched, watchesOf(many.slice(0, 9)));
  source.hold();
  objects.registerPod(podWith(many));
  await settle();
  assert.deepEqual(source.watched, ['shop', ...watchesOf(many)]);
  source.put(named('c0'), { data: { key: 'during the switch' } });
  assert.deepEqual(await takeTold(), ['c0']);
  source.release();
  await settle();
  assert.deepEqual(source.watched, ['shop']);
  assert.deepEqual(await takeTold(), [], 'what was known already is not told again');
  source.put(named('c1'), { data: { key: 'after the switch' } });
  assert.deepEqual(await takeTold(), ['c1']);
  for (const name of many) assert.equal(await get(name), source.current(named(name)));
});

test('auto: a namespace list from before what is known neither takes objects back nor makes them vanish', async (t) => {
  const { source, objects, get, takeTold } = world(t, 'auto');
  for (const name of many) source.put(named(name), {});
  const old = many.map((name) => source.current(named(name)) ?? assert.fail());
  objects.registerPod(podWith(many.slice(0, 9)));
  await settle();
  source.put(named('c0'), { data: { key: 'new' } });
  source.remove(named('c1'));
  await takeTold();
  source.hold();
  objects.registerPod(podWith(many));
  await settle();
  const withoutC2 = old.filter(({ metadata: { name } }) => name !== 'c2');
  source.send({ namespace: 'shop' }, { kind: 'replaced', objects: withoutC2, resourceVersion: '2' });
  await settle();
  assert.deepEqual(source.watched, ['shop']);
  assert.deepEqual(await takeTold(), []);
  assert.deepEqual((await get('c0')).data, { key: 'new' });
  await assert.rejects(get('c1'), { message: 'configmap "c1" not found' });
  assert.equal((await get('c2')).metadata.name, 'c2');
});

test('auto: a refusal leaves each object its own watch, and the server is not asked again for a while', async (t) => {
  const { source, clock, objects, get, takeTold } = world(t, 'auto');
  for (const name of [...many, 'x', 'y']) source.put(named(name), {});
  source.refuse(({ name }) => name === undefined);
  objects.registerPod(podWith(many));
  await settle();
  assert.deepEqual(source.watched, watchesOf(many));
  for (const name of many) assert.equal(await get(name), source.current(named(name)));
  assert.equal(objects.ageOf('shop', 'c0'), 0, 'the refusal says nothing about the watches that work');
  const asked = (): number => source.requests.filter((request) => request === 'list shop').length;
  objects.registerPod(podWith(['x'], 'u2'));
  await settle();
  assert.equal(asked(), 1);
  await clock.advance(11 * minuteMs);
  source.refuse(() => false);
  objects.registerPod(podWith(['y'], 'u3'));
  await settle();
  assert.equal(asked(), 2);
  assert.deepEqual(source.watched, ['shop']);
  assert.deepEqual(await takeTold(), []);
});

test('auto: a right that is taken away later brings the single watches back, with all that changed meanwhile', async (t) => {
  const { source, objects, get, takeTold } = world(t, 'auto');
  for (const name of many) source.put(named(name), {});
  objects.registerPod(podWith(many));
  await settle();
  assert.deepEqual(source.watched, ['shop']);
  source.hold();
  source.refuse(({ name }) => name === undefined);
  await settle();
  assert.equal(await get('c0'), source.current(named('c0')), 'readable during the switch');
  source.put(named('c3'), { data: { key: 'new' } });
  source.remove(named('c4'));
  source.release();
  assert.deepEqual(await takeTold(), ['c3', 'c4']);
  assert.deepEqual(source.watched, watchesOf(many));
});

test('auto: an immutable object costs nothing in a shared watch, and its re-creation is told at once', async (t) => {
  const { source, clock, objects, get, takeTold } = world(t, 'auto');
  for (const name of many) source.put(named(name), { immutable: true });
  objects.registerPod(podWith(many));
  await settle();
  await get('c0');
  await clock.advance(10 * minuteMs);
  assert.deepEqual(source.watched, ['shop']);
  assert.ok(!source.requests.some((request) => request.startsWith('uid')));
  source.remove(named('c0'));
  source.put(named('c0'), { immutable: true });
  assert.deepEqual([...new Set(await takeTold())], ['c0']);
  assert.equal(await get('c0'), source.current(named('c0')));
});

test('a server that answers with other objects than those asked for makes no pod read them', async (t) => {
  const { source, objects, get } = world(t, 'object');
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
  await assert.rejects(get('a'), { message: 'configmap "a" not found' });
  const object = source.put(named('a'), {});
  source.release();
  await settle();
  assert.equal(await get('a'), object);
  for (const other of foreign) source.send(named('a'), { kind: 'deleted', object: other });
  await settle();
  assert.equal(await get('a'), object);
});

test('a relist of a server that was restored from a backup is believed although its versions are older', async (t) => {
  const { source, objects, get, takeTold } = world(t, 'object');
  for (let version = 0; version < 9; version += 1) source.put(named('a'), {});
  objects.registerPod(podWith(['a']));
  await get('a');
  const restored = { metadata: { name: 'a', namespace: 'shop', uid: 'uid-1', resourceVersion: '3' } };
  source.send(named('a'), { kind: 'replaced', objects: [restored], resourceVersion: '4' });
  assert.deepEqual(await takeTold(), ['a']);
  assert.equal(await get('a'), restored);
});

test('a source that breaks is started again, later each time', async (t) => {
  const { source, clock, objects, get } = world(t, 'object');
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
  const { source, objects, get } = world(t, 'object');
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
