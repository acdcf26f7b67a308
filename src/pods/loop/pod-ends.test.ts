/** Whenever a pod is deleted, and whatever its launch does meanwhile: it ends, and nothing of it is left. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { RuntimeError } from '../../runtimes/runtime.ts';
import { aContainer, aPod } from '../../testing/fakes/builders.ts';
import { settle } from '../../testing/fakes/fake-clock.ts';
import { PodWorld } from '../../testing/worlds/pod-world.ts';
import { AttachLimitError, VolumesNotMountedError } from '../../volumes/waits.ts';

const uid = '5f3a7c3e-0000-4000-8000-000000000001';
const containers = [aContainer({ name: 'first' }), aContainer({ name: 'second' })];
const fresh = (): Pod => aPod({ containers, terminationGracePeriodSeconds: 30, status: { phase: 'Pending' } });

function markDeleted(world: PodWorld): void {
  const pod = world.api.find('web');
  if (pod === undefined) return;
  const deletion = { deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 30 };
  world.api.put({ ...pod, metadata: { ...pod.metadata, ...deletion } });
}

/** Without grace: the object is gone at once. */
function forceDelete(world: PodWorld): void {
  const pod = world.api.find('web');
  if (pod !== undefined) world.api.remove(pod);
}

const deletions: Readonly<Record<string, (world: PodWorld) => Promise<void>>> = {
  deleted: async (world) => markDeleted(world),
  'force-deleted': async (world) => forceDelete(world),
  'deleted and then force-deleted': async (world) => {
    markDeleted(world);
    await settle(3);
    forceDelete(world);
  },
  'deleted while the agent is restarted': async (world) => {
    markDeleted(world);
    await world.restart();
  },
};

const never = new Promise<void>(() => {});
const launches: Readonly<Record<string, (world: PodWorld) => void>> = {
  'starts at once': () => {},
  'does not heed the stop signal': ({ runtime }) => void runtime.deaf.add('first').add('second'),
  hangs: ({ runtime }) => void (runtime.launch = () => never),
  'hangs at the second container': ({ runtime }) =>
    void (runtime.launch = async (name) => {
      if (name === 'second') await never;
    }),
  fails: ({ runtime }) => void (runtime.launch = () => Promise.reject(new RuntimeError('no such program'))),
  'takes five seconds': ({ runtime, clock }) => void (runtime.launch = () => clock.sleep(5_000)),
  'starts five seconds later whatever happens': ({ runtime, clock }) => {
    runtime.startsLate = true;
    runtime.launch = () => clock.sleep(5_000);
  },
  'starts in a moment whatever happens': ({ runtime }) => {
    runtime.startsLate = true;
    runtime.launch = () => settle(2);
  },
  'cannot be stopped the first time': ({ runtime }) => {
    runtime.fail('stopContainer', new RuntimeError('busy'));
    runtime.fail('stopPod', new RuntimeError('busy'), new RuntimeError('busy'));
  },
  'cannot be made the first time': ({ runtime }) => runtime.fail('createContainer', new RuntimeError('busy')),
};

/** Its grace, and the time after which what failed is tried again. */
const secondsMax = 30 + 15;
/** Turns of the event loop between creation and deletion: after the last one both containers run. */
const moments = [0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 30];

for (const [launch, arrange] of Object.entries(launches)) {
  for (const [deletion, end] of Object.entries(deletions)) {
    test(`a pod that ${launch} and is ${deletion} at any moment leaves nothing`, async () => {
      for (const moment of moments) {
        const world = new PodWorld();
        arrange(world);
        world.api.put(fresh());
        await settle(moment);
        await end(world);
        for (let seconds = 0; seconds < secondsMax; seconds += 5) {
          await world.rest();
          await world.clock.advance(5_000);
        }
        await world.rest();
        const left = [
          world.api.find('web'),
          world.runtime.show(uid),
          world.loop.progress.stateOf(uid),
          world.loop.statusOf(uid),
        ];
        assert.deepEqual(left, [undefined, 'gone', undefined, undefined], `after ${moment} turns`);
        assert.equal(world.registered.size, 0);
        await world.stop();
      }
    });
  }
}

test('a container that was killed while it was launched ends with 137, and the others keep their grace', async () => {
  const world = new PodWorld();
  world.runtime.deaf.add('first');
  world.runtime.launch = async (name) => {
    if (name === 'second') await never;
  };
  world.api.put(fresh());
  await world.rest();
  assert.equal(world.runtime.show(uid), 'ready: second#0 created, first#0 running');
  markDeleted(world);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'ready: second#0 exited 137, first#0 running');
  const { containerStatuses = [] } = world.api.find('web')?.status ?? {};
  assert.equal(containerStatuses[0]?.state?.running !== undefined, true);
  await world.clock.advance(30_000);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'gone');
  await world.stop();
});

