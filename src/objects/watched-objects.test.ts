import { managedConfigMaps, type ObjectNotice, type ObjectSource } from './object-manager.ts';
import { WatchedObjects } from './watched-objects.ts';
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { type TestContext, test } from 'node:test';
import { OperatingError } from '../base/errors.ts';
import { untilAborted } from '../base/abort.ts';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { aContainer, aPod } from '../testing/fakes/builders.ts';
import { FakeClock, settle, warningsOf } from '../testing/fakes/fake-clock.ts';
import { ScriptedObjectSource, present } from '../testing/fakes/scripted-object-source.ts';

const a = { namespace: 'shop', name: 'a' };
const secondMs = 1_000;
const minuteMs = 60_000;

/** A pod that reads the ConfigMaps when its container starts, and no later. */
function readingPod(names: readonly string[], uid = 'u1', namespace = 'shop'): Pod {
  const envFrom = names.map((name) => ({ configMapRef: { name } }));
  return aPod({ metadata: { uid, namespace }, containers: [aContainer({ envFrom })] });
}

/** A pod with a volume for each ConfigMap. */
function showingPod(names: readonly string[], uid = 'u1', namespace = 'shop'): Pod {
  return aPod({ metadata: { uid, namespace }, volumes: names.map((name) => ({ name, configMap: { name } })) });
}

function world(t: TestContext, { syncFrequencyMs = minuteMs / 5 }: { syncFrequencyMs?: number } = {}) {
  const source = new ScriptedObjectSource<ConfigMap>();
  const clock = new FakeClock();
  const notices: ObjectNotice[] = [];
  const notify = (notice: ObjectNotice): void => void notices.push(notice);
  const deps = { source, clock, random: () => 0, notify };
  const objects = new WatchedObjects(managedConfigMaps, deps, { syncFrequencyMs });
  const stop = new AbortController();
  const running = objects.run(stop.signal);
  const told: string[] = [];
  const listening = (async () => {
    for await (const { namespace, name } of objects.changes(stop.signal)) told.push(`${namespace}/${name}`);
  })();
  t.after(async () => {
    stop.abort();
    await Promise.all([running, listening]);
    assert.deepEqual(source.watched, [], 'a watch outlived its manager');
  });
  const get = (name: string, namespace = 'shop'): Promise<ConfigMap> =>
    present(objects.get(namespace, name, new AbortController().signal));
  /** What get says when a second goes by while it waits. */
  const getInTime = async (name: string): Promise<ConfigMap | string> => {
    const result = get(name).catch((error: unknown) => (error as Error).message);
    await settle();
    await clock.advance(secondMs);
    return result;
  };
  const takeTold = async (): Promise<readonly string[]> => {
    await settle();
    return told.splice(0);
  };
  return { source, clock, objects, get, getInTime, takeTold, notices, stop, running };
}

const notSynced = 'failed to sync configmap cache: timed out waiting for the condition';

test('the first reference makes one list and one watch, others none, and the last ends them', async (t) => {
  const { source, objects, get } = world(t);
  source.put(a, {});
  objects.registerPod(readingPod(['a']));
  await get('a');
  for (let index = 0; index < 20; index += 1) {
    objects.registerPod(readingPod(['a'], `other-${index}`));
    objects.unregisterPod(readingPod([], `other-${index}`));
  }
  await settle();
  assert.deepEqual(source.requests, ['list shop/a', 'watch shop/a']);
  objects.unregisterPod(readingPod([]));
  await settle();
  assert.deepEqual(source.requests, ['list shop/a', 'watch shop/a']);
  assert.deepEqual(source.watched, []);
  await assert.rejects(get('a'), { message: 'object "shop"/"a" not registered' });
});

test('an object of another namespace is not read, registered or not', async (t) => {
  const { source, objects, get } = world(t);
  source.put(a, { data: { whose: 'shop' } });
  source.put({ namespace: 'bank', name: 'a' }, { data: { whose: 'bank' } });
  objects.registerPod(readingPod(['a']));
  assert.deepEqual((await get('a')).data, { whose: 'shop' });
  await assert.rejects(get('a', 'bank'), { message: 'object "bank"/"a" not registered' });
  objects.registerPod(readingPod(['a'], 'u2', 'bank'));
  assert.deepEqual((await get('a', 'bank')).data, { whose: 'bank' });
});

test('missing, then added, then deleted', async (t) => {
  const { source, objects, get } = world(t);
  const read = (): Promise<ConfigMap | undefined> => objects.get('shop', 'a', AbortSignal.timeout(60_000));
  objects.registerPod(readingPod(['a']));
  assert.equal(await read(), undefined);
  const object = source.put(a, {});
  await settle();
  assert.equal(await get('a'), object);
  source.remove(a);
  await settle();
  assert.equal(await read(), undefined);
});

