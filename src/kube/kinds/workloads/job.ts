/** A Job: pods that run until enough of them have succeeded, or too many have failed. */
import { resourceKind } from '../../schema/kind.ts';
import { labelSelector, objectFields } from '../../schema/meta.ts';
import {
  type Of,
  atomic,
  boolean,
  described,
  int32,
  integer,
  list,
  object,
  required,
  setOf,
  string,
  time,
} from '../../schema/schema.ts';
import { defaultPodTemplateSpec, podTemplateSpec } from '../pod/pod.ts';
import { validateJob, validateJobUpdate } from './job-validation.ts';

const podFailurePolicy = described(
  {
    text: 'What the failure of a pod means for the job.',
    fields: { rules: 'The first rule that matches a failed pod decides.' },
  },
  object({
    rules: required(
      atomic(
        list(
          object({
            action: required(string),
            onExitCodes: object({
              containerName: string,
              operator: required(string),
              values: required(setOf(int32)),
            }),
            onPodConditions: atomic(list(object({ type: required(string), status: string }))),
          }),
        ),
      ),
    ),
  }),
);

export const jobSpec = described(
  {
    name: 'io.k8s.api.batch.v1.JobSpec',
    text: 'What a job should do.',
    fields: {
      parallelism: 'How many pods run at a time.',
      completions: 'How many pods have to succeed. Absent: one success ends a work queue.',
      activeDeadlineSeconds: 'How long the job may take.',
      podFailurePolicy: 'What the failure of a pod means for the job.',
      successPolicy: 'When fewer successes are enough. Kept, and not acted on by this server.',
      backoffLimit: 'How many failures are too many.',
      backoffLimitPerIndex: 'How many failures of one index are too many. Kept, and not acted on by this server.',
      maxFailedIndexes: 'How many failed indexes are too many. Kept, and not acted on by this server.',
      selector: 'Which pods are counted. Made by the server.',
      manualSelector: 'The selector is the one given here.',
      template: 'What each pod should be.',
      ttlSecondsAfterFinished: 'When a finished job is deleted.',
      completionMode: 'NonIndexed, or Indexed: each success has a number.',
      suspend: 'No pods run while this is true.',
      podReplacementPolicy: 'When a pod that ends is replaced: TerminatingOrFailed, or Failed.',
      managedBy: 'Which controller acts on the job.',
    },
  },
  object({
    parallelism: int32,
    completions: int32,
    activeDeadlineSeconds: integer,
    podFailurePolicy,
    successPolicy: object({
      rules: required(atomic(list(object({ succeededIndexes: string, succeededCount: int32 })))),
    }),
    backoffLimit: int32,
    backoffLimitPerIndex: int32,
    maxFailedIndexes: int32,
    selector: labelSelector,
    manualSelector: boolean,
    template: required(podTemplateSpec),
    ttlSecondsAfterFinished: int32,
    completionMode: string,
    suspend: boolean,
    podReplacementPolicy: string,
    managedBy: string,
  }),
);
export interface JobSpec extends Of<typeof jobSpec> {}

const jobStatus = object({
  conditions: list(
    object({
      type: required(string),
      status: required(string),
      lastProbeTime: time,
      lastTransitionTime: time,
      reason: string,
      message: string,
    }),
    'type',
  ),
  startTime: time,
  completionTime: time,
  active: int32,
  succeeded: int32,
  failed: int32,
  terminating: int32,
  completedIndexes: string,
  failedIndexes: string,
  uncountedTerminatedPods: object({ succeeded: setOf(string), failed: setOf(string) }),
  ready: int32,
});
export interface JobStatus extends Of<typeof jobStatus> {}

export const jobShape = described(
  {
    text: 'Pods that run until enough of them have succeeded.',
    fields: { spec: 'What the job should do.', status: 'How far it is.' },
  },
  object({ ...objectFields, spec: required(jobSpec), status: jobStatus }),
);
export interface Job extends Of<typeof jobShape> {}

