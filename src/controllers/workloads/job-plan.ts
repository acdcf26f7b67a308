/**
 * What a Job needs next, from the job and its pods alone. A pod that ended is counted exactly once, whatever is interrupted:
 *
 *   ended, with finalizer ──▶ its uid in status.uncountedTerminatedPods ──▶ finalizer removed ──▶ in the counter, uid removed
 *
 * Each arrow is one write, and the next is made when the one before is stored. Successes of indexed jobs are counted by
 * their indexes, which a second time changes nothing. A job says how it will end (SuccessCriteriaMet, FailureTarget) before it
 * has ended, and does not change its mind.
 */
import { hasCondition } from '../../kube/kinds/workloads/job-validation.ts';
import type { Job, JobStatus } from '../../kube/kinds/workloads/job.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { timestamp } from '../../kube/values/times.ts';
import type { ControllerEvent } from '../cluster/events.ts';
import {
  createAgainAtMs,
  formatIndexes,
  indexOf,
  isFailed,
  isIndexed,
  isTracked,
  parseIndexes,
  verdictOn,
} from './job-pods.ts';
import { cheapestPods, isActive, isReady, isTerminating } from './pod-state.ts';

interface JobPlan {
  /** Written first, and everything else only once it is. */
  readonly status: JobStatus;
  readonly events: readonly ControllerEvent[];
  /** These lose their finalizer: they are counted, or need not be. */
  readonly release: readonly Pod[];
  /** These run, and get the finalizer they lack. */
  readonly track: readonly Pod[];
  readonly remove: readonly Pod[];
  /** Those of them that count as nothing: their finalizer goes first. */
  readonly isUncounted: boolean;
  /** A pod for each, with an index where the job has them. */
  readonly create: readonly (number | undefined)[];
  /** When time alone changes the plan. */
  readonly againAtMs: number | undefined;
}

/** As many as Kubernetes creates, deletes and counts at a time. */
const changesMax = 500;

export function isFinished({ status }: Job): boolean {
  return hasCondition(status, 'Complete') || hasCondition(status, 'Failed');
}

interface Tally {
  readonly uncounted: { readonly succeeded: readonly string[]; readonly failed: readonly string[] };
  readonly counted: { readonly succeeded: number; readonly failed: number };
  /** With those that are on their way into the counters. */
  readonly succeeded: number;
  readonly failed: number;
  readonly indexes: ReadonlySet<number>;
  readonly release: readonly Pod[];
  /** Nothing is on its way. */
  readonly isSettled: boolean;
}

interface Ending {
  readonly type: 'SuccessCriteriaMet' | 'FailureTarget';
  readonly reason: string;
  readonly message: string;
}

export function planJob(job: Job, pods: readonly Pod[], nowMs: number): JobPlan {
  const { status = {} } = job;
  const nothing = { status, events: [], track: [], remove: [], isUncounted: false, create: [], againAtMs: undefined };
  // What is over, or has no job any more, holds no pod back.
  if (isFinished(job) || job.metadata.deletionTimestamp !== undefined) {
    return { ...nothing, release: pods.filter(isTracked) };
  }
  const active = pods.filter(isActive);
  const known = endingOf(status) ?? policyEnding(job, pods);
  const tally = tallyOf(job, pods, known?.type === 'FailureTarget');
  const ending = known ?? endingNow(job, tally, active, nowMs);
  const work: Work = { job, pods, active, tally, nowMs };
  const { remove, isUncounted, create, createAtMs } =
    ending === undefined ? workload(work) : { ...none, remove: active.slice(0, changesMax) };
  const next = statusOf(work, ending);
  const removed = new Set(remove);
  return {
    status: next,
    events: eventsOf(job, next, tally.succeeded),
    release: tally.release,
    track: active.filter((pod) => !isTracked(pod) && !removed.has(pod)),
    remove,
    isUncounted,
    create,
    againAtMs: earliest(createAtMs, ending === undefined ? deadlineMs(job, next) : undefined),
  };
}

function tallyOf(job: Job, pods: readonly Pod[], isFailing: boolean): Tally {
  const { spec, status = {} } = job;
  const { completions = 0 } = spec;
  const byUid = new Map(pods.map((pod) => [pod.metadata.uid ?? '', pod]));
  const before = { succeeded: [], failed: [], ...status.uncountedTerminatedPods };
  const isOpen = (uid: string): boolean => {
    const pod = byUid.get(uid);
    return pod !== undefined && isTracked(pod);
  };
  const uncounted = { succeeded: before.succeeded.filter(isOpen), failed: before.failed.filter(isOpen) };
  const known = new Set([...before.succeeded, ...before.failed]);
  const indexes = new Set(parseIndexes(status.completedIndexes, isIndexed(job) ? completions : 0));
  const release: Pod[] = [];
  for (const pod of pods) {
    if (release.length === changesMax) break;
    const { uid = '' } = pod.metadata;
    const hasSucceeded = pod.status?.phase === 'Succeeded';
    // A job that fails waits for none of its pods to say how it ended.
    const hasFailed = isFailed(pod, spec) || (isFailing && isTerminating(pod));
    if (!isTracked(pod) || (!hasSucceeded && !hasFailed)) continue;
    release.push(pod);
    const index = indexOf(pod, job);
    if (known.has(uid) || (isIndexed(job) && index === undefined)) continue;
    if (!hasSucceeded && verdictOn(pod, spec).action !== 'Ignore') uncounted.failed.push(uid);
    else if (hasSucceeded && isIndexed(job) && index !== undefined) indexes.add(index);
    else if (hasSucceeded) uncounted.succeeded.push(uid);
  }
  const done = (kind: 'succeeded' | 'failed'): number => before[kind].filter((uid) => !isOpen(uid)).length;
  const counted = {
    succeeded: isIndexed(job) ? indexes.size : (status.succeeded ?? 0) + done('succeeded'),
    failed: (status.failed ?? 0) + done('failed'),
  };
  return {
    uncounted,
    counted,
    succeeded: counted.succeeded + uncounted.succeeded.length,
    failed: counted.failed + uncounted.failed.length,
    indexes,
    release,
    isSettled: release.length === 0,
  };
}