test('an object that no pod names is refused, and not answered as missing', async (t) => {
  const { objects } = world(t);
  await assert.rejects(objects.get('shop', 'a', AbortSignal.timeout(60_000)), { reason: 'ObjectNotRegistered' });
});

interface Immutability {
  readonly it: string;
  readonly first?: boolean;
  readonly later?: boolean;
  readonly isWatched: boolean;
}
const immutabilities: readonly Immutability[] = [
  { it: 'a mutable object is watched on', first: false, isWatched: true },
  { it: 'an object that is immutable at first is not watched after the first read', first: true, isWatched: false },
  { it: 'an object created later as immutable is not watched after it was read', later: true, isWatched: false },
  {
    it: 'an object that becomes immutable is not watched after it was read',
    first: false,
    later: true,
    isWatched: false,
  },
];
for (const { it, first, later, isWatched } of immutabilities) {
  test(it, async (t) => {
    const { source, objects, get } = world(t);
    if (first !== undefined) source.put(a, { immutable: first });
    objects.registerPod(readingPod(['a']));
    await settle();
    assert.deepEqual(source.watched, ['shop/a'], 'nothing but a read stops a watch');
    await get('a').catch(() => {});
    if (later !== undefined) source.put(a, { immutable: later });
    await settle();
    await get('a');
    await settle();
    assert.deepEqual(source.watched, isWatched ? ['shop/a'] : []);
    source.goAway();
    assert.equal((await get('a')).immutable, later ?? first);
  });
}

test('an idle watch is stopped, and the next read starts it again', async (t) => {
  const { source, clock, objects, get, notices } = world(t);
  const object = source.put(a, {});
  objects.registerPod(readingPod(['a']));
  await get('a');
  await clock.advance(2 * minuteMs);
  await settle();
  assert.deepEqual(source.watched, []);
  assert.deepEqual(notices, [{ kind: 'ObjectWatchStopped', resource: 'configmaps', id: a, because: 'idle' }]);
  assert.equal(await get('a'), object);
  assert.deepEqual(source.watched, ['shop/a']);
  assert.deepEqual(
    source.requests.filter((request) => request.startsWith('list')),
    ['list shop/a', 'list shop/a not before 1'],
  );
  for (let reads = 0; reads < 12; reads += 1) {
    await clock.advance(20 * secondMs);
    await get('a');
  }
  assert.deepEqual(source.watched, ['shop/a']);
});

test('the idle limit is five sync periods, and an object that was never read goes at the first check', async (t) => {
  const { source, clock, objects, get } = world(t, { syncFrequencyMs: minuteMs });
  source.put(a, {});
  objects.registerPod(readingPod(['a', 'never']));
  await get('a');
  await clock.advance(minuteMs);
  assert.deepEqual(source.watched, ['shop/a']);
  await clock.advance(4 * minuteMs);
  assert.deepEqual(source.watched, ['shop/a']);
  await clock.advance(minuteMs);
  await settle();
  assert.deepEqual(source.watched, []);
});

test('an object that a volume shows stays watched without reads, and is watched again when a volume comes', async (t) => {
  const { source, clock, objects, takeTold } = world(t);
  source.put(a, {});
  source.put({ ...a, name: 'b' }, {});
  objects.registerPod(showingPod(['a']));
  objects.registerPod(readingPod(['b'], 'u2'));
  await clock.advance(10 * minuteMs);
  assert.deepEqual(source.watched, ['shop/a']);
  source.put(a, { data: { key: 'new' } });
  assert.deepEqual(await takeTold(), ['shop/a']);
  source.put({ ...a, name: 'b' }, { data: { key: 'new' } });
  objects.registerPod(showingPod(['b'], 'u3'));
  await settle();
  assert.deepEqual(source.watched, ['shop/a', 'shop/b']);
  assert.deepEqual(await takeTold(), ['shop/b'], 'what changed while it was not watched is told');
});

test('old content is not answered after an idle stop while the server is slow', async (t) => {
  const { source, clock, objects, get, getInTime, takeTold } = world(t);
  source.put(a, { data: { key: 'old' } });
  objects.registerPod(readingPod(['a']));
  await get('a');
  await clock.advance(2 * minuteMs);
  source.hold();
  const changed = source.put(a, { data: { key: 'new' } });
  assert.equal(await getInTime('a'), notSynced);
  source.release();
  await settle();
  assert.deepEqual(await takeTold(), ['shop/a']);
  assert.equal(await get('a'), changed);
});

