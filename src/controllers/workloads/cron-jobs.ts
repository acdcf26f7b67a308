/**
 * The loop of CronJobs. The job of a scheduled time has a name of its own and says which time it is for, so that a time that has
 * its job never gets a second one, whatever was interrupted before the status said so.
 */
import { messageOf } from '../../base/errors.ts';
import { type CronJob, cronJobShape } from '../../kube/kinds/workloads/cron-job.ts';
import { hasCondition } from '../../kube/kinds/workloads/job-validation.ts';
import type { Job } from '../../kube/kinds/workloads/job.ts';
import { means } from '../../kube/schema/equality.ts';
import { apiVersionOf } from '../../kube/schema/kind.ts';
import { controllerReference } from '../../kube/schema/meta.ts';
import { type CronSchedule, cronSchedule, zonedTimestamp } from '../../kube/values/cron-schedule.ts';
import { timestamp } from '../../kube/values/times.ts';
import {
  type ControllerDeps,
  deleteSame,
  kindNamed,
  refusalCauses,
  refusalCode,
  updateSame,
} from '../cluster/cluster.ts';
import { type ControllerEvent, ControllerEvents } from '../cluster/events.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import type { WorkloadView } from './object-table.ts';
import { followOwned } from './ownership.ts';
import { isFinished } from './job-plan.ts';

const controller = 'cronjob-controller';
const scheduledAnnotation = 'batch.kubernetes.io/cronjob-scheduled-timestamp';
/** After a time of the schedule, so that a clock that is a little slow does not wake too early. */
const marginMs = 100;
const missedMax = 100;

interface CronPlan {
  /** Written first. */
  readonly status: NonNullable<CronJob['status']>;
  readonly events: readonly ControllerEvent[];
  readonly remove: readonly Job[];
  /** The scheduled time whose job is due. */
  readonly startAtMs: number | undefined;
  readonly againAtMs: number | undefined;
}

export function planCronJob(cronJob: CronJob, jobs: readonly Job[], nowMs: number): CronPlan {
  const { metadata, spec, status = {} } = cronJob;
  const events: ControllerEvent[] = [];
  const running = jobs.filter((job) => !isFinished(job) && job.metadata.deletionTimestamp === undefined);
  const listed = status.active ?? [];
  for (const { uid, name = '' } of listed) {
    const job = jobs.find((one) => one.metadata.uid === uid);
    if (job === undefined) events.push(normal('MissingJob', `Active job went missing: ${name}`));
    else if (isFinished(job)) {
      const condition = hasCondition(job.status, 'Complete') ? 'Complete' : 'Failed';
      events.push(normal('SawCompletedJob', `Saw completed job: ${name}, condition: ${condition}`));
    }
  }
  const active = running.filter((job) => {
    const isKnown = listed.some(({ uid }) => uid === job.metadata.uid) || scheduledMs(cronJob, job) !== undefined;
    const message = `Saw a job that the controller did not create or forgot: ${job.metadata.name}`;
    if (!isKnown) events.push({ type: 'Warning', reason: 'UnexpectedJob', message });
    return isKnown;
  });
  const lastMs = latest([status.lastScheduleTime, ...jobs.map((job) => scheduledMs(cronJob, job))]);
  const successMs = latest([status.lastSuccessfulTime, ...jobs.map((job) => job.status?.completionTime)]);
  const old = [
    ...beyond(jobs, 'Complete', spec.successfulJobsHistoryLimit),
    ...beyond(jobs, 'Failed', spec.failedJobsHistoryLimit),
  ];
  const known = {
    ...(lastMs !== undefined && { lastScheduleTime: timestamp(lastMs) }),
    ...(successMs !== undefined && { lastSuccessfulTime: timestamp(successMs) }),
  };
  const idle = { status: { ...known, ...listOf(active, listed) }, events, remove: old, startAtMs: undefined };
  if (metadata.deletionTimestamp !== undefined || spec.suspend === true) return { ...idle, againAtMs: undefined };
  const schedule = scheduleOf(cronJob, events);
  if (schedule === undefined) return { ...idle, againAtMs: undefined };
  const next = schedule.next(nowMs);
  const waiting = { ...idle, againAtMs: next === undefined ? undefined : next + marginMs };
  const due = dueMs(cronJob, schedule, lastMs, nowMs, events);
  if (due === undefined) return waiting;
  if (spec.concurrencyPolicy === 'Forbid' && active.length > 0) {
    const reason = 'prior execution is running and concurrency policy is Forbid';
    events.push(normal('JobAlreadyActive', `Not starting job because ${reason}`));
    return waiting;
  }
  if (spec.concurrencyPolicy !== 'Replace') return { ...waiting, startAtMs: due };
  return { ...waiting, status: known, remove: [...old, ...active], startAtMs: due };
}

function normal(reason: string, message: string): ControllerEvent {
  return { type: 'Normal', reason, message };
}

/** The time of the schedule that a job was made for; undefined for one that somebody else made. */
function scheduledMs(cronJob: CronJob, { metadata: { name, annotations = {} } }: Job): number | undefined {
  const time = Date.parse(annotations[scheduledAnnotation] ?? '');
  return !Number.isNaN(time) && name === jobName(cronJob, time) ? time : undefined;
}

function jobName({ metadata: { name } }: CronJob, timeMs: number): string {
  return `${name}-${Math.floor(timeMs / 60_000)}`;
}

function latest(times: readonly (string | number | undefined)[]): number | undefined {
  const known = times.map((time) => (typeof time === 'number' ? time : Date.parse(time ?? '')));
  const valid = known.filter((time) => !Number.isNaN(time));
  return valid.length === 0 ? undefined : Math.max(...valid);
}

type Active = NonNullable<NonNullable<CronJob['status']>['active']>;