function endingOf({ conditions = [] }: JobStatus): Ending | undefined {
  for (const type of ['FailureTarget', 'SuccessCriteriaMet'] as const) {
    const found = conditions.find((one) => one.type === type && one.status === 'True');
    if (found !== undefined) return { type, reason: found.reason ?? '', message: found.message ?? '' };
  }
  return undefined;
}

/** Looked for among pods that are not counted yet: what was counted has been judged before. */
function policyEnding(job: Job, pods: readonly Pod[]): Ending | undefined {
  const failed = pods.filter((pod) => isTracked(pod) && isFailed(pod, job.spec));
  const verdict = failed.map((pod) => verdictOn(pod, job.spec)).find(({ action }) => action === 'FailJob');
  return verdict && { type: 'FailureTarget', reason: 'PodFailurePolicy', message: verdict.message };
}

function endingNow(job: Job, tally: Tally, active: readonly Pod[], nowMs: number): Ending | undefined {
  const { spec, status = {} } = job;
  const { backoffLimit = 0, completions } = spec;
  const fail = (reason: string, message: string): Ending => ({ type: 'FailureTarget', reason, message });
  if (tally.failed > backoffLimit || restartsTooOften(job, active)) {
    return fail('BackoffLimitExceeded', 'Job has reached the specified backoff limit');
  }
  if ((deadlineMs(job, status) ?? Infinity) <= nowMs) {
    return fail('DeadlineExceeded', 'Job was active longer than specified deadline');
  }
  const isEnough = completions === undefined ? tally.succeeded > 0 : tally.succeeded >= completions;
  if (!isEnough || active.length > 0) return undefined;
  const message = 'Reached expected number of succeeded pods';
  return { type: 'SuccessCriteriaMet', reason: 'CompletionsReached', message };
}

/** Of pods whose containers are started again in place. */
function restartsTooOften({ spec }: Job, active: readonly Pod[]): boolean {
  if (spec.template.spec.restartPolicy !== 'OnFailure') return false;
  const restarts = active
    .flatMap(({ status }) => [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])])
    .reduce((sum, { restartCount }) => sum + restartCount, 0);
  return restarts > 0 && restarts >= (spec.backoffLimit ?? 0);
}

/** Undefined for a job that does not run, or may for ever. */
function deadlineMs({ spec }: Job, { startTime }: JobStatus): number | undefined {
  const { activeDeadlineSeconds: seconds, suspend } = spec;
  if (seconds === undefined || startTime === undefined || suspend === true) return undefined;
  return Date.parse(startTime) + seconds * 1000;
}

interface Work {
  readonly job: Job;
  readonly pods: readonly Pod[];
  readonly active: readonly Pod[];
  readonly tally: Tally;
  readonly nowMs: number;
}

const none = { remove: [], isUncounted: false, create: [], createAtMs: undefined };

/** Which pods are too many, and which are missing. */
function workload({
  job,
  pods,
  active,
  tally,
  nowMs,
}: Work): Pick<JobPlan, 'remove' | 'isUncounted' | 'create'> & { readonly createAtMs: number | undefined } {
  const { spec } = job;
  const { completions, parallelism = 1, podReplacementPolicy } = spec;
  if (spec.suspend === true) return { ...none, remove: active.slice(0, changesMax), isUncounted: true };
  // A work queue: who has seen its end has succeeded, and the others are about to see it.
  const queued = tally.succeeded > 0 ? active.length : parallelism;
  const left = completions === undefined ? queued : Math.min(completions - tally.succeeded, parallelism);
  const wanted = Math.max(left, 0);
  const remove = surplus(job, active, active.length - wanted, tally.indexes, nowMs).slice(0, changesMax);
  if (remove.length > 0) return { ...none, remove, isUncounted: true };
  const ending =
    podReplacementPolicy === 'Failed' ? pods.filter((pod) => isTerminating(pod) && !isFailed(pod, spec)) : [];
  const missing = Math.min(wanted - active.length - ending.length, changesMax);
  if (missing <= 0) return none;
  const createAtMs = createAgainAtMs(pods, spec);
  if (createAtMs > nowMs) return { ...none, createAtMs };
  if (!isIndexed(job)) return { ...none, create: Array.from({ length: missing }, () => undefined) };
  const taken = new Set([...active, ...ending].map((pod) => indexOf(pod, job)));
  const create: number[] = [];
  for (let index = 0; index < (completions ?? 0) && create.length < missing; index += 1) {
    if (!taken.has(index) && !tally.indexes.has(index)) create.push(index);
  }
  return { ...none, create };
}

