/** Jobs survive what happens to their controller: struck at a write, before or after it, every pod is counted once and none is made twice. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { messageOf } from '../../base/errors.ts';
import { hasCondition } from '../../kube/kinds/workloads/job-validation.ts';
import type { Job } from '../../kube/kinds/workloads/job.ts';
import type { CronJob } from '../../kube/kinds/workloads/cron-job.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { controllerOf } from '../../kube/schema/meta.ts';
import { type Fault, StorageWorld, namespace } from '../../testing/worlds/storage-world.ts';
import { endsAnnotation, passTime, workloadParties } from '../../testing/worlds/workload-world.ts';
import { runCronJobs } from './cron-jobs.ts';
import { runFinishedJobs, runJobs } from './jobs.ts';

const seed = Number(process.env['SEED'] ?? 1);
const parties = workloadParties(runJobs, runFinishedJobs, runCronJobs);

function job(name: string, ends: string, spec: object): KubeObject {
  const template = {
    metadata: { annotations: { [endsAnnotation]: ends } },
    spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'none' }] },
  };
  return { metadata: { name, namespace }, spec: { template, ...spec } } as KubeObject;
}

interface StoryOptions {
  readonly fault?: Fault & { readonly point: number };
  readonly conflicts?: boolean;
  readonly lag?: number;
}

async function tell({ fault, conflicts = false, lag = 0 }: StoryOptions = {}): Promise<readonly string[]> {
  const world = await StorageWorld.open(parties);
  const started = world.points.length;
  if (fault !== undefined) world.fault = { ...fault, point: started + fault.point };
  world.conflicts = conflicts;
  if (lag > 0) for (const plural of ['pods', 'jobs']) world.lag(plural, lag);
  const all = world.all.bind(world);
  const step = async (act: () => Promise<void>, ms = 0): Promise<void> => {
    const before = world.struck;
    await act();
    await passTime(world, ms);
    world.start();
    world.catchUp();
    await passTime(world, world.struck === before ? 0 : ms);
  };
  const ofJob = (name: string): Job =>
    all<Job>('batch/v1', 'Job').find(({ metadata }) => metadata.name === name) ?? assert.fail(name);
  const podsOf = (name: string): readonly Pod[] =>
    all<Pod>('v1', 'Pod').filter(({ metadata }) => controllerOf(metadata)?.uid === ofJob(name).metadata.uid);
  const phases = (name: string): readonly string[] => podsOf(name).map(({ status }) => status?.phase ?? '');
  const count = (name: string, phase: string): number => phases(name).filter((one) => one === phase).length;
  const assertEnded = (name: string, condition: string, expected: readonly [number, number]): void => {
    const { status } = ofJob(name);
    assert.ok(hasCondition(status, condition), `${name}: ${JSON.stringify(status)} ${String(phases(name))}`);
    assert.deepEqual([status?.succeeded, status?.failed], expected, `counters of ${name}`);
    assert.deepEqual([count(name, 'Succeeded'), count(name, 'Failed')], expected, `pods of ${name}`);
    assert.deepEqual(status?.uncountedTerminatedPods ?? {}, {});
    assert.deepEqual(
      podsOf(name).flatMap(({ metadata }) => metadata.finalizers ?? []),
      [],
    );
  };
  try {
    await step(async () => {
      await world.create('batch/v1', 'Job', job('three', 'Succeeded', { completions: 3, parallelism: 2 }));
      await world.create(
        'batch/v1',
        'Job',
        job('indexed', 'Succeeded', { completions: 4, parallelism: 3, completionMode: 'Indexed' }),
      );
      await world.create('batch/v1', 'Job', job('queue', 'Succeeded', { parallelism: 2 }));
    });
    assertEnded('three', 'Complete', [3, 0]);
    assertEnded('indexed', 'Complete', [4, 0]);
    assert.equal(ofJob('indexed').status?.completedIndexes, '0-3');
    assertEnded('queue', 'Complete', [2, 0]);
    await step(() => world.create('batch/v1', 'Job', job('failing', 'Failed', { backoffLimit: 2 })), 60_000);
    assertEnded('failing', 'Failed', [0, 3]);
    // Suspended while it runs, and resumed: the pods that were stopped count as nothing.
    const running = job('paused', '', { completions: 2, parallelism: 2 });
    await step(() => world.create('batch/v1', 'Job', running));
    assert.deepEqual(phases('paused'), ['Running', 'Running']);
    const key = world.user.keyOf(world.user.kindOf('batch/v1', 'Job') ?? assert.fail(), namespace, 'paused');
    const suspend = (isSuspended: boolean): Promise<void> =>
      world.user.update(key, (object) => {
        const current = object as Job;
        return { ...current, spec: { ...current.spec, suspend: isSuspended } } as KubeObject;
      });
    await step(() => suspend(true), 40_000);
    assert.deepEqual([phases('paused'), ofJob('paused').status?.failed], [[], 0]);
    await step(() => suspend(false));
    assert.deepEqual([phases('paused'), ofJob('paused').status?.active], [['Running', 'Running'], 2]);
    // A deleted job leaves nothing behind.
    await step(() => world.user.delete(key));
    assert.deepEqual(
      all('v1', 'Pod').filter(({ metadata }) => metadata.name.startsWith('paused')),
      [],
    );
    const short = job('short', 'Succeeded', { ttlSecondsAfterFinished: 20 });
    await step(() => world.create('batch/v1', 'Job', short), 30_000);
    assert.deepEqual(
      all('batch/v1', 'Job').filter(({ metadata }) => metadata.name === 'short'),
      [],
    );
    const jobTemplate = { spec: (job('', 'Succeeded', {}) as Job).spec };
    const spec = { schedule: '* * * * *', timeZone: 'Etc/UTC', successfulJobsHistoryLimit: 2, jobTemplate };
    await step(
      () => world.create('batch/v1', 'CronJob', { metadata: { name: 'cron', namespace }, spec } as KubeObject),
      250_000,
    );
    const created = world.points.filter((point) => /create jobs\/cron-/.test(point));
    const [cron] = all<CronJob>('batch/v1', 'CronJob');
    const own = all<Job>('batch/v1', 'Job').filter(({ metadata }) => metadata.name.startsWith('cron-'));
    assert.deepEqual([own.length, cron?.status?.active], [2, undefined]);
    assert.equal(
      own.every(({ status }) => hasCondition(status, 'Complete')),
      true,
    );
    if (fault === undefined) assert.deepEqual(created.length, 4);
    return world.points.slice(started);
  } catch (error) {
    const where = fault === undefined ? '' : `${fault.victim} ${fault.moment} ${fault.point} (${world.struck}): `;
    throw new Error(`${where}${messageOf(error)}\n${world.failures.slice(-5).join('\n')}`, { cause: error });
  } finally {
    await world.close();
  }
}

test('jobs of every kind end as they should, also where every update meets a conflict and where watches lag behind', async () => {
  await tell();
  await tell({ conflicts: true });
  await tell({ lag: 2 });
});

test('a crash at a write, before or after it, changes nothing about how jobs end', async (t) => {
  const points = await tell();
  const victims = ['party', 'all', 'server'] as const;
  const fault = fc.record({
    point: fc.integer({ min: 1, max: points.length }),
    victim: fc.constantFrom(...victims),
    moment: fc.constantFrom('before' as const, 'after' as const),
  });
  const sample = fc.sample(fault, { seed, numRuns: 12 });
  t.diagnostic(`seed ${seed}: ${sample.map(({ point }) => point).join()} of ${points.length} points`);
  const wrong: string[] = [];
  for (const one of sample) await tell({ fault: one }).catch((error: unknown) => wrong.push(messageOf(error)));
  assert.deepEqual(wrong, []);
});
