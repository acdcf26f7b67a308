import { managedSecrets } from './object-manager.ts';
import { ttlMsOfNode, CachedObjects } from './cached-objects.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { Secret } from '../kube/kinds/secret.ts';
import { aNode, aPod } from '../testing/fakes/builders.ts';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import { ScriptedObjectSource, present } from '../testing/fakes/scripted-object-source.ts';

const minuteMs = 60_000;
const a = { namespace: 'shop', name: 'a' };

function podWith(secrets: readonly string[], uid = 'u1', namespace = 'shop'): Pod {
  return aPod({ metadata: { uid, namespace }, imagePullSecrets: secrets.map((name) => ({ name })) });
}

function nodeWithTtl(ttl: string | undefined): Node {
  const node = aNode();
  return ttl === undefined
    ? node
    : { ...node, metadata: { ...node.metadata, annotations: { 'node.alpha.kubernetes.io/ttl': ttl } } };
}

function world(ttl?: string) {
  const source = new ScriptedObjectSource<Secret>();
  const clock = new FakeClock();
  const setting = { node: nodeWithTtl(ttl) as Node | undefined };
  const objects = new CachedObjects(managedSecrets, { source, clock, ownNode: () => setting.node });
  const get = (name: string, namespace = 'shop'): Promise<Secret> =>
    present(objects.get(namespace, name, new AbortController().signal));
  const requestsOf = async (work: () => Promise<unknown>): Promise<readonly string[]> => {
    source.requests.length = 0;
    await work();
    return [...source.requests];
  };
  return { source, clock, setting, objects, get, requestsOf };
}

test('adding references asks for nothing; only get does', async () => {
  const { source, objects, get, requestsOf } = world();
  source.put(a, {});
  assert.deepEqual(await requestsOf(async () => objects.registerPod(podWith(['a', 'b']))), []);
  assert.deepEqual(await requestsOf(() => get('a')), ['get shop/a']);
});

test('what is not registered, or released, cannot be had, and nothing is asked', async () => {
  const { source, objects, get, requestsOf } = world();
  source.put(a, {});
  const notRegistered = { message: 'object "shop"/"a" not registered' };
  assert.deepEqual(await requestsOf(() => assert.rejects(get('a'), notRegistered)), []);
  objects.registerPod(podWith(['a']));
  objects.registerPod(podWith(['a'], 'u2'));
  objects.unregisterPod(podWith([]));
  await get('a');
  await assert.rejects(get('a', 'bank'), { message: 'object "bank"/"a" not registered' });
  objects.unregisterPod(podWith([], 'u2'));
  assert.deepEqual(await requestsOf(() => assert.rejects(get('a'), notRegistered)), []);
});

for (const { ttl, requests } of [
  { ttl: '0', requests: 100 },
  { ttl: '60', requests: 10 },
]) {
  test(`with a time to live of ${ttl} s, 100 reads of 10 objects at once ask ${requests} times`, async () => {
    const { source, objects, get, requestsOf } = world(ttl);
    const names = Array.from({ length: 10 }, (_, index) => `s${index}`);
    for (const name of names) source.put({ namespace: 'shop', name }, {});
    objects.registerPod(podWith(names));
    const asked = await requestsOf(() =>
      Promise.all(names.flatMap((name) => Array.from({ length: 10 }, () => get(name)))),
    );
    assert.equal(asked.length, requests);
  });
}

test('reads of one object take turns, and those of another do not wait for them', async () => {
  const { source, objects, get } = world('0');
  source.put(a, {});
  source.put({ namespace: 'shop', name: 'b' }, {});
  objects.registerPod(podWith(['a', 'b']));
  let proceed: (() => void) | undefined;
  let asking = 0;
  source.whileGetting(async (object) => {
    if (object?.metadata.name !== 'a') return;
    asking += 1;
    await new Promise<void>((resolve) => (proceed = resolve));
    asking -= 1;
  });
  const reads = [get('a'), get('a')];
  await get('b');
  assert.equal(asking, 1);
  proceed?.();
  await settle();
  assert.equal(asking, 1);
  proceed?.();
  await Promise.all(reads);
});

