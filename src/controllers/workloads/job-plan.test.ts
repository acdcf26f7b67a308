import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type Job, type JobSpec, type JobStatus, defaultJob } from '../../kube/kinds/workloads/job.ts';
import { formatIndexes, jobPod, parseIndexes, trackingFinalizer } from './job-pods.ts';
import { planJob } from './job-plan.ts';

const now = Date.parse('2026-01-01T01:00:00Z');
const started = '2026-01-01T00:59:00Z';

function newJob(spec: Partial<JobSpec> = {}, status: JobStatus = { startTime: started }): Job {
  const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'i' }] } };
  return defaultJob({ metadata: { name: 'sum', uid: 'u' }, spec: { template, ...spec }, status });
}

interface Given {
  readonly phase?: string;
  readonly index?: number;
  readonly isEnding?: boolean;
  readonly exitCode?: number;
  readonly condition?: string;
  readonly secondsAgo?: number;
}

function newPod(
  name: string,
  { phase = 'Running', index, isEnding, exitCode = 1, condition, secondsAgo = 0 }: Given,
): Pod {
  const finishedAt = new Date(now - secondsAgo * 1000).toISOString();
  const isOver = phase === 'Failed' || phase === 'Succeeded';
  return {
    metadata: {
      name,
      namespace: 'a',
      uid: name,
      finalizers: [trackingFinalizer],
      creationTimestamp: started,
      ...(index !== undefined && { annotations: { 'batch.kubernetes.io/job-completion-index': String(index) } }),
      ...(isEnding === true && { deletionTimestamp: '2026-01-01T01:00:30Z', deletionGracePeriodSeconds: 30 }),
    },
    spec: { nodeName: 'n', containers: [{ name: 'main', image: 'i' }] },
    status: {
      phase,
      ...(condition !== undefined && { conditions: [{ type: condition, status: 'True' }] }),
      ...(isOver && {
        containerStatuses: [
          {
            name: 'main',
            ready: false,
            restartCount: 0,
            image: '',
            imageID: '',
            state: { terminated: { exitCode, finishedAt } },
          },
        ],
      }),
    },
  };
}

/** What is done, in one line: `+` created, `-` deleted, `~` released. */
function show(job: Job, pods: Readonly<Record<string, Given>>): string {
  const plan = planJob(
    job,
    Object.entries(pods).map(([name, given]) => newPod(name, given)),
    now,
  );
  const { status } = plan;
  const counts = `${status.active}/${status.succeeded}/${status.failed}`;
  const uncounted = [
    ...(status.uncountedTerminatedPods?.succeeded ?? []),
    ...(status.uncountedTerminatedPods?.failed ?? []),
  ];
  const conditions = (status.conditions ?? []).map(({ type, reason }) => `${type}:${reason}`);
  return [
    counts,
    ...conditions,
    ...(uncounted.length > 0 ? [`?${uncounted.join()}`] : []),
    ...plan.release.map(({ metadata }) => `~${metadata.name}`),
    ...plan.remove.map(({ metadata }) => `-${metadata.name}${plan.isUncounted ? '' : '!'}`),
    ...plan.create.map((index) => `+${index ?? ''}`),
    ...(plan.againAtMs === undefined ? [] : [`in ${(plan.againAtMs - now) / 1000}s`]),
  ].join(' ');
}

const failOn42 = { rules: [{ action: 'FailJob', onExitCodes: { operator: 'In', values: [42] } }] };
const ignoreDisruption = {
  rules: [{ action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] }],
};