test('a watch that is started again waits for the end of the one before', async () => {
  const running: string[] = [];
  let end = (): void => {};
  const hasEnded = new Promise<void>((resolve) => (end = resolve));
  const source: ObjectSource<ConfigMap> = {
    get: () => Promise.reject(new Error('unused')),
    uidOf: () => Promise.resolve(undefined),
    async *watch(_, __, signal) {
      running.push('begin');
      yield { kind: 'replaced', objects: [], resourceVersion: '1' };
      await untilAborted(signal);
      await hasEnded;
      running.push('end');
    },
  };
  const clock = new FakeClock();
  const deps = { source, clock, random: () => 0, notify: () => {} };
  const objects = new WatchedObjects(managedConfigMaps, deps, { syncFrequencyMs: minuteMs });
  const stop = new AbortController();
  const background = objects.run(stop.signal);
  objects.registerPod(readingPod(['a']));
  await settle();
  objects.unregisterPod(readingPod(['a']));
  objects.registerPod(readingPod(['a']));
  await settle();
  assert.deepEqual(running, ['begin']);
  end();
  await settle();
  assert.deepEqual(running, ['begin', 'end', 'begin']);
  stop.abort();
  await background;
  assert.deepEqual(running, ['begin', 'end', 'begin', 'end']);
});

test('an object that the server refuses at first, because it does not know of the pod yet, is there when it does', async (t) => {
  const { source, objects, get, getInTime, takeTold } = world(t);
  source.put(a, {});
  source.refuse(() => true);
  objects.registerPod(showingPod(['a']));
  assert.equal(await getInTime('a'), notSynced);
  source.refuse(() => false);
  assert.deepEqual(await takeTold(), ['shop/a'], 'who was turned away is told');
  assert.equal((await get('a')).metadata.name, 'a');
});

test('a first list still under way is not stopped, and reads fail meanwhile', async (t) => {
  const { source, clock, objects, get, getInTime, takeTold } = world(t);
  source.put(a, {});
  source.hold();
  objects.registerPod(readingPod(['a']));
  assert.equal(await getInTime('a'), notSynced);
  await clock.advance(10 * minuteMs);
  assert.deepEqual(source.watched, ['shop/a']);
  assert.deepEqual(await takeTold(), []);
  source.release();
  assert.deepEqual(await takeTold(), ['shop/a'], 'who went away empty-handed is told when there is something');
  assert.equal((await get('a')).metadata.name, 'a');
});

test('a read that times out says what went wrong with the list', async (t) => {
  const { source, clock, objects, get } = world(t);
  source.goAway(new Error('no route to host'));
  objects.registerPod(readingPod(['a']));
  const read = get('a');
  const failed = assert.rejects(read, (error) => {
    assert.ok(error instanceof OperatingError && error.reason === 'ObjectNotSynced');
    assert.equal((error.cause as Error).message, 'no route to host');
    return true;
  });
  await settle();
  await clock.advance(secondMs);
  await failed;
});

test('a read ends when its caller gives up or the last reference goes', async (t) => {
  const { source, objects, get } = world(t);
  source.hold();
  objects.registerPod(readingPod(['a']));
  const caller = new AbortController();
  const given = objects.get('shop', 'a', caller.signal);
  const released = get('a');
  caller.abort(new Error('enough'));
  await assert.rejects(given, /enough/);
  objects.unregisterPod(readingPod([]));
  await assert.rejects(released, { message: 'object "shop"/"a" not registered' });
});

test('references are counted for each pod, and releasing what is not held does nothing', async (t) => {
  const { source, objects } = world(t);
  const reference = { ...a, podUid: 'u1', use: 'read' } as const;
  const isHeld = async (): Promise<boolean> => {
    await settle();
    return source.watched.includes('shop/a');
  };
  objects.releaseReference(reference);
  objects.addReference(reference);
  objects.addReference(reference);
  objects.releaseReference({ ...reference, podUid: 'u2' });
  objects.releaseReference({ ...reference, name: 'b' });
  objects.releaseReference({ ...reference, namespace: 'bank' });
  objects.releaseReference(reference);
  assert.ok(await isHeld());
  objects.releaseReference(reference);
  assert.ok(!(await isHeld()));
  objects.releaseReference(reference);
  objects.addReference(reference);
  assert.ok(await isHeld());
});

test('nothing is watched after the end, and later reads start nothing', async (t) => {
  const { source, objects, get, getInTime, stop, running } = world(t);
  const object = source.put(a, {});
  objects.registerPod(readingPod(['a']));
  await get('a');
  stop.abort();
  await running;
  assert.deepEqual(source.watched, []);
  assert.equal(await get('a'), object);
  objects.registerPod(readingPod(['b'], 'u2'));
  assert.equal(await getInTime('b'), notSynced);
  assert.deepEqual(source.watched, []);
});