test('a reader that gives up while it waits for its turn leaves the others alone', async () => {
  const { source, objects, get } = world('0');
  source.put(a, {});
  objects.registerPod(podWith(['a']));
  let proceed: (() => void) | undefined;
  source.whileGetting(() => new Promise<void>((resolve) => (proceed = resolve)));
  const first = get('a');
  const impatient = new AbortController();
  const second = objects.get('shop', 'a', impatient.signal);
  impatient.abort(new Error('enough'));
  await assert.rejects(second, /enough/);
  source.whileGetting(undefined);
  proceed?.();
  await first;
  await get('a');
});

test('the time to live may change between reads, and the last moment counts as over', async () => {
  const { source, clock, setting, objects, get, requestsOf } = world('0');
  source.put(a, {});
  objects.registerPod(podWith(['a']));
  const asks = async (): Promise<number> => (await requestsOf(() => get('a'))).length;
  assert.equal(await asks(), 1);
  assert.equal(await asks(), 1);
  setting.node = nodeWithTtl('300');
  assert.equal(await asks(), 0);
  await clock.advance(4 * minuteMs);
  assert.equal(await asks(), 0);
  await clock.advance(minuteMs);
  assert.equal(await asks(), 1);
  setting.node = nodeWithTtl(undefined);
  await clock.advance(55_000);
  assert.equal(await asks(), 0);
  await clock.advance(5_000);
  assert.equal(await asks(), 1);
});

test('the time to live is what the node says in whole seconds', () => {
  const cases: readonly (readonly [Node | undefined, number | undefined])[] = [
    [undefined, undefined],
    [nodeWithTtl(undefined), undefined],
    [{ ...aNode(), metadata: { name: 'n', annotations: { other: '5' } } }, undefined],
    [nodeWithTtl('bad'), undefined],
    [nodeWithTtl('1.5'), undefined],
    [nodeWithTtl(''), undefined],
    [nodeWithTtl('0'), 0],
    [nodeWithTtl('60'), 60_000],
  ];
  for (const [node, ttlMs] of cases) assert.equal(ttlMsOfNode(node), ttlMs);
});

test('a deleted object is missing at the next fetch, and asked for each time', async () => {
  const { source, clock, objects, get, requestsOf } = world();
  source.put(a, {});
  objects.registerPod(podWith(['a']));
  await get('a');
  source.remove(a);
  await get('a');
  await clock.advance(minuteMs);
  const missing = /not found/;
  assert.deepEqual(await requestsOf(() => assert.rejects(get('a'), missing)), ['get shop/a cached']);
  assert.deepEqual(await requestsOf(() => assert.rejects(get('a'), missing)), ['get shop/a']);
  source.goAway();
  await assert.rejects(get('a'), missing, '2.6: a cached NotFound is answered again');
  source.comeBack();
  source.put(a, {});
  assert.equal((await get('a')).metadata.name, 'a');
});

test('another error with nothing known is passed on', async () => {
  const { source, objects, get } = world();
  objects.registerPod(podWith(['a']));
  source.goAway(new Error('Expired'));
  await assert.rejects(get('a'), /Expired/);
  source.comeBack();
  await assert.rejects(get('a'), /not found/);
});

test('while the server is away the last object is answered, asked for each time', async () => {
  const { source, clock, objects, get, requestsOf } = world();
  const object = source.put(a, {});
  objects.registerPod(podWith(['a']));
  await get('a');
  source.goAway();
  await clock.advance(10 * minuteMs);
  assert.deepEqual(await requestsOf(async () => assert.equal(await get('a'), object)), ['get shop/a cached']);
  assert.deepEqual(await requestsOf(() => get('a')), ['get shop/a cached']);
  objects.registerPod(podWith(['a'], 'u2'));
  assert.equal(await get('a'), object, 'a new pod does not take the last known object away from the others');
  source.comeBack();
  const changed = source.put(a, { type: 'new' });
  assert.equal(await get('a'), changed);
});

