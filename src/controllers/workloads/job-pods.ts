/** What the pods of a Job say: which index each has, how it ended, and what its failure means. And what a new one is made from. Pure. */
import { delayAfter } from '../../base/back-off.ts';
import { type Job, type JobSpec } from '../../kube/kinds/workloads/job.ts';
import type { Pod, PodTemplateSpec } from '../../kube/kinds/pod/pod.ts';
import type { PodSpec } from '../../kube/kinds/pod/pod-spec.ts';
import type { ObjectMeta } from '../../kube/schema/meta.ts';
import { isTerminating } from './pod-state.ts';

/** Until it is counted, a pod that ended stays: without this name among its finalizers it is counted, or need not be. */
export const trackingFinalizer = 'batch.kubernetes.io/job-tracking';
const indexKey = 'batch.kubernetes.io/job-completion-index';
const indexVariable = 'JOB_COMPLETION_INDEX';

export function isTracked({ metadata: { finalizers = [] } }: Pod): boolean {
  return finalizers.includes(trackingFinalizer);
}

export function isIndexed({ spec }: Job): boolean {
  return spec.completionMode === 'Indexed';
}

/** Of a pod of an indexed job; undefined where it has none that the job can count. */
export function indexOf({ metadata: { annotations = {} } }: Pod, { spec }: Job): number | undefined {
  const text = annotations[indexKey] ?? '';
  const index = /^\d{1,9}$/.test(text) ? Number(text) : undefined;
  return index !== undefined && index < (spec.completions ?? 0) ? index : undefined;
}

interface JobPod {
  readonly template: PodTemplateSpec;
  readonly own: Partial<ObjectMeta>;
}

/** What the next pod is made from: with its index, where the job has indexes. */
export function jobPod({ metadata: { name }, spec: { template } }: Job, index: number | undefined): JobPod {
  const finalizers = [trackingFinalizer];
  if (index === undefined) return { template, own: { finalizers } };
  const mark = { [indexKey]: String(index) };
  const spec: PodSpec = {
    ...template.spec,
    hostname: `${name}-${index}`,
    containers: template.spec.containers.map(withIndexVariable),
    ...(template.spec.initContainers && { initContainers: template.spec.initContainers.map(withIndexVariable) }),
  };
  const generateName = `${name}-${index}-`;
  return { template: { ...template, spec }, own: { generateName, labels: mark, annotations: mark, finalizers } };
}

type Container = PodSpec['containers'][number];

function withIndexVariable(container: Container): Container {
  const { env = [] } = container;
  if (env.some(({ name }) => name === indexVariable)) return container;
  const fieldRef = { fieldPath: `metadata.labels['${indexKey}']` };
  return { ...container, env: [...env, { name: indexVariable, valueFrom: { fieldRef } }] };
}

/** `0,2-4,6,7`, without what is no number below the limit. */
export function parseIndexes(text: string | undefined, limit: number): ReadonlySet<number> {
  const indexes = new Set<number>();
  for (const part of (text ?? '').split(',')) {
    const [, from, to] = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part) ?? [];
    if (from === undefined) continue;
    const last = Math.min(Number(to ?? from), limit - 1);
    for (let index = Number(from); index <= last; index += 1) indexes.add(index);
  }
  return indexes;
}

/** Runs of three and more are written with a dash. */
export function formatIndexes(indexes: ReadonlySet<number>): string {
  const sorted = [...indexes].sort((a, b) => a - b);
  const runs: { first: number; last: number }[] = [];
  for (const index of sorted) {
    const run = runs.at(-1);
    if (run?.last === index - 1) run.last = index;
    else runs.push({ first: index, last: index });
  }
  return runs
    .map(({ first, last }) => {
      if (first === last) return `${first}`;
      return last === first + 1 ? `${first},${last}` : `${first}-${last}`;
    })
    .join(',');
}

/** It ended without success, or will: with the policy `Failed` one that is being deleted still may succeed. */
export function isFailed(pod: Pod, { podReplacementPolicy }: JobSpec): boolean {
  const { phase } = pod.status ?? {};
  if (phase === 'Failed' || phase === 'Succeeded') return phase === 'Failed';
  if (pod.metadata.deletionTimestamp === undefined) return false;
  // No node will ever say how a pod ended that has none.
  return podReplacementPolicy !== 'Failed' || (pod.spec.nodeName ?? '') === '';
}