export const jobKind = resourceKind<Job>({
  group: 'batch',
  kind: 'Job',
  plural: 'jobs',
  categories: ['all'],
  namespaced: true,
  shape: jobShape,
  complete: defaultJob,
  validate: validateJob,
  validateUpdate: validateJobUpdate,
  wire: {
    Job: '1 metadata ObjectMeta, 2 spec JobSpec, 3 status JobStatus',
    JobSpec: `
    1 parallelism? int, 2 completions? int, 3 activeDeadlineSeconds? int, 11 podFailurePolicy? PodFailurePolicy,
    16 successPolicy? SuccessPolicy, 7 backoffLimit? int, 12 backoffLimitPerIndex? int, 13 maxFailedIndexes? int,
    4 selector? LabelSelector, 5 manualSelector? bool, 6 template PodTemplateSpec, 8 ttlSecondsAfterFinished? int,
    9 completionMode?, 10 suspend? bool, 14 podReplacementPolicy?, 15 managedBy?`,
    PodFailurePolicy: '1 rules [PodFailurePolicyRule]',
    PodFailurePolicyRule: `
    1 action!, 2 onExitCodes? PodFailurePolicyOnExitCodesRequirement,
    3 onPodConditions [PodFailurePolicyOnPodConditionsPattern]`,
    PodFailurePolicyOnExitCodesRequirement: '1 containerName?, 2 operator!, 3 values! [int]',
    PodFailurePolicyOnPodConditionsPattern: '1 type!, 2 status',
    SuccessPolicy: '1 rules [SuccessPolicyRule]',
    SuccessPolicyRule: '1 succeededIndexes?, 2 succeededCount? int',
    JobStatus: `
    1 conditions [JobCondition], 2 startTime Time, 3 completionTime Time, 4 active int, 5 succeeded int, 6 failed int,
    11 terminating? int, 7 completedIndexes, 10 failedIndexes?, 8 uncountedTerminatedPods? UncountedTerminatedPods,
    9 ready? int`,
    JobCondition: `
    1 type!, 2 status!, 3 lastProbeTime Time, 4 lastTransitionTime Time, 5 reason, 6 message`,
    UncountedTerminatedPods: '1 succeeded [string], 2 failed [string]',
  },
});

const int32Max = 2 ** 31 - 1;

export function defaultJob(job: Job): Job {
  const { labels = {} } = job.metadata;
  const ofTemplate = job.spec.template.metadata?.labels ?? {};
  const isUnlabelled = Object.keys(labels).length === 0 && Object.keys(ofTemplate).length > 0;
  const metadata = isUnlabelled ? { ...job.metadata, labels: ofTemplate } : job.metadata;
  return { ...job, metadata, spec: defaultJobSpec(job.spec) };
}

export function defaultJobSpec(spec: JobSpec): JobSpec {
  const { completions, parallelism, backoffLimitPerIndex, podFailurePolicy: policy } = spec;
  const isSingle = completions === undefined && parallelism === undefined;
  return {
    ...spec,
    ...(isSingle && { completions: 1 }),
    parallelism: parallelism ?? 1,
    backoffLimit: spec.backoffLimit ?? (backoffLimitPerIndex === undefined ? 6 : int32Max),
    completionMode: spec.completionMode ?? 'NonIndexed',
    suspend: spec.suspend ?? false,
    manualSelector: spec.manualSelector ?? false,
    podReplacementPolicy: spec.podReplacementPolicy ?? (policy === undefined ? 'TerminatingOrFailed' : 'Failed'),
    template: defaultPodTemplateSpec(spec.template),
    ...(policy && {
      podFailurePolicy: {
        rules: policy.rules.map((rule) => ({
          ...rule,
          ...(rule.onPodConditions && {
            onPodConditions: rule.onPodConditions.map(({ type, status }) => ({ type, status: status || 'True' })),
          }),
        })),
      },
    }),
  };
}