test('an older answer never replaces a newer one, and is asked for again; without versions nothing is older', async () => {
  const { source, clock, objects, get, requestsOf } = world();
  objects.registerPod(podWith(['a']));
  source.put(a, {});
  const newer = source.put(a, {});
  assert.equal(await get('a'), newer);
  await clock.advance(minuteMs);
  const older = { metadata: { ...newer.metadata, resourceVersion: '1' } };
  const lagging = { get: () => Promise.resolve(older) };
  const real = source.get.bind(source);
  source.get = lagging.get;
  assert.equal(await get('a'), newer);
  source.get = () => Promise.resolve({ metadata: { name: 'a', namespace: 'shop', resourceVersion: '10' } });
  assert.equal((await get('a')).metadata.resourceVersion, '10', 'as numbers: 10 is newer than 2');
  source.get = real;
  assert.deepEqual(await requestsOf(() => get('a')), [], 'the newer answer was stamped');
});

test('an update fetches only what is new; another pod causes exactly its objects to be fetched again', async () => {
  const { source, objects, get, requestsOf } = world();
  for (const name of ['a', 'b', 'c']) source.put({ namespace: 'shop', name }, {});
  const readAll = (): Promise<unknown> => Promise.all(['a', 'b', 'c'].map((name) => get(name).catch(() => {})));
  objects.registerPod(podWith(['a', 'b']));
  await readAll();
  objects.registerPod(podWith(['a', 'b', 'c']));
  assert.deepEqual(await requestsOf(readAll), ['get shop/c']);
  objects.registerPod(podWith(['b'], 'u2'));
  assert.deepEqual(await requestsOf(readAll), ['get shop/b']);
  objects.registerPod(podWith(['b'], 'u2'));
  assert.deepEqual(await requestsOf(readAll), []);
});

test('a read under way is not disturbed by a registration', async () => {
  const { source, objects, get, requestsOf } = world();
  const object = source.put(a, {});
  objects.registerPod(podWith(['a']));
  let proceed: (() => void) | undefined;
  source.whileGetting(() => new Promise<void>((resolve) => (proceed = resolve)));
  const read = get('a');
  await settle();
  objects.registerPod(podWith(['a'], 'u2'));
  proceed?.();
  source.whileGetting(undefined);
  assert.equal(await read, object);
  assert.deepEqual(await requestsOf(() => get('a')), ['get shop/a']);
});

test('a fetch that finds another version notifies the listeners once', async () => {
  const { source, objects, get } = world('0');
  source.put(a, {});
  objects.registerPod(podWith(['a']));
  const stop = new AbortController();
  const told: string[] = [];
  const listening = (async () => {
    for await (const { namespace, name } of objects.changes(stop.signal)) told.push(`${namespace}/${name}`);
  })();
  await get('a');
  await get('a');
  assert.deepEqual(told, []);
  source.put(a, {});
  await get('a');
  await get('a');
  await settle();
  assert.deepEqual(told, ['shop/a']);
  source.remove(a);
  await assert.rejects(get('a'));
  await settle();
  assert.deepEqual(told, ['shop/a', 'shop/a']);
  stop.abort();
  await listening;
});

test('an immutable object is fetched again like any other', async () => {
  const { source, clock, objects, get } = world();
  source.put(a, { immutable: true });
  objects.registerPod(podWith(['a']));
  await get('a');
  source.remove(a);
  source.put(a, { immutable: true, data: { made: 'YW5ldw==' } });
  await clock.advance(minuteMs);
  assert.deepEqual((await get('a')).data, { made: 'YW5ldw==' });
});