/** By its last container; where none says so, by what else is known. */
function finishedAtMs(pod: Pod): number | undefined {
  const { containerStatuses = [], conditions = [] } = pod.status ?? {};
  const ends = containerStatuses.map(({ state }) => Date.parse(state?.terminated?.finishedAt ?? ''));
  const known = ends.filter((time) => !Number.isNaN(time));
  if (known.length > 0) return Math.max(...known);
  const { deletionTimestamp, deletionGracePeriodSeconds = 0, creationTimestamp } = pod.metadata;
  const ready = conditions.find(({ type }) => type === 'Ready')?.lastTransitionTime;
  const time = isTerminating(pod)
    ? Date.parse(deletionTimestamp ?? '') - deletionGracePeriodSeconds * 1000
    : Date.parse(ready ?? creationTimestamp ?? '');
  return Number.isNaN(time) ? undefined : time;
}

const createAgain = { firstMs: 10_000, msMax: 10 * 60_000 };

/** Since the last success each failure doubles the time until pods are created again. */
export function createAgainAtMs(pods: readonly Pod[], spec: JobSpec): number {
  const ends = pods.flatMap((pod) => {
    const isSuccess = pod.status?.phase === 'Succeeded';
    const at = isSuccess || isFailed(pod, spec) ? finishedAtMs(pod) : undefined;
    return at === undefined ? [] : [{ at, isSuccess }];
  });
  const lastSuccess = Math.max(-Infinity, ...ends.filter(({ isSuccess }) => isSuccess).map(({ at }) => at));
  const failures = ends.filter(({ at, isSuccess }) => !isSuccess && at > lastSuccess).map(({ at }) => at);
  if (failures.length === 0) return -Infinity;
  return Math.max(...failures) + delayAfter(failures.length, createAgain);
}

interface FailureVerdict {
  readonly action: 'Count' | 'Ignore' | 'FailJob';
  readonly message: string;
}

const counted: FailureVerdict = { action: 'Count', message: '' };

/** What the job's policy says of a failed pod: by the first rule that matches it. */
export function verdictOn(pod: Pod, { podFailurePolicy }: JobSpec): FailureVerdict {
  const { rules = [] } = podFailurePolicy ?? {};
  // Only a pod that ended has exit codes and conditions to be judged by.
  if (pod.status?.phase !== 'Failed') return counted;
  const who = `${pod.metadata.namespace ?? ''}/${pod.metadata.name}`;
  for (const [index, { action, onExitCodes, onPodConditions = [] }] of rules.entries()) {
    const exited = onExitCodes === undefined ? undefined : exitedAs(pod, onExitCodes);
    const condition = onPodConditions.find(({ type, status }) =>
      (pod.status?.conditions ?? []).some((one) => one.type === type && one.status === status),
    );
    if (exited === undefined && condition === undefined) continue;
    if (action !== 'FailJob') return { action: action === 'Ignore' ? 'Ignore' : 'Count', message: '' };
    const what =
      exited === undefined
        ? `Pod ${who} has condition ${condition?.type}`
        : `Container ${exited.name} for pod ${who} failed with exit code ${exited.exitCode}`;
    return { action, message: `${what} matching FailJob rule at index ${index}` };
  }
  return counted;
}

type ExitRule = NonNullable<NonNullable<JobSpec['podFailurePolicy']>['rules'][number]['onExitCodes']>;

function exitedAs(
  { status }: Pod,
  { containerName, operator, values }: ExitRule,
): { readonly name: string; readonly exitCode: number } | undefined {
  const all = [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])];
  for (const { name, state } of all) {
    const exitCode = state?.terminated?.exitCode ?? 0;
    if (exitCode === 0 || (containerName !== undefined && containerName !== name)) continue;
    if (values.includes(exitCode) === (operator === 'In')) return { name, exitCode };
  }
  return undefined;
}