/** Pods of an index that another has or that is done, and pods without one, go whatever the number is. */
function surplus(
  job: Job,
  active: readonly Pod[],
  count: number,
  done: ReadonlySet<number>,
  nowMs: number,
): readonly Pod[] {
  const holders = new Set<number>();
  const useless = !isIndexed(job)
    ? []
    : active.filter((pod) => {
        const index = indexOf(pod, job);
        if (index === undefined || done.has(index) || holders.has(index)) return true;
        holders.add(index);
        return false;
      });
  const others = active.filter((pod) => !useless.includes(pod));
  const more = count - useless.length;
  return more <= 0 ? useless : [...useless, ...cheapestPods(others, more, active, nowMs)];
}

function statusOf({ job, pods, active, tally, nowMs }: Work, ending: Ending | undefined): JobStatus {
  const { spec, status = {} } = job;
  const { uncountedTerminatedPods: _before, startTime: _started, ...rest } = status;
  const { succeeded, failed } = tally.uncounted;
  const now = timestamp(nowMs);
  const isSuspended = spec.suspend === true;
  const isResumed = !isSuspended && hasCondition(status, 'Suspended');
  const startTime = isResumed || (status.startTime === undefined && !isSuspended) ? now : status.startTime;
  const terminating = pods.filter(isTerminating).length;
  const isOver =
    ending !== undefined && tally.isSettled && succeeded.length + failed.length + active.length + terminating === 0;
  const kept = status.conditions ?? [];
  const stamp = { lastProbeTime: now, lastTransitionTime: now };
  const set = (type: string, value: string, reason: string, message: string): NonNullable<typeof kept>[number] => ({
    type,
    status: value,
    ...stamp,
    reason,
    message,
  });
  const changed = [
    ...(ending !== undefined && !hasCondition(status, ending.type)
      ? [set(ending.type, 'True', ending.reason, ending.message)]
      : []),
    ...(isOver
      ? [set(ending.type === 'FailureTarget' ? 'Failed' : 'Complete', 'True', ending.reason, ending.message)]
      : []),
    ...(ending === undefined && isSuspended && !hasCondition(status, 'Suspended')
      ? [set('Suspended', 'True', 'JobSuspended', 'Job suspended')]
      : []),
    ...(ending === undefined && isResumed ? [set('Suspended', 'False', 'JobResumed', 'Job resumed')] : []),
  ];
  const conditions = [...kept.filter(({ type }) => !changed.some((one) => one.type === type)), ...changed];
  return {
    ...rest,
    ...(conditions.length > 0 && { conditions }),
    ...(startTime !== undefined && { startTime }),
    ...(isOver && ending.type === 'SuccessCriteriaMet' && { completionTime: now }),
    active: active.length,
    ready: active.filter(isReady).length,
    terminating,
    succeeded: tally.counted.succeeded,
    failed: tally.counted.failed,
    ...(isIndexed(job) && tally.indexes.size > 0 && { completedIndexes: formatIndexes(tally.indexes) }),
    uncountedTerminatedPods: {
      ...(succeeded.length > 0 && { succeeded }),
      ...(failed.length > 0 && { failed }),
    },
  };
}

function eventsOf({ spec, status }: Job, next: JobStatus, succeeded: number): readonly ControllerEvent[] {
  const isNew = (type: string): boolean => hasCondition(next, type) && !hasCondition(status, type);
  const normal = (reason: string, message: string): ControllerEvent => ({ type: 'Normal', reason, message });
  const isTooMany = isNew('Complete') && spec.completions !== undefined && succeeded > spec.completions;
  const tooMany = 'Too many succeeded pods running after completion count reached';
  const failure = next.conditions?.find(({ type }) => type === 'Failed');
  const isResumed = hasCondition(status, 'Suspended') && !hasCondition(next, 'Suspended');
  return [
    ...(isTooMany ? [{ type: 'Warning' as const, reason: 'TooManySucceededPods', message: tooMany }] : []),
    ...(isNew('Complete') ? [normal('Completed', 'Job completed')] : []),
    ...(isNew('Failed')
      ? [{ type: 'Warning' as const, reason: failure?.reason ?? '', message: failure?.message ?? '' }]
      : []),
    ...(isNew('Suspended') ? [normal('Suspended', 'Job suspended')] : []),
    ...(isResumed ? [normal('Resumed', 'Job resumed')] : []),
  ];
}

function earliest(...times: readonly (number | undefined)[]): number | undefined {
  const known = times.flatMap((time) => time ?? []);
  return known.length === 0 ? undefined : Math.min(...known);
}
