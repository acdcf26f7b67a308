import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { RuntimePod } from '../../runtimes/runtime.ts';
import { aPod } from '../../testing/fakes/builders.ts';
import { FakeClock, settle } from '../../testing/fakes/fake-clock.ts';
import { RecordedEvents } from '../../testing/fakes/memory-pod-api.ts';
import { ContainerStartError } from '../containers/start-errors.ts';
import { effectiveGrace } from './pod-worker.ts';
import { PodProgress } from './pod-progress.ts';
import { PodWorkers } from './pod-workers.ts';
import { requeueDelayMs } from './pod-worker.ts';

type StepOutcome = Parameters<typeof requeueDelayMs>[0];

interface World {
  readonly workers: PodWorkers;
  readonly history: string[];
  readonly clock: FakeClock;
  readonly events: RecordedEvents;
  readonly runtimePods: Map<string, RuntimePod>;
  /** What the next steps of this name do instead of succeeding at once. */
  readonly steps: Map<string, (signal: AbortSignal) => Promise<unknown>>;
  readonly stop: AbortController;
}

function aWorld(): World {
  const clock = new FakeClock();
  const history: string[] = [];
  const events = new RecordedEvents();
  const runtimePods = new Map<string, RuntimePod>();
  const steps: World['steps'] = new Map();
  const stop = new AbortController();
  const act = async (name: string, uid: string | undefined, signal: AbortSignal): Promise<unknown> => {
    history.push(`${name} ${uid}`);
    return await steps.get(name.split(' ')[0] ?? '')?.(signal);
  };
  const workers = new PodWorkers(
    {
      progress: new PodProgress(),
      clock,
      events,
      random: () => 0,
      newest: () => undefined,
      notify: () => {},
      moved: () => {},
      runtime: { get: async (uid) => ((await steps.get('get')?.(stop.signal)) as undefined) ?? runtimePods.get(uid) },
      steps: {
        sync: async ({ metadata }, _runtimePod, signal) => (await act('sync', metadata.uid, signal)) === 'terminal',
        deadlineMs: () => undefined,
        terminate: async ({ metadata }, _runtimePod, { graceSeconds }, signal) => {
          await act(`terminate ${graceSeconds}`, metadata.uid, signal);
        },
        terminateOrphan: async ({ uid }, graceSeconds, signal) => {
          await act(`orphan ${graceSeconds}`, uid, signal);
        },
        cleanUp: async ({ metadata }, _runtimePod, signal) => {
          await act('cleanUp', metadata.uid, signal);
        },
      },
    },
    { resyncMs: 60_000, retryMs: 10_000 },
    stop.signal,
  );
  return { workers, history, clock, events, runtimePods, steps, stop };
}

function pod(uid: string, metadata: Pod['metadata'] | object = {}, phase?: string): Pod {
  const status = phase === undefined ? {} : { status: { phase } };
  return aPod({ metadata: { uid, ...metadata }, terminationGracePeriodSeconds: 30, ...status });
}

const staticPod = (uid: string): Pod => pod(uid, { annotations: { 'kubernetes.io/config.source': 'file' } });

function runtimePodOf(uid: string, state: RuntimePod['state'] = 'ready'): RuntimePod {
  return { uid, namespace: 'shop', name: 'web', state, createdAtMs: 0, ips: [], containers: [] };
}

