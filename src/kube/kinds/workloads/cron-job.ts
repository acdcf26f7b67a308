/** A CronJob: makes a Job at each time of a schedule. */
import { type FieldError, invalidField, requiredField, unsupportedField } from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { objectFields, objectReference, templateMeta } from '../../schema/meta.ts';
import { nonNegativeErrors, validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import {
  type FieldPath,
  type Of,
  atomic,
  boolean,
  described,
  int32,
  integer,
  list,
  object,
  required,
  string,
  time,
} from '../../schema/schema.ts';
import { cronProblem, timeZoneProblem } from '../../values/cron-schedule.ts';
import { dnsSubdomainProblems } from '../../values/names.ts';
import { validateJobSpec } from './job-validation.ts';
import { defaultJobSpec, jobSpec } from './job.ts';

export const cronJobShape = described(
  {
    text: 'Makes a job at each time of a schedule.',
    fields: { spec: 'Which jobs, and when.', status: 'What was made of it.' },
  },
  object({
    ...objectFields,
    spec: required(
      described(
        {
          text: 'Which jobs are made, and when.',
          fields: {
            schedule: 'Minute, hour, day of month, month and day of week, or @hourly and its like.',
            timeZone: 'Whose clocks count: a name such as Europe/Berlin.',
            startingDeadlineSeconds: 'How late a job may still be made.',
            concurrencyPolicy: 'What happens while the last job still runs: Allow, Forbid or Replace.',
            suspend: 'No jobs are made while this is true.',
            jobTemplate: 'What the jobs should be.',
            successfulJobsHistoryLimit: 'How many completed jobs are kept.',
            failedJobsHistoryLimit: 'How many failed jobs are kept.',
          },
        },
        object({
          schedule: required(string),
          timeZone: string,
          startingDeadlineSeconds: integer,
          concurrencyPolicy: string,
          suspend: boolean,
          jobTemplate: required(object({ metadata: templateMeta, spec: required(jobSpec) })),
          successfulJobsHistoryLimit: int32,
          failedJobsHistoryLimit: int32,
        }),
      ),
    ),
    status: object({
      active: atomic(list(objectReference)),
      lastScheduleTime: time,
      lastSuccessfulTime: time,
    }),
  }),
);
export interface CronJob extends Of<typeof cronJobShape> {}

export const cronJobKind = resourceKind<CronJob>({
  group: 'batch',
  kind: 'CronJob',
  plural: 'cronjobs',
  shortNames: ['cj'],
  categories: ['all'],
  namespaced: true,
  shape: cronJobShape,
  complete: defaultCronJob,
  validate: (cronJob) => [
    ...validateObjectMeta(cronJob.metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...specErrors(cronJob.spec, undefined),
    ...lengthErrors(cronJob.metadata.name),
  ],
  validateUpdate: (cronJob, old) => [
    ...validateObjectMetaUpdate(cronJob.metadata, old.metadata),
    ...specErrors(cronJob.spec, old.spec),
  ],
  wire: {
    CronJob: '1 metadata ObjectMeta, 2 spec CronJobSpec, 3 status CronJobStatus',
    CronJobSpec: `
    1 schedule!, 8 timeZone?, 2 startingDeadlineSeconds? int, 3 concurrencyPolicy, 4 suspend? bool,
    5 jobTemplate JobTemplateSpec, 6 successfulJobsHistoryLimit? int, 7 failedJobsHistoryLimit? int`,
    JobTemplateSpec: '1 metadata ObjectMeta, 2 spec JobSpec',
    CronJobStatus: '1 active [ObjectReference], 4 lastScheduleTime Time, 5 lastSuccessfulTime Time',
  },
});

type Spec = CronJob['spec'];

function defaultCronJob(cronJob: CronJob): CronJob {
  const { spec } = cronJob;
  const { jobTemplate } = spec;
  return {
    ...cronJob,
    spec: {
      ...spec,
      concurrencyPolicy: spec.concurrencyPolicy || 'Allow',
      suspend: spec.suspend ?? false,
      jobTemplate: { ...jobTemplate, spec: defaultJobSpec(jobTemplate.spec) },
      successfulJobsHistoryLimit: spec.successfulJobsHistoryLimit ?? 3,
      failedJobsHistoryLimit: spec.failedJobsHistoryLimit ?? 1,
    },
  };
}

/** A job's name is eleven characters longer, and its pods have it in a label. */
const nameLengthMax = 52;

function lengthErrors(name: string): FieldError[] {
  return name.length <= nameLengthMax
    ? []
    : [invalidField(['metadata', 'name'], name, `must be no more than ${nameLengthMax} characters`)];
}

const policies = ['Allow', 'Forbid', 'Replace'];

function specErrors(spec: Spec, old: Spec | undefined): readonly FieldError[] {
  const path = ['spec'];
  const { timeZone, concurrencyPolicy = '', jobTemplate } = spec;
  const zoneProblem = timeZone === undefined || timeZone === old?.timeZone ? undefined : timeZoneProblem(timeZone);
  const counts = ['startingDeadlineSeconds', 'successfulJobsHistoryLimit', 'failedJobsHistoryLimit'] as const;
  const jobPath = [...path, 'jobTemplate', 'spec'];
  const { selector, manualSelector } = jobTemplate.spec;
  return [
    ...scheduleErrors(spec, [...path, 'schedule']),
    ...(zoneProblem === undefined ? [] : [invalidField([...path, 'timeZone'], timeZone, zoneProblem)]),
    ...(policies.includes(concurrencyPolicy)
      ? []
      : [unsupportedField([...path, 'concurrencyPolicy'], concurrencyPolicy, policies)]),
    ...validateJobSpec(jobTemplate.spec, jobPath),
    ...(selector === undefined
      ? []
      : [invalidField([...jobPath, 'selector'], selector, '`selector` will be auto-generated')]),
    ...(manualSelector === true ? [unsupportedField([...jobPath, 'manualSelector'], true, ['nil', 'false'])] : []),
    ...counts.flatMap((field) => nonNegativeErrors(spec[field] ?? 0, [...path, field])),
  ];
}

function scheduleErrors({ schedule }: Spec, path: FieldPath): FieldError[] {
  if (schedule === '') return [requiredField(path)];
  const problem = cronProblem(schedule);
  const zone = 'cannot use TZ or CRON_TZ in schedule, use timeZone field instead';
  return [
    ...(problem === undefined ? [] : [invalidField(path, schedule, problem)]),
    ...(schedule.includes('TZ') ? [invalidField(path, schedule, zone)] : []),
  ];
}
