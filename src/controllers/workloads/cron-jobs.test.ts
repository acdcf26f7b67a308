/** What a CronJob does at a moment, from itself and its jobs alone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CronJob, cronJobKind } from '../../kube/kinds/workloads/cron-job.ts';
import type { Job } from '../../kube/kinds/workloads/job.ts';
import { planCronJob } from './cron-jobs.ts';

const at = (time: string): string => `2026-01-01T${time}Z`;
const annotation = 'batch.kubernetes.io/cronjob-scheduled-timestamp';

interface GivenJob {
  /** The time of the schedule it was made for; absent: somebody else made it. */
  readonly for?: string;
  readonly started?: string;
  readonly ended?: 'Complete' | 'Failed';
  readonly isEnding?: boolean;
  /** The status of the CronJob does not list it yet. */
  readonly isNew?: boolean;
}

function jobOf(name: string, { for: time, started = time ?? '10:00:00', ended, isEnding }: GivenJob): Job {
  const jobName = time === undefined ? name : `tick-${Date.parse(at(time)) / 60_000}`;
  return {
    metadata: {
      name: jobName,
      namespace: 'shop',
      uid: name,
      ...(time !== undefined && { annotations: { [annotation]: at(time) } }),
      ...(isEnding === true && { deletionTimestamp: at('10:00:00') }),
    },
    spec: { template: { spec: { containers: [] } } },
    status: {
      startTime: at(started),
      ...(ended && { conditions: [{ type: ended, status: 'True' }] }),
      ...(ended === 'Complete' && { completionTime: at(started) }),
    },
  };
}

/** `+10:05:00` starts the job of that time, `-a` deletes the job a, `@10:10:00.1` is when it looks again; then its Events. */
function show(
  spec: Partial<CronJob['spec']>,
  jobs: Readonly<Record<string, GivenJob>>,
  now: string,
  last?: string,
): string {
  const all = Object.entries(jobs).map(([name, given]) => jobOf(name, given));
  const listed = all.filter(({ metadata }) => jobs[metadata.uid ?? '']?.isNew !== true);
  const active = listed
    .filter(({ metadata }) => jobs[metadata.uid ?? '']?.for !== undefined)
    .map(({ metadata: { name, uid = '' } }) => ({ apiVersion: 'batch/v1', kind: 'Job', name, namespace: 'shop', uid }));
  const cronJob = cronJobKind.complete({
    metadata: { name: 'tick', namespace: 'shop', uid: 'u', creationTimestamp: at('09:59:30') },
    spec: {
      schedule: '*/5 * * * *',
      timeZone: 'Etc/UTC',
      jobTemplate: { spec: { template: { spec: { containers: [] } } } },
      ...spec,
    },
    status: { active, ...(last !== undefined && { lastScheduleTime: at(last) }) },
  });
  const plan = planCronJob(cronJob, all, Date.parse(at(now)));
  const clock = (ms: number): string => new Date(ms).toISOString().slice(11, 21).replace(/\.0$/, '');
  return [
    ...plan.remove.map(({ metadata }) => `-${metadata.uid}`),
    ...(plan.startAtMs === undefined ? [] : [`+${clock(plan.startAtMs)}`]),
    ...(plan.againAtMs === undefined ? [] : [`@${clock(plan.againAtMs)}`]),
    ...plan.events.map(({ reason }) => reason),
  ].join(' ');
}