test('every change is reported, an unchanged relist is not, nor is the first list to readers that already have it', async (t) => {
  const { source, objects, get, takeTold } = world(t);
  source.put(a, {});
  objects.registerPod(showingPod(['a']));
  await get('a');
  assert.deepEqual(await takeTold(), []);
  source.put(a, { data: { key: 'new' } });
  assert.deepEqual(await takeTold(), ['shop/a']);
  source.goAway();
  source.comeBack();
  assert.deepEqual(await takeTold(), []);
  source.goAway();
  source.remove(a);
  source.comeBack();
  assert.deepEqual(await takeTold(), ['shop/a']);
});

test('losing the server loses nothing: objects stay readable, and all catches up', async (t) => {
  const { source, clock, objects, get, takeTold } = world(t);
  const object = source.put(a, {});
  objects.registerPod(showingPod(['a']));
  await get('a');
  await clock.advance(minuteMs);
  source.goAway();
  await settle();
  await clock.advance(30 * minuteMs);
  assert.equal(await get('a'), object);
  const changed = source.put(a, { data: { key: 'new' } });
  source.comeBack();
  assert.deepEqual(await takeTold(), ['shop/a']);
  assert.equal(await get('a'), changed);
});

test('a connection that is lost and comes back without a gap leaves nothing to report', async (t) => {
  const { source, clock, objects, get, takeTold } = world(t);
  source.put(a, {});
  objects.registerPod(showingPod(['a']));
  await get('a');
  source.blink();
  await clock.advance(minuteMs);
  assert.deepEqual(await takeTold(), []);
});

test('after an idle stop the last known object is answered when the server is away', async (t) => {
  const { source, clock, objects, get, getInTime } = world(t);
  const object = source.put(a, {});
  objects.registerPod(readingPod(['a']));
  await get('a');
  await clock.advance(2 * minuteMs);
  source.goAway();
  assert.equal(await getInTime('a'), object);
});

test('an immutable object that was deleted and created again is noticed and reported', async (t) => {
  const { source, clock, objects, get, takeTold, notices } = world(t);
  source.put(a, { immutable: true, data: { key: 'old' } });
  objects.registerPod(showingPod(['a']));
  await get('a');
  await settle();
  assert.deepEqual(source.watched, []);
  await clock.advance(6 * minuteMs);
  await settle();
  assert.deepEqual(source.requests.slice(2), ['uid shop/a'], 'it is checked without being read');
  source.remove(a);
  const again = source.put(a, { immutable: true, data: { key: 'new' } });
  await clock.advance(6 * minuteMs);
  assert.deepEqual(await takeTold(), ['shop/a']);
  assert.ok(notices.some(({ kind }) => kind === 'ImmutableObjectReplaced'));
  assert.equal(await get('a'), again);
  await settle();
  assert.deepEqual(source.watched, []);
  source.remove(a);
  await clock.advance(6 * minuteMs);
  assert.deepEqual(await takeTold(), ['shop/a']);
  await assert.rejects(get('a'), /not found/);
  assert.deepEqual(source.watched, ['shop/a'], 'it may come back');
});

test('an immutable object stays readable when it cannot be checked', async (t) => {
  const { source, clock, objects, get, notices, takeTold } = world(t);
  const object = source.put(a, { immutable: true });
  objects.registerPod(showingPod(['a']));
  await get('a');
  source.goAway();
  await clock.advance(12 * minuteMs);
  assert.equal(await get('a'), object);
  assert.ok(notices.some(({ kind }) => kind === 'ObjectCheckFailed'));
  assert.deepEqual(await takeTold(), []);
});

test('a pod that is new to an immutable object does not start with the content of a deleted one', async (t) => {
  const { source, objects, get, takeTold } = world(t);
  source.put(a, { immutable: true, data: { key: 'old' } });
  objects.registerPod(showingPod(['a']));
  await get('a');
  source.remove(a);
  const again = source.put(a, { immutable: true, data: { key: 'new' } });
  objects.registerPod(showingPod(['a'], 'u2'));
  assert.equal(await get('a'), again);
  assert.deepEqual(await takeTold(), ['shop/a']);
});

test('many may read with one signal: nothing is taken for a leak, and no listener is left behind', async (t) => {
  const { source, objects } = world(t);
  source.put(a, {});
  source.hold();
  objects.registerPod(readingPod(['a']));
  const { signal } = new AbortController();
  const warnings = await warningsOf(async () => {
    const reads = Array.from({ length: 100 }, () => objects.get('shop', 'a', signal));
    source.release();
    await Promise.all(reads);
  });
  assert.deepEqual(warnings, []);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

test('a read whose caller has given up already does not wait', async (t) => {
  const { source, objects } = world(t);
  source.hold();
  objects.registerPod(readingPod(['a']));
  await assert.rejects(objects.get('shop', 'a', AbortSignal.abort(new Error('gone'))), { message: 'gone' });
});