const cases = [
  { it: 'creates as many pods as may run', spec: { completions: 5, parallelism: 2 }, plan: '0/0/0 + +' },
  {
    it: 'creates no more than are left to succeed',
    spec: { completions: 3, parallelism: 3 },
    status: { startTime: started, succeeded: 2 },
    plan: '0/2/0 +',
  },
  {
    it: 'writes down a success before it counts it',
    pods: { a: { phase: 'Succeeded' } },
    plan: '0/0/0 SuccessCriteriaMet:CompletionsReached ?a ~a',
  },
  {
    it: 'counts a failure once it is written down, and waits before the next pod',
    status: { startTime: started, failed: 1, uncountedTerminatedPods: { failed: ['a', 'gone'] } },
    pods: { a: { phase: 'Failed', secondsAgo: 4 } },
    plan: '0/0/2 ?a ~a in 6s',
  },
  {
    it: 'waits twice as long after the second failure',
    pods: { a: { phase: 'Failed', secondsAgo: 90 }, b: { phase: 'Failed', secondsAgo: 15 } },
    plan: '0/0/0 ?a,b ~a ~b in 5s',
  },
  {
    it: 'fails beyond the limit',
    spec: { backoffLimit: 0, completions: 2, parallelism: 2 },
    pods: { a: { phase: 'Failed' }, b: {} },
    plan: '1/0/0 FailureTarget:BackoffLimitExceeded ?a ~a -b!',
  },
  {
    it: 'fails after its time',
    spec: { activeDeadlineSeconds: 60 },
    pods: { a: {} },
    plan: '1/0/0 FailureTarget:DeadlineExceeded -a!',
  },
  {
    it: 'is looked at when its time is over',
    spec: { activeDeadlineSeconds: 70 },
    pods: { a: {} },
    plan: '1/0/0 in 10s',
  },
  {
    it: 'fails at a code of its policy',
    spec: { podFailurePolicy: failOn42, podReplacementPolicy: 'Failed' },
    pods: { a: { phase: 'Failed', exitCode: 42 } },
    plan: '0/0/0 FailureTarget:PodFailurePolicy ?a ~a',
  },
  {
    it: 'counts a failure that would fail an index as any other',
    spec: {
      completionMode: 'Indexed',
      completions: 2,
      parallelism: 2,
      backoffLimitPerIndex: 0,
      podFailurePolicy: {
        rules: [{ action: 'FailIndex', onExitCodes: { operator: 'In', values: [1] } }],
      },
    },
    pods: { a: { phase: 'Failed', index: 1, secondsAgo: 90 } },
    plan: '0/0/0 ?a ~a +0 +1',
  },
  {
    it: 'counts no failure that its policy ignores',
    spec: { podFailurePolicy: ignoreDisruption, podReplacementPolicy: 'Failed' },
    pods: { a: { phase: 'Failed', condition: 'DisruptionTarget', secondsAgo: 11 } },
    plan: '0/0/0 ~a +',
  },
  {
    it: 'stops its pods while it is suspended',
    spec: { suspend: true },
    pods: { a: {} },
    plan: '1/0/0 Suspended:JobSuspended -a',
  },
  {
    it: 'gives each pod the lowest free index',
    spec: { completionMode: 'Indexed', completions: 6, parallelism: 3 },
    status: { startTime: started, completedIndexes: '0,2' },
    pods: { a: { index: 1 } },
    plan: '1/2/0 +3 +4',
  },
  {
    it: 'deletes a second pod of an index',
    spec: { completionMode: 'Indexed', completions: 3, parallelism: 3 },
    pods: { a: { index: 1 }, b: { index: 1 }, c: { index: 7 } },
    plan: '3/0/0 -b -c',
  },
  {
    it: 'waits for a pod that ends, where only failed ones are replaced',
    spec: { podReplacementPolicy: 'Failed' },
    pods: { a: { isEnding: true } },
    plan: '0/0/0',
  },
  {
    it: 'ends a work queue after a success',
    spec: { parallelism: 2, completions: undefined },
    pods: { a: { phase: 'Succeeded' }, b: {} },
    plan: '1/0/0 ?a ~a',
  },
];
for (const { it, spec = {}, status, pods = {}, plan } of cases) {
  test(`a job ${it}`, () => {
    assert.equal(show(newJob(spec as Partial<JobSpec>, status), pods as Readonly<Record<string, Given>>), plan);
  });
}

test('runs of indexes are written with a dash, and read as they were', () => {
  const indexes = new Set([7, 0, 2, 3, 4, 6]);
  assert.equal(formatIndexes(indexes), '0,2-4,6,7');
  assert.deepEqual([...parseIndexes('0,2-4,6,7', 10)].sort(), [0, 2, 3, 4, 6, 7]);
  assert.deepEqual([...parseIndexes('0-999999999,x', 3)], [0, 1, 2]);
});

test('a pod of an indexed job knows its index', () => {
  const { template, own } = jobPod(newJob({ completionMode: 'Indexed', completions: 2 }), 1);
  assert.equal(template.spec.hostname, 'sum-1');
  assert.equal(own.generateName, 'sum-1-');
  const fieldPath = "metadata.labels['batch.kubernetes.io/job-completion-index']";
  assert.deepEqual(template.spec.containers[0]?.env, [
    { name: 'JOB_COMPLETION_INDEX', valueFrom: { fieldRef: { fieldPath } } },
  ]);
});