const running = { a: { for: '10:05:00' } };
const cases: readonly {
  readonly it: string;
  readonly spec?: Partial<CronJob['spec']>;
  readonly jobs?: Readonly<Record<string, GivenJob>>;
  readonly now: string;
  readonly last?: string;
  readonly plan: string;
}[] = [
  { it: 'waits for its first time', now: '09:59:40', plan: '@10:00:00.1' },
  { it: 'starts the job that is due', now: '10:05:00.1', last: '10:00:00', plan: '+10:05:00 @10:10:00.1' },
  { it: 'starts a time once', now: '10:06:00', last: '10:05:00', plan: '@10:10:00.1' },
  {
    it: 'starts no time that has its job, whatever the status says',
    jobs: { a: { for: '10:05:00', isNew: true } },
    now: '10:06:00',
    last: '10:00:00',
    plan: '@10:10:00.1',
  },
  {
    it: 'starts the last of the times that it missed',
    now: '10:18:00',
    last: '10:00:00',
    plan: '+10:15:00 @10:20:00.1',
  },
  { it: 'lets jobs run side by side', jobs: running, now: '10:10:01', last: '10:05:00', plan: '+10:10:00 @10:15:00.1' },
  {
    it: 'starts no second job where that is forbidden',
    spec: { concurrencyPolicy: 'Forbid' },
    jobs: running,
    now: '10:10:01',
    last: '10:05:00',
    plan: '@10:15:00.1 JobAlreadyActive',
  },
  {
    it: 'starts it once the first has ended, late as it is',
    spec: { concurrencyPolicy: 'Forbid' },
    jobs: { a: { for: '10:05:00', ended: 'Complete' } },
    now: '10:12:00',
    last: '10:05:00',
    plan: '+10:10:00 @10:15:00.1 SawCompletedJob',
  },
  {
    it: 'starts it no later than its deadline',
    spec: { concurrencyPolicy: 'Forbid', startingDeadlineSeconds: 60 },
    jobs: { a: { for: '10:05:00', ended: 'Complete' } },
    now: '10:12:00',
    last: '10:05:00',
    plan: '@10:15:00.1 SawCompletedJob MissSchedule',
  },
  {
    it: 'replaces the job that runs',
    spec: { concurrencyPolicy: 'Replace' },
    jobs: running,
    now: '10:10:01',
    last: '10:05:00',
    plan: '-a +10:10:00 @10:15:00.1',
  },
  {
    it: 'starts what is within its deadline',
    spec: { startingDeadlineSeconds: 120 },
    now: '10:06:00',
    last: '10:00:00',
    plan: '+10:05:00 @10:10:00.1',
  },
  {
    it: 'says that it missed a time',
    spec: { startingDeadlineSeconds: 30 },
    now: '10:06:00',
    last: '10:00:00',
    plan: '@10:10:00.1 MissSchedule',
  },
  {
    it: 'says that it missed more than a hundred, and starts the last',
    spec: { schedule: '* * * * *' },
    now: '12:00:01',
    plan: '+12:00:00 @12:01:00.1 TooManyMissedTimes',
  },
  {
    it: 'counts those alone that its deadline has not passed',
    spec: { schedule: '* * * * *', startingDeadlineSeconds: 200 },
    now: '12:00:01',
    plan: '+12:00:00 @12:01:00.1',
  },
  { it: 'says nothing of a hundred', spec: { schedule: '* * * * *' }, now: '11:39:01', plan: '+11:39:00 @11:40:00.1' },
  { it: 'rests while it is suspended', spec: { suspend: true }, now: '10:06:00', last: '10:00:00', plan: '' },
  {
    it: 'goes by the clocks of its zone',
    spec: { schedule: '30 15 * * *', timeZone: 'Asia/Kolkata' },
    now: '10:00:01',
    plan: '+10:00:00 @10:00:00.1',
  },
  {
    it: 'keeps as many jobs as it should, the newest of each kind',
    spec: { successfulJobsHistoryLimit: 1, failedJobsHistoryLimit: 0, suspend: true },
    jobs: {
      a: { for: '10:05:00', ended: 'Complete', isNew: true },
      b: { for: '10:10:00', ended: 'Complete', isNew: true },
      c: { for: '10:15:00', ended: 'Failed', isNew: true },
    },
    now: '10:16:00',
    plan: '-a -c',
  },
  {
    it: 'leaves jobs of others alone, and says so',
    jobs: { other: {} },
    now: '10:01:00',
    last: '10:00:00',
    plan: '@10:05:00.1 UnexpectedJob',
  },
  {
    it: 'does not count jobs of others',
    spec: { concurrencyPolicy: 'Forbid' },
    jobs: { other: {} },
    now: '10:05:01',
    last: '10:00:00',
    plan: '+10:05:00 @10:10:00.1 UnexpectedJob',
  },
];
for (const { it, spec = {}, jobs = {}, now, last, plan } of cases) {
  test(`a CronJob ${it}`, () => assert.equal(show(spec, jobs, now, last), plan));
}