test('a force-deleted pod is killed at once, without hook and grace, and its status is no longer sent', async () => {
  const world = new PodWorld();
  const preStop = { exec: { command: ['bye'] } };
  world.runtime.deaf.add('main');
  world.runtime.fail('stopPod', ...Array.from({ length: 3 }, () => new RuntimeError('busy')));
  world.api.put({ ...fresh(), spec: { ...fresh().spec, containers: [aContainer({ lifecycle: { preStop } })] } });
  await world.rest();
  markDeleted(world);
  await world.rest();
  assert.ok(world.runtime.calls.includes('stopContainer main 30000'));
  forceDelete(world);
  // An API server does not let a node ask for a pod that is not there.
  world.api.failure = new Error('pods "web" is forbidden: no relationship found');
  await world.rest();
  assert.equal(world.runtime.calls.at(-1), 'stopContainer main 0');
  assert.match(world.runtime.show(uid), /main#0 exited 137/);
  await world.clock.advance(120_000);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'gone');
  assert.deepEqual([...new Set(world.notices.map(({ kind }) => kind))], ['PodStepFailed']);
  await world.stop();
});

test('a container that starts while its pod is cleaned up is ended: it may hold a volume that has to go', async () => {
  const world = new PodWorld();
  let started = (): void => {};
  world.runtime.startsLate = true;
  world.runtime.launch = () => new Promise((resolve) => (started = resolve));
  let unmounted = (): void => {};
  world.unmounting = new Promise((resolve) => (unmounted = resolve));
  world.api.put({ ...fresh(), spec: { ...fresh().spec, containers: [aContainer()] } });
  await world.rest();
  markDeleted(world);
  await world.rest();
  assert.equal(world.loop.progress.stateOf(uid), 'terminated');
  started();
  await world.rest();
  assert.match(world.runtime.show(uid), /^notReady: main#0 exited/);
  unmounted();
  await world.rest();
  assert.equal(world.runtime.show(uid), 'gone');
  await world.stop();
});

test('a static pod that is taken from its folder keeps its grace', async () => {
  const world = new PodWorld(['file']);
  const annotations = { 'kubernetes.io/config.hash': uid };
  world.list('file', [aPod({ metadata: { annotations }, terminationGracePeriodSeconds: 30 })]);
  await world.rest();
  world.list('file', []);
  await world.rest();
  assert.ok(world.runtime.calls.includes('stopContainer main 30000'));
  await world.stop();
});

test('a failure that the pod has an Event of is not reported in other words as well', async () => {
  const world = new PodWorld();
  const volumes = { unmounted: ['data'], unattached: [], unprocessed: ['data'] };
  world.mounting = Promise.reject(new VolumesNotMountedError(volumes, new Error('no volume plugin matched')));
  world.api.put(fresh());
  await world.rest();
  const text =
    'unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: no volume plugin matched';
  assert.deepEqual(world.events.lines(), [`Warning FailedMount Unable to attach or mount volumes: ${text}`]);
  const failed = world.notices.filter((notice) => notice.kind === 'PodStepFailed');
  assert.deepEqual(
    failed.map(({ message, hasEvent }) => [message, hasEvent]),
    [[text, true]],
  );
  await world.stop();
});

test('a pod whose volumes cannot be attached to this node any more fails for good, and says why', async () => {
  const world = new PodWorld();
  const volumes = { unmounted: ['data'], unattached: ['data'], unprocessed: [] };
  world.mounting = Promise.reject(new AttachLimitError(volumes, new Error('context deadline exceeded')));
  world.api.put(fresh());
  await world.rest();
  const text =
    'Node has reached its volume attachment limit, rejecting pod. ' +
    'unmounted volumes=[data], unattached volumes=[data], failed to process volumes=[]: context deadline exceeded';
  assert.deepEqual(world.events.lines(), [`Warning VolumeAttachmentLimitExceeded ${text}`]);
  const { phase, reason, message } = world.api.find('web')?.status ?? {};
  assert.deepEqual([phase, reason, message], ['Failed', 'VolumeAttachmentLimitExceeded', `Pod was rejected: ${text}`]);
  await world.restart();
  assert.equal(world.api.find('web')?.status?.phase, 'Failed');
  assert.deepEqual([world.events.lines().length, world.runtime.show(uid)], [1, 'gone'], 'nothing is tried again');
  await world.stop();
});