function listOf(jobs: readonly Job[], listed: Active): { readonly active?: Active } {
  const active = jobs.map(({ metadata: { uid = '', name, namespace = '' } }) => {
    const before = listed.find((one) => one.uid === uid);
    return before ?? { apiVersion: 'batch/v1', kind: 'Job', name, namespace, uid };
  });
  return active.length === 0 ? {} : { active };
}

/** Finished jobs that are more than are kept, the oldest. */
function beyond(jobs: readonly Job[], condition: 'Complete' | 'Failed', limit: number | undefined): readonly Job[] {
  if (limit === undefined) return [];
  const startMs = ({ metadata, status }: Job): number =>
    Date.parse(status?.startTime ?? metadata.creationTimestamp ?? '') || 0;
  const finished = jobs.filter(
    ({ metadata, status }) => hasCondition(status, condition) && metadata.deletionTimestamp === undefined,
  );
  const oldest = finished.toSorted((a, b) => startMs(a) - startMs(b) || (a.metadata.name < b.metadata.name ? -1 : 1));
  return oldest.slice(0, Math.max(0, finished.length - limit));
}

function scheduleOf({ spec }: CronJob, events: ControllerEvent[]): CronSchedule | undefined {
  try {
    return cronSchedule(spec.schedule, spec.timeZone);
  } catch (error) {
    const message = `unparseable schedule: "${spec.schedule}" : ${messageOf(error)}`;
    events.push({ type: 'Warning', reason: 'UnparseableSchedule', message });
    return undefined;
  }
}

/** The latest time of the schedule that has no job yet and is not too long ago. */
function dueMs(
  { metadata, spec }: CronJob,
  schedule: CronSchedule,
  lastMs: number | undefined,
  nowMs: number,
  events: ControllerEvent[],
): number | undefined {
  const sinceMs = lastMs ?? Date.parse(metadata.creationTimestamp ?? '');
  const due = schedule.latest(sinceMs, nowMs);
  if (due === undefined) return undefined;
  const { startingDeadlineSeconds: seconds } = spec;
  if (seconds !== undefined && due + seconds * 1000 < nowMs) {
    const message = `Missed scheduled time to start a job: ${new Date(due).toUTCString().replace('GMT', '+0000')}`;
    events.push({ type: 'Warning', reason: 'MissSchedule', message });
    return undefined;
  }
  const first = schedule.next(Math.max(sinceMs, nowMs - (seconds ?? Infinity) * 1000)) ?? due;
  const between = (schedule.next(first) ?? Infinity) - first;
  if ((due - first) / between >= missedMax) {
    const advice = 'Set or decrease .spec.startingDeadlineSeconds or check clock skew';
    events.push({ type: 'Warning', reason: 'TooManyMissedTimes', message: `too many missed start times. ${advice}` });
  }
  return due;
}

export async function runCronJobs(deps: ControllerDeps, view: WorkloadView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const kind = kindNamed(cluster, 'batch/v1', 'CronJob');
  const jobKind = kindNamed(cluster, 'batch/v1', 'Job');
  const cronJobs = view.table<CronJob>(kind);
  const jobs = view.table<Job>(jobKind);
  const events = new ControllerEvents(controller, deps, cluster);
  const queue = new WorkQueue(controller, deps);
  cronJobs.follow((key) => queue.touch(key));
  followOwned(
    jobs,
    cronJobs,
    () => undefined,
    (key) => queue.touch(key),
  );
  const sync = async (key: string): Promise<void> => {
    const cronJob = (await cluster.get(key)) as CronJob | undefined;
    if (cronJob === undefined) return;
    const nowMs = deps.clock.now();
    const plan = planCronJob(cronJob, jobs.controlledBy(cronJob.metadata.uid ?? ''), nowMs);
    const next = { ...cronJob, status: plan.status };
    if (!means(cronJobShape, next, cronJob)) {
      await updateSame<CronJob>(cluster, key, cronJob, (now) => ({ ...now, status: plan.status }), 'status');
    }
    for (const event of plan.events) await events.record(kind, cronJob, event);
    for (const job of plan.remove) {
      await deleteSame(cluster, jobs.keyOf(job), job);
      jobs.deleted(job);
      await events.record(kind, cronJob, normal('SuccessfulDelete', `Deleted job ${job.metadata.name}`));
    }
    if (plan.startAtMs !== undefined) await start(cronJob, plan.startAtMs);
    if (plan.againAtMs !== undefined) queue.touchAt(key, plan.againAtMs);
  };
  const start = async (cronJob: CronJob, timeMs: number): Promise<void> => {
    const { namespace = '' } = cronJob.metadata;
    const { metadata: given = {}, spec } = cronJob.spec.jobTemplate;
    const metadata = {
      name: jobName(cronJob, timeMs),
      namespace,
      ...(given.labels && { labels: given.labels }),
      annotations: { ...given.annotations, [scheduledAnnotation]: zonedTimestamp(timeMs, cronJob.spec.timeZone) },
      ownerReferences: [controllerReference(apiVersionOf(kind), kind.kind, cronJob.metadata)],
    };
    try {
      // Shown in the table at once, from which the next look has its time and adds it to the status.
      jobs.created((await cluster.create(jobKind, namespace, { metadata, spec } as Job)) as Job);
      await events.record(kind, cronJob, normal('SuccessfulCreate', `Created job ${metadata.name}`));
    } catch (error) {
      if (refusalCauses(error).includes('NamespaceTerminating') || refusalCode(error) === 409) return;
      const message = `Error creating job: ${messageOf(error)}`;
      await events.record(kind, cronJob, { type: 'Warning', reason: 'FailedCreate', message });
      throw error;
    }
  };
  await queue.run(sync, signal);
}