/** A step that waits until the test lets it go, or its signal aborts. */
function gate(): { step: (signal: AbortSignal) => Promise<void>; open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return {
    open: () => open(),
    step: (signal) =>
      Promise.race([
        opened,
        new Promise<void>((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      ]),
  };
}

test('a pod is synced, and again after the resync period', async () => {
  const { workers, history, clock, stop } = aWorld();
  workers.update({ kind: 'create', pod: pod('a') });
  await settle();
  await clock.advance(59_999);
  assert.deepEqual(history, ['sync a']);
  await clock.advance(1);
  await settle();
  assert.deepEqual(history, ['sync a', 'sync a']);
  stop.abort();
  await workers.settled();
});

test('a create, a kill and an update that come together end the pod; the kill is never lost', async () => {
  const { workers, history, stop } = aWorld();
  workers.update({ kind: 'create', pod: pod('a') });
  workers.update({ kind: 'kill', pod: pod('a') });
  workers.update({ kind: 'update', pod: pod('a') });
  await settle();
  assert.deepEqual(history, ['terminate 30 a', 'cleanUp a']);
  assert.equal(workers.progress.stateOf('a'), 'finished');
  stop.abort();
});

test('a kill interrupts the sync that runs', async () => {
  const { workers, history, steps, stop } = aWorld();
  steps.set('sync', gate().step);
  workers.update({ kind: 'create', pod: pod('a') });
  await settle();
  workers.update({ kind: 'kill', pod: pod('a') });
  await settle();
  assert.deepEqual(history, ['sync a', 'terminate 30 a', 'cleanUp a']);
  stop.abort();
});

test('updates that come while a step runs are one step afterwards', async () => {
  const { workers, history, steps, stop } = aWorld();
  const first = gate();
  steps.set('sync', first.step);
  workers.update({ kind: 'create', pod: pod('a') });
  await settle();
  for (let i = 0; i < 5; i += 1) workers.update({ kind: 'update', pod: pod('a') });
  steps.delete('sync');
  first.open();
  await settle();
  assert.deepEqual(history, ['sync a', 'sync a']);
  stop.abort();
});

test('updates after the end are ignored until housekeeping forgot the pod', async () => {
  const { workers, history, stop } = aWorld();
  workers.update({ kind: 'kill', pod: pod('a') });
  await settle();
  history.length = 0;
  workers.update({ kind: 'update', pod: pod('a') });
  workers.update({ kind: 'kill', pod: pod('a') });
  workers.sync('a');
  await settle();
  assert.deepEqual(history, []);
  assert.deepEqual([...workers.retain(new Set(['a'])).keys()], ['a'], 'still wanted, so still remembered');
  assert.deepEqual([...workers.retain(new Set()).keys()], []);
  workers.update({ kind: 'create', pod: pod('a') });
  await settle();
  assert.deepEqual(history, ['sync a']);
  stop.abort();
});

const ends: readonly { it: string; pod: Pod; runtime?: RuntimePod; history: readonly string[] }[] = [
  {
    it: 'cleans up at once when its runtime pod has ended too',
    pod: pod('a', {}, 'Succeeded'),
    history: ['cleanUp a'],
  },
  {
    it: 'ends containers that still run',
    pod: pod('a', {}, 'Failed'),
    runtime: runtimePodOf('a'),
    history: ['terminate 30 a', 'cleanUp a'],
  },
  {
    it: 'takes a deleted pod down with the grace of its deletion',
    pod: pod('a', { deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 5 }),
    history: ['terminate 5 a', 'cleanUp a'],
  },
];
for (const { it, pod: seen, runtime, history: expected } of ends) {
  test(`the first sight of a pod that is at its end ${it}`, async () => {
    const { workers, history, runtimePods, stop } = aWorld();
    if (runtime !== undefined) runtimePods.set('a', runtime);
    workers.update({ kind: 'create', pod: seen });
    await settle();
    assert.deepEqual(history, expected);
    stop.abort();
  });
}

test('a pod that only the runtime knows can only be killed, with a grace of a second', async () => {
  const { workers, history, stop } = aWorld();
  const orphan = runtimePodOf('x');
  workers.update({ kind: 'sync', pod: undefined, runtimePod: orphan });
  await settle();
  assert.deepEqual(history, []);
  workers.update({ kind: 'kill', pod: undefined, runtimePod: orphan, graceSeconds: 1 });
  await settle();
  assert.deepEqual(history, ['orphan 1 x']);
  assert.equal(workers.progress.stateOf('x'), undefined);
  stop.abort();
});

test('a pod that ended by itself is terminated and cleaned up', async () => {
  const { workers, history, steps, stop } = aWorld();
  steps.set('sync', () => Promise.resolve('terminal'));
  workers.update({ kind: 'create', pod: pod('a') });
  await settle();
  assert.deepEqual(history, ['sync a', 'terminate 30 a', 'cleanUp a']);
  stop.abort();
});

test('a grace that shrinks interrupts the terminating step and repeats it with the new value', async () => {
  const { workers, history, steps, stop } = aWorld();
  steps.set('terminate', gate().step);
  const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z' };
  workers.update({ kind: 'update', pod: pod('a', { ...deleted, deletionGracePeriodSeconds: 30 }) });
  await settle();
  workers.update({ kind: 'update', pod: pod('a', { ...deleted, deletionGracePeriodSeconds: 60 }) });
  await settle();
  assert.deepEqual(history, ['terminate 30 a'], 'it never grows');
  steps.delete('terminate');
  workers.update({ kind: 'update', pod: pod('a', { ...deleted, deletionGracePeriodSeconds: 2 }) });
  await settle();
  assert.deepEqual(history.slice(0, 3), ['terminate 30 a', 'terminate 2 a', 'cleanUp a']);
  stop.abort();
});

const graces: readonly {
  it: string;
  current?: number;
  deletion?: number;
  override?: number;
  spec?: number;
  is: string;
}[] = [
  { it: 'is that of the spec', spec: 30, is: '30' },
  { it: 'prefers that of the deletion', spec: 30, deletion: 5, is: '5' },
  { it: 'takes an override before the spec', spec: 30, override: 3, is: '3' },
  { it: 'takes the shorter of deletion and override', deletion: 5, override: 9, is: '5' },
  { it: 'is a second where the spec gives none', spec: 0, is: '1' },
  { it: 'is none for a pod that was deleted without', deletion: 0, spec: 30, is: '0' },
  { it: 'shrinks to nothing', current: 30, deletion: 30, override: 0, is: '0 shortened' },
  { it: 'stays nothing', current: 0, deletion: 30, is: '0' },
  { it: 'only shrinks', current: 10, deletion: 20, is: '10' },
  { it: 'says when it shrank', current: 10, deletion: 2, is: '2 shortened' },
];
for (const { it, current, deletion, override, spec, is } of graces) {
  test(`effectiveGrace ${it}`, () => {
    const metadata = deletion === undefined ? {} : { deletionGracePeriodSeconds: deletion };
    const given = aPod({ metadata, ...(spec === undefined ? {} : { terminationGracePeriodSeconds: spec }) });
    const { seconds, shortened } = effectiveGrace(current, given, override);
    assert.equal(`${seconds}${shortened ? ' shortened' : ''}`, is);
  });
}

test('a create for a UID that terminates starts it again after its end', async () => {
  const { workers, history, steps, stop } = aWorld();
  const ending = gate();
  steps.set('terminate', ending.step);
  workers.update({ kind: 'kill', pod: pod('a') });
  await settle();
  workers.update({ kind: 'create', pod: pod('a') });
  assert.equal(workers.retain(new Set(['a'])).size, 1, 'not before it ended');
  ending.open();
  await settle();
  assert.equal(workers.retain(new Set(['a'])).size, 0);
  workers.update({ kind: 'create', pod: pod('a') });
  await settle();
  assert.deepEqual(history, ['terminate 30 a', 'cleanUp a', 'sync a']);
  stop.abort();
});

test('a pod that is no longer wanted is terminated by housekeeping', async () => {
  const { workers, history, stop } = aWorld();
  workers.update({ kind: 'create', pod: pod('a') });
  await settle();
  workers.retain(new Set());
  await settle();
  assert.deepEqual(history, ['sync a', 'terminate 30 a', 'cleanUp a']);
  stop.abort();
});

test('of static pods with one name the next starts when the one before is gone', async () => {
  const { workers, history, steps, stop } = aWorld();
  workers.update({ kind: 'create', pod: staticPod('a') });
  await settle();
  for (const uid of ['b', 'c', 'd']) workers.update({ kind: 'create', pod: staticPod(uid) });
  await settle();
  assert.deepEqual(history, ['sync a']);
  workers.update({ kind: 'kill', pod: staticPod('b') });
  await settle();
  assert.equal(workers.progress.stateOf('b'), 'finished', 'it never started, so there is nothing to end');
  const ending = gate();
  steps.set('cleanUp', ending.step);
  workers.update({ kind: 'kill', pod: staticPod('a') });
  await settle();
  assert.deepEqual(history, ['sync a', 'terminate 30 a', 'cleanUp a']);
  ending.open();
  await settle();
  assert.deepEqual(history, ['sync a', 'terminate 30 a', 'cleanUp a', 'sync c'], 'in the order they came');
  stop.abort();
  await workers.settled();
});

test('a runtime that fails to answer causes an Event and a retry', async () => {
  const { workers, history, steps, clock, events, stop } = aWorld();
  steps.set('get', () => Promise.reject(new Error('socket closed')));
  workers.update({ kind: 'create', pod: pod('a') });
  await settle();
  assert.deepEqual(events.lines(), ['Warning FailedSync error determining status: socket closed']);
  steps.delete('get');
  await clock.advance(10_000);
  await settle();
  assert.deepEqual(history, ['sync a']);
  stop.abort();
});

test('the predicates follow the states, and an unknown pod counts as gone only after housekeeping', async () => {
  const { workers, steps, stop } = aWorld();
  const show = (uid: string): string =>
    [
      workers.progress.shouldContainersBeTerminating(uid) ? 'terminating' : '',
      workers.progress.shouldRuntimeBeRemoved(uid) ? 'removable' : '',
      workers.progress.couldHaveRunningContainers(uid) ? 'mayRun' : '',
      workers.progress.isFinished(uid) ? 'finished' : '',
    ]
      .filter((word) => word !== '')
      .join(' ');
  assert.equal(show('a'), 'mayRun');
  workers.update({ kind: 'create', pod: pod('a') });
  await settle();
  assert.equal(show('a'), 'mayRun');
  const [ending, cleaning] = [gate(), gate()];
  steps.set('terminate', ending.step);
  steps.set('cleanUp', cleaning.step);
  workers.update({ kind: 'kill', pod: pod('a') });
  await settle();
  assert.equal(show('a'), 'terminating mayRun');
  ending.open();
  await settle();
  assert.equal(show('a'), 'terminating removable');
  cleaning.open();
  await settle();
  assert.equal(show('a'), 'terminating removable finished');
  workers.retain(new Set());
  assert.equal(show('stranger'), 'terminating removable finished');
  stop.abort();
});

const inBackOff = (atMs: number): Error => new ContainerStartError('CrashLoopBackOff', 'back-off', { retryAtMs: atMs });
const requeues: readonly { it: string; outcome: StepOutcome; ms: readonly [number, number] }[] = [
  { it: 'at once after a move', outcome: { kind: 'movedOn' }, ms: [0, 0] },
  { it: 'after the resync period', outcome: { kind: 'done', againAtMs: undefined }, ms: [60_000, 90_000] },
  { it: 'before that at a deadline', outcome: { kind: 'done', againAtMs: 1_005_000 }, ms: [5000, 5000] },
  { it: 'after 10 s for another error', outcome: failed(new Error('x')), ms: [10_000, 15_000] },
  { it: 'at the end of a back-off', outcome: failed(inBackOff(1_020_000)), ms: [20_000, 30_000] },
  {
    it: 'at a deadline before the end of a back-off',
    outcome: failed(inBackOff(1_020_000), 1_005_000),
    ms: [5000, 5000],
  },
  { it: 'soon after a deadline that is past', outcome: failed(new Error('x'), 5), ms: [1000, 1000] },
  { it: 'at once when the back-off is past', outcome: failed(inBackOff(5)), ms: [0, 0] },
  { it: 'not later than the resync for a long back-off', outcome: failed(inBackOff(1_300_000)), ms: [60_000, 90_000] },
  {
    it: 'at the earliest of several back-offs',
    outcome: failed(new AggregateError([inBackOff(1_080_000), new Error('x'), inBackOff(1_040_000)])),
    ms: [40_000, 60_000],
  },
];
function failed(error: unknown, againAtMs?: number): StepOutcome {
  return { kind: 'failed', error, againAtMs };
}
for (const { it, outcome, ms } of requeues) {
  test(`a pod is looked at again ${it}`, () => {
    const settings = { resyncMs: 60_000, retryMs: 10_000 };
    assert.deepEqual(
      [0, 1].map((random) => requeueDelayMs(outcome, settings, 1_000_000, () => random)),
      ms,
    );
  });
}
