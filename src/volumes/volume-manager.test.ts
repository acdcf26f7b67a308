/** What pod workers wait for and ask. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { ScriptedPlugin } from '../testing/fakes/scripted-plugin.ts';
import { VolumeWorld, claimVolume, plainVolume, podUsing } from '../testing/worlds/volume-world.ts';
import { type PodUid, asPodUid, asVolumeName } from './volume-name.ts';
import {
  AttachLimitError,
  PodsStillMountedError,
  VolumesNotMountedError,
  isDeadlineExceeded,
  isInterrupted,
} from './waits.ts';

const never = (): AbortSignal => new AbortController().signal;

async function errorOf(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    return error as Error;
  }
  return new Error('it did not fail');
}

test('the status of the node is due as soon as an attachable volume is wanted, and when it is gone', async (t) => {
  let inUse: readonly string[] = [];
  let told = 0;
  const node: Node = { metadata: { name: 'node-1' }, status: {} };
  const volumesInUseChanged = (): void => {
    told += 1;
    inUse = world.manager.queries.volumesInUse();
  };
  const reader = { name: 'node-1', current: () => node, read: async () => node, volumesInUseChanged };
  const disk = new ScriptedPlugin({ kind: 'attachable', byNodeAlone: true });
  const plugins = [disk, new ScriptedPlugin({ follows: () => [] })];
  const world = new VolumeWorld(t, { plugins, deps: { node: reader } });
  world.claims.bind('disk');
  await world.start();
  await world.put(podUsing('plain', [plainVolume('data')]));
  assert.equal(told, 0);
  await world.put(podUsing('web', [claimVolume('data', 'disk')]));
  assert.deepEqual(inUse, ['example.com/disk/disk']);
  await world.remove('web');
  assert.deepEqual(inUse, []);
});

test('a claim is mounted after the wait, and in use where it is attached', async (t) => {
  const disk = new ScriptedPlugin({ kind: 'attachable', byNodeAlone: true });
  const world = new VolumeWorld(t, { plugins: [disk] });
  world.claims.bind('disk');
  await world.start();
  const pod = podUsing('web', [claimVolume('data', 'disk')]);
  world.pods.put(pod);
  await world.manager.waitForMounted(pod, never());
  assert.deepEqual(world.states(), ['web/disk: mounted']);
  assert.deepEqual(world.manager.queries.volumesInUse(), ['example.com/disk/disk']);
});

test('a claim of the wrong mode is an error, not mounted and not in use', async (t) => {
  const disk = new ScriptedPlugin({ kind: 'attachable' });
  const world = new VolumeWorld(t, { plugins: [disk] });
  world.claims.bind('disk', { volumeMode: 'Block' });
  await world.start();
  const pod = podUsing('web', [claimVolume('data', 'disk')]);
  world.pods.put(pod);
  const error = await errorOf(world.manager.waitForMounted(pod, never()));
  assert.equal(
    error.message,
    'unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: ' +
      'volume data has volumeMode Block, but is specified in volumeMounts',
  );
  assert.equal(isInterrupted(error), false);
  assert.deepEqual(world.manager.queries.volumesInUse(), []);
});

test('the error lists what is unmounted, unattached and unprocessed, each sorted', async (t) => {
  const disk = new ScriptedPlugin({ kind: 'attachable' });
  const world = new VolumeWorld(t, { plugins: [disk] });
  for (const name of ['vol2', 'vol02']) world.claims.bind(name);
  await world.start();
  const pod = podUsing(
    'web',
    ['vol3', 'vol2', 'vol03', 'vol02'].map((name) => claimVolume(name)),
  );
  world.pods.put(pod);
  const { message } = await errorOf(world.manager.waitForMounted(pod, never()));
  assert.equal(
    message,
    'unmounted volumes=[vol02 vol03 vol2 vol3], unattached volumes=[vol02 vol2], failed to process volumes=[vol03 vol3]: ' +
      'error processing PVC shop/vol03: failed to fetch PVC from API server: persistentvolumeclaims "vol03" not found; ' +
      'error processing PVC shop/vol3: failed to fetch PVC from API server: persistentvolumeclaims "vol3" not found',
  );
});

test('a node that can attach no more says so, with the lists and the deadline', async (t) => {
  const disk = new ScriptedPlugin({ kind: 'attachable' });
  const world = new VolumeWorld(t, { plugins: [disk] });
  world.claims.bind('disk');
  disk.isLimitReached = true;
  await world.start();
  const pod = podUsing('web', [claimVolume('data', 'disk')]);
  world.pods.put(pod);
  const waiting = errorOf(world.manager.waitForMounted(pod, never()));
  await world.advance(123_000);
  const error = await waiting;
  assert.ok(error instanceof AttachLimitError);
  assert.equal(error.reason, 'VolumeAttachmentLimitExceeded');
  assert.equal(
    error.message,
    'Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[data], unattached volumes=[data], failed to process volumes=[]: context deadline exceeded',
  );
  assert.equal(isDeadlineExceeded(error), true);
});

test('a claim that is bound later is mounted by a later wait', async (t) => {
  const world = new VolumeWorld(t);
  world.claims.bind('disk');
  const claim = world.claims.claims.get('disk');
  assert.ok(claim !== undefined);
  world.claims.claims.set('disk', { ...claim, status: { phase: 'Pending' } });
  await world.start();
  const pod = podUsing('web', [claimVolume('data', 'disk')]);
  world.pods.put(pod);
  const { message } = await errorOf(world.manager.waitForMounted(pod, never()));
  assert.match(message, /: error processing PVC shop\/disk: PVC is not bound$/);
  world.claims.claims.set('disk', claim);
  await world.manager.waitForMounted(pod, never());
  assert.deepEqual(world.states(), ['web/disk: mounted']);
});

for (const { it, gid, own, groups } of [
  { it: 'a group', gid: '777', own: [], groups: [777] },
  { it: 'a group that the pod has', gid: '777', own: [777], groups: [] },
  { it: 'no number', gid: 'wheel', own: [], groups: [] },
  { it: 'nothing', gid: '', own: [], groups: [] },
]) {
  test(`${it} gives the pod ${JSON.stringify(groups)}`, async (t) => {
    const world = new VolumeWorld(t);
    for (const name of ['a', 'b']) world.claims.bind(name, {}, { annotations: { 'pv.beta.kubernetes.io/gid': gid } });
    await world.start();
    const pod = podUsing('web', [claimVolume('a'), claimVolume('b')], { securityContext: { supplementalGroups: own } });
    await world.put(pod);
    assert.deepEqual(world.manager.queries.extraSupplementalGroups(pod), groups);
  });
}

for (const { it, reason, text, isDeadline } of [
  { it: 'gives up', reason: new Error('enough'), text: 'context canceled', isDeadline: false },
  {
    it: 'has no more time',
    reason: new DOMException('late', 'TimeoutError'),
    text: 'context deadline exceeded',
    isDeadline: true,
  },
]) {
  test(`both waits end at once when the caller ${it}`, async (t) => {
    const world = new VolumeWorld(t);
    await world.start();
    const [starting, stopping] = [podUsing('new', [plainVolume('data')]), podUsing('old', [plainVolume('data')])];
    await world.put(stopping);
    world.plain.hold('setUp');
    world.pods.put(starting);
    const caller = new AbortController();
    const mountWait = errorOf(world.manager.waitForMounted(starting, caller.signal));
    await world.settle();
    const waits = [mountWait, errorOf(world.manager.waitForUnmounted(stopping, caller.signal))];
    await world.settle();
    caller.abort(reason);
    const [mounting, unmounting] = await Promise.all(waits);
    assert.equal(
      mounting?.message,
      `unmounted volumes=[data], unattached volumes=[], failed to process volumes=[]: ${text}`,
    );
    assert.equal(unmounting?.message, `mounted volumes=[example.com/plain/old-data]: ${text}`);
    for (const error of [mounting, unmounting]) {
      assert.deepEqual([isInterrupted(error), isDeadlineExceeded(error)], [true, isDeadline]);
    }
  });
}

test('each stuck pod is one error with its own volume, and pods without volumes are none', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  const pods = [podUsing('one', [plainVolume('a')]), podUsing('two', [plainVolume('b')]), podUsing('three', [])];
  await world.put(...pods);
  const caller = new AbortController();
  const waiting = errorOf(world.manager.waitForAllUnmounted(pods, caller.signal));
  caller.abort(new DOMException('late', 'TimeoutError'));
  const error = await waiting;
  assert.ok(error instanceof PodsStillMountedError);
  assert.equal(
    error.message,
    '[mounted volumes=[example.com/plain/one-a]: context deadline exceeded, mounted volumes=[example.com/plain/two-b]: context deadline exceeded]',
  );
  assert.equal(error.errors.length, 2);
  assert.equal(isDeadlineExceeded(error), true);
  await world.manager.waitForAllUnmounted([], never());
});

test('waits end with the event that they are for', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  const pod = podUsing('web', [plainVolume('data')]);
  const hold = world.plain.hold('setUp');
  world.pods.put(pod);
  let isMounted = false;
  const waiting = world.manager.waitForMounted(pod, never()).then(() => (isMounted = true));
  await hold.arrived;
  await world.settle();
  assert.equal(isMounted, false);
  hold.release();
  await waiting;
  const gone = world.manager.waitForUnmounted(pod, never());
  const released = world.manager.waitForReleased(asPodUid('web'), never());
  await world.remove('web');
  await Promise.all([gone, released]);
  assert.equal(world.manager.queries.hasPossiblyMounted(asPodUid('web')), false);
});

test('a wait ends after two minutes and three seconds, not earlier', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  const pod = podUsing('web', [plainVolume('data')]);
  world.plain.hold('setUp');
  world.pods.put(pod);
  let isOver = false;
  const waiting = errorOf(world.manager.waitForMounted(pod, never())).finally(() => (isOver = true));
  await world.advance(122_999);
  assert.equal(isOver, false);
  await world.advance(1);
  assert.ok((await waiting) instanceof VolumesNotMountedError);
});

test('waits are rejected when the node stops', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  const pod = podUsing('web', [plainVolume('data')]);
  world.plain.script('setUp', new Error('not yet'));
  world.pods.put(pod);
  const waiting = errorOf(world.manager.waitForMounted(pod, never()));
  await world.settle();
  await world.stop();
  assert.equal(isInterrupted(await waiting), true);
});

test('an uncertain mount does not hold up an unmount, but does hold up a release', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  const pod = podUsing('web', [plainVolume('data')]);
  await world.put(pod);
  world.plain.script('tearDown', new Error('busy'));
  await world.remove('web');
  await world.manager.waitForUnmounted(pod, never());
  let isReleased = false;
  const released = world.manager.waitForReleased(asPodUid('web'), never()).then(() => (isReleased = true));
  let areReleased = false;
  const all = world.manager.waitForAllReleased(never()).then(() => (areReleased = true));
  await world.manager.waitForAllReleased(AbortSignal.abort());
  await world.settle();
  assert.deepEqual([isReleased, areReleased], [false, false]);
  await world.advance(501);
  await released;
  await all;
});

test('waiting for a pod without volumes returns at once, and the pod is not resolved', async (t) => {
  const world = new VolumeWorld(t);
  await world.manager.waitForMounted(podUsing('web', []), never());
  assert.deepEqual(world.states(), []);
});

test('a mounted volume is known by all names that the pod has for it', async (t) => {
  const world = new VolumeWorld(t);
  world.claims.bind('disk');
  await world.start();
  await world.put(
    podUsing('web', [claimVolume('one', 'disk'), claimVolume('two', 'disk', true), plainVolume('other')]),
  );
  const volumes = [...world.manager.queries.mountedVolumesOf(asPodUid('web'))].map(
    ([name, { path, readOnly, specName, mode }]) => [name, path, specName, readOnly, mode],
  );
  const directory = '/root/pods/web/volumes';
  assert.deepEqual(volumes, [
    ['one', `${directory}/example.com~disk/disk`, 'disk', true, 'Filesystem'],
    ['two', `${directory}/example.com~disk/disk`, 'disk', true, 'Filesystem'],
    ['other', `${directory}/example.com~plain/other`, 'other', false, 'Filesystem'],
  ]);
  assert.deepEqual([...world.manager.queries.mountedVolumesOf('nobody' as PodUid)], []);
});

test('volumes are counted by plugin and state, and failures are listed on request', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  world.plain.script('setUp', new Error('no such thing'));
  await world.put(podUsing('web', [plainVolume('a'), plainVolume('b')]));
  assert.deepEqual(
    world.manager.queries.counts().map(({ plugin, state, count }) => `${plugin} ${state} ${count}`),
    ['example.com/plain actual_state_of_world 1', 'example.com/plain desired_state_of_world 2'],
  );
  const [a, b] = world.manager.queries.statuses();
  assert.match(a?.lastError ?? '', /MountVolume\.SetUp failed for volume "a" .* : no such thing$/);
  assert.equal(a?.retryAt, world.clock.now() + 500);
  assert.equal(b?.lastError, undefined);
  assert.equal(world.manager.queries.isAttached(asVolumeName('example.com/plain/web-a')), true);
});

test('a bug in the look at one pod costs that pod a retry, and the others nothing', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  const find = world.pods.pod.bind(world.pods);
  let planted = 0;
  world.pods.pod = (uid) => {
    if (uid === asPodUid('bad') && (planted += 1) === 1) assert.fail('planted');
    return find(uid);
  };
  await world.put(podUsing('bad', [plainVolume('data')]), podUsing('good', [plainVolume('data')]));
  assert.deepEqual(world.states(), ['good/data: mounted']);
  const failed = world.notices.find(({ kind }) => kind === 'TaskFailed');
  assert.ok(failed?.kind === 'TaskFailed' && failed.task === 'volumes of pod bad');
  await world.advance(100);
  assert.deepEqual(world.states(), ['bad/data: mounted', 'good/data: mounted']);
});

test('a volume that cannot be planned holds up no other; a broken invariant ends the manager', async (t) => {
  let failure: Error | undefined = new TypeError('planted');
  const volumesAttached = ['disk', 'next'].map((name) => ({ name: `example.com/disk/${name}`, devicePath: '/dev/x' }));
  const node: Node = { metadata: { name: 'node-1' }, status: { volumesAttached } };
  const current = (): Node => {
    if (failure !== undefined) throw failure;
    return node;
  };
  const world = new VolumeWorld(t, {
    plugins: [new ScriptedPlugin({ kind: 'attachable' }), new ScriptedPlugin({ follows: () => [] })],
    deps: { node: { name: 'node-1', current, read: async () => node } },
  });
  for (const name of ['disk', 'next']) world.claims.bind(name);
  const ended = world.manager.run(new AbortController().signal);
  const putReported = async (...pods: readonly Pod[]): Promise<void> => {
    await world.put(...pods);
    world.manager.markReportedInUse(volumesAttached.map(({ name }) => name));
    world.manager.nodeChanged();
    await world.settle();
  };
  await putReported(podUsing('bad', [claimVolume('data', 'disk')]), podUsing('good', [plainVolume('data')]));
  assert.deepEqual(world.states(), ['bad/disk: not-mounted', 'good/data: mounted']);
  assert.ok(world.notices.some((notice) => notice.kind === 'TaskFailed' && notice.error === failure));
  failure = undefined;
  await world.advance(10_000);
  assert.deepEqual(world.states(), ['bad/disk: mounted', 'good/data: mounted']);
  failure = new assert.AssertionError({ message: 'broken' });
  const rejected = assert.rejects(ended, { message: 'broken' });
  await putReported(podUsing('last', [claimVolume('next')]));
  await rejected;
});

test('when the API server is back, what failed for lack of it is tried at once', async (t) => {
  const world = new VolumeWorld(t);
  await world.start();
  // After the seventh failure it waits for 32 s.
  world.plain.script('setUp', ...Array.from({ length: 7 }, () => new Error('no token')));
  await world.put(podUsing('web', [plainVolume('data')]));
  await world.advance(35_000);
  assert.doesNotMatch(world.states()[0] ?? '', /: mounted/);
  world.manager.retryNow();
  await world.settle();
  assert.deepEqual(world.states(), ['web/data: mounted']);
});
