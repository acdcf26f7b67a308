/** What is left of containers and pods that have ended, and when it goes; how the node ends a pod that it cannot keep. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type RuntimeContainer, RuntimeError } from '../../runtimes/runtime.ts';
import { aContainer, aPod } from '../../testing/fakes/builders.ts';
import { PodWorld } from '../../testing/worlds/pod-world.ts';
import { DeadContainers, surplusContainers } from '../containers/dead-containers.ts';

const uid = '5f3a7c3e-0000-4000-8000-000000000001';

/** `main#2 exited`, newest first. */
function containers(...texts: readonly string[]): readonly RuntimeContainer[] {
  return texts.map((text) => {
    const [name = '', attempt = '', kind = ''] = text.split(/[# ]/);
    const state = {
      kind,
      createdAtMs: Number(attempt),
      startedAtMs: 0,
      finishedAtMs: 0,
      exitCode: 0,
      reason: '',
      message: '',
    };
    return {
      id: `${name}#${attempt}`,
      name,
      attempt: Number(attempt),
      image: '',
      imageId: '',
      state: state as unknown as RuntimeContainer['state'],
      logPath: `/logs/${name}/${attempt}.log`,
      labels: {},
      annotations: {},
    };
  });
}

const surplus: readonly { readonly it: string; readonly has: readonly string[]; readonly removes: string }[] = [
  { it: 'keeps the newest of each name', has: ['a#1 exited', 'b#0 exited', 'a#0 exited'], removes: 'a#0' },
  {
    it: 'removes the oldest first',
    has: ['a#3 exited', 'a#2 exited', 'a#1 exited', 'a#0 exited'],
    removes: 'a#0 a#1 a#2',
  },
  { it: 'never takes a running one', has: ['a#2 running', 'a#1 exited', 'a#0 exited'], removes: 'a#0' },
  { it: 'does not count one that is about to start', has: ['a#1 created', 'a#0 exited'], removes: '' },
  {
    it: 'takes one that never started and was replaced',
    has: ['a#2 running', 'a#1 created', 'a#0 created'],
    removes: 'a#0',
  },
  { it: 'takes those of which the runtime lost track', has: ['a#2 exited', 'a#1 unknown'], removes: 'a#1' },
];
for (const { it, has, removes } of surplus) {
  test(`surplusContainers ${it}`, () => {
    assert.equal(
      surplusContainers(containers(...has))
        .map(({ id }) => id)
        .join(' '),
      removes,
    );
  });
}

test('a container goes after its log, and stays when its log cannot be removed; the others go nevertheless', async () => {
  const steps: string[] = [];
  const dead = new DeadContainers({
    runtime: {
      removeContainer: async (id) => void steps.push(`remove ${id}`),
      stopContainer: async (id, graceMs) => void steps.push(`stop ${id} in ${graceMs}`),
    },
    files: {
      removeLog: async (path) => {
        if (path === '/logs/a/0.log') throw new Error('read-only');
        steps.push(`log ${path}`);
      },
    },
  });
  const has = containers('a#2 exited', 'b#1 exited', 'b#0 unknown', 'a#0 exited');
  const pod = { uid, namespace: '', name: '', state: 'notReady', createdAtMs: 0, ips: [], containers: has } as const;
  await assert.rejects(dead.removeSurplus(pod, new AbortController().signal), { message: 'read-only' });
  assert.deepEqual(steps, ['stop b#0 in 2000', 'log /logs/b/0.log', 'remove b#0']);
});

const eviction = {
  message: 'The node was low on resource: ephemeral-storage. ',
  graceSeconds: 1,
  annotations: { starved_resource: 'ephemeral-storage' },
};

test('an evicted pod fails for good, its owner is told why, and what it used goes though it is not deleted', async () => {
  const world = new PodWorld();
  world.runtime.deaf.add('main');
  const pod = aPod({ containers: [aContainer()], status: { phase: 'Pending' } });
  world.api.put(pod);
  await world.rest();
  world.loop.evict(world.loop.pod(uid) ?? pod, { ...eviction, isDisruption: true });
  await world.rest();
  const running = world.api.find('web')?.status;
  assert.equal(running?.phase, 'Running', 'a container still runs');
  assert.equal(
    running?.conditions?.some(({ type }) => type === 'DisruptionTarget'),
    false,
  );
  await world.clock.advance(2_000);
  await world.rest();
  const status = world.api.find('web')?.status;
  assert.deepEqual([status?.phase, status?.reason, status?.message], ['Failed', 'Evicted', eviction.message]);
  const { lastTransitionTime, ...condition } =
    status?.conditions?.find(({ type }) => type === 'DisruptionTarget') ?? {};
  assert.ok(lastTransitionTime !== undefined);
  assert.deepEqual(condition, {
    type: 'DisruptionTarget',
    status: 'True',
    reason: 'TerminationByKubelet',
    message: eviction.message,
  });
  const event = world.events.events.find(({ reason }) => reason === 'Evicted');
  assert.deepEqual(
    [event?.type, event?.message, event?.annotations],
    ['Warning', eviction.message, eviction.annotations],
  );
  assert.equal(world.runtime.show(uid), 'gone');
  await world.restart();
  assert.equal(world.api.find('web')?.status?.reason, 'Evicted');
  await world.stop();
});

test('a pod that broke its own limits has no condition for it', async () => {
  const world = new PodWorld();
  const pod = aPod({ containers: [aContainer()], status: { phase: 'Pending' } });
  world.api.put(pod);
  await world.rest();
  world.loop.evict(pod, { ...eviction, isDisruption: false });
  await world.rest();
  const status = world.api.find('web')?.status;
  assert.equal(status?.reason, 'Evicted');
  assert.equal(
    status?.conditions?.some(({ type }) => type === 'DisruptionTarget'),
    false,
  );
  await world.stop();
});

test('what is left of a finished pod stays until a disk is short', async () => {
  const world = new PodWorld();
  world.api.put(aPod({ containers: [aContainer()], restartPolicy: 'Never', status: { phase: 'Pending' } }));
  await world.rest();
  world.runtime.exit(uid, 'main', 0);
  await world.rest();
  await world.clock.advance(61_000);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'notReady: main#0 exited 0');
  await world.loop.removeFinished(new AbortController().signal);
  assert.equal(world.runtime.show(uid), 'gone');
  const { phase, containerStatuses = [] } = world.api.find('web')?.status ?? {};
  assert.equal(phase, 'Succeeded');
  assert.equal(containerStatuses[0]?.state?.terminated?.exitCode, 0);
  await world.restart();
  assert.equal(world.api.find('web')?.status?.phase, 'Succeeded');
  await world.stop();
});

test('logs of unknown pods go when every source was read, and not before', async () => {
  const world = new PodWorld(['api', 'file']);
  world.files.podLogs.add('unknown').add(uid);
  world.api.put(aPod({ containers: [aContainer()], status: { phase: 'Pending' } }));
  await world.rest();
  await world.clock.advance(120_000);
  await world.rest();
  assert.deepEqual([...world.files.podLogs], ['unknown', uid]);
  world.list('file', []);
  await world.rest();
  assert.deepEqual([...world.files.podLogs], [uid]);
  await world.stop();
});

test('a runtime that cannot be listed is an Event of the node', async () => {
  const world = new PodWorld();
  world.api.put(aPod({ containers: [aContainer()], status: { phase: 'Pending' } }));
  await world.rest();
  world.runtime.fail('list', new RuntimeError('runtime is away'));
  await world.clock.advance(61_000);
  await world.rest();
  assert.deepEqual(world.nodeEvents, ['ContainerGCFailed: runtime is away']);
  await world.stop();
});
