/** Jobs and CronJobs: what the server decides of a new one, what an update may touch, and their tables. */
import { type CronJob, cronJobKind, cronJobShape } from '../../kube/kinds/workloads/cron-job.ts';
import { generatedLabels, hasCondition, validateJobStatusUpdate } from '../../kube/kinds/workloads/job-validation.ts';
import { type Job, type JobSpec, jobKind, jobShape } from '../../kube/kinds/workloads/job.ts';
import { age, ageSince } from '../../kube/values/times.ts';
import { ageColumn, nameColumn, orNone, text } from '../model/columns.ts';
import { keepFields, resource } from '../model/resource.ts';
import { podWarnings } from './pod-warnings.ts';
import { plainStatus } from './storage.ts';
import { counted, templateColumns, withGeneration } from './workloads.ts';

export const jobs = resource(jobKind, {
  subresources: [plainStatus(validateJobStatusUpdate)],
  prepareForCreate: (object) => withGeneration(withSelector({ ...object, status: {} }), 1),
  prepareForUpdate: (object, old) => counted(jobShape, keepFields(object, old, 'status'), old),
  // Who deletes a job and says nothing of its pods keeps them.
  deletion: { dependents: 'Orphan' },
  warnings: ({ spec }) => jobWarnings(spec, 'spec'),
  fields: { 'status.successful': ({ status }) => String(status?.succeeded ?? 0) },
  columns: [
    nameColumn,
    text('Status', 'Whether the job runs, or how it ended.', statusOf),
    text('Completions', 'How many pods have succeeded, of how many.', completionsOf),
    text('Duration', 'How long the job ran, or has been running.', durationOf),
    ageColumn,
    ...templateColumns<Job>(({ spec }) => spec),
  ],
});

export const cronJobs = resource(cronJobKind, {
  subresources: [plainStatus()],
  prepareForCreate: (object) => withGeneration({ ...object, status: {} }, 1),
  prepareForUpdate: (object, old) => counted(cronJobShape, keepFields(object, old, 'status'), old),
  warnings: ({ spec }) => jobWarnings(spec.jobTemplate.spec, 'spec.jobTemplate.spec'),
  columns: [
    nameColumn,
    text('Schedule', 'When jobs are made.', ({ spec }) => spec.schedule),
    text('Timezone', 'Whose clocks count.', ({ spec }) => orNone(spec.timeZone)),
    text('Suspend', 'Whether no jobs are made.', ({ spec }) => (spec.suspend === true ? 'True' : 'False')),
    {
      name: 'Active',
      type: 'integer',
      description: 'How many of its jobs run.',
      priority: 0,
      cell: ({ status }) => status?.active?.length ?? 0,
    },
    text('Last Schedule', 'The time since the last job was due.', ({ status }, now) =>
      status?.lastScheduleTime === undefined ? '<none>' : ageSince(status.lastScheduleTime, now),
    ),
    ageColumn,
    ...templateColumns<CronJob>(({ spec }) => spec.jobTemplate.spec),
  ],
});

/** What is kept and not acted on. */
function jobWarnings(spec: JobSpec, path: string): readonly string[] {
  const unused = ['successPolicy', 'backoffLimitPerIndex', 'maxFailedIndexes'] as const;
  return [
    ...unused
      .filter((field) => spec[field] !== undefined)
      .map((field) => `${path}.${field}: kept, but this server's job controller does not act on it`),
    ...podWarnings(spec.template.spec, `${path}.template.spec`),
  ];
}

/** Its pods have labels with its UID, by which they are its own and no other's; labels that are given are kept. */
function withSelector(job: Job): Job {
  const { spec } = job;
  if (spec.manualSelector === true) return job;
  const labels = { ...generatedLabels(job), ...spec.template.metadata?.labels };
  const { uid = '' } = job.metadata;
  const matchLabels = { ...spec.selector?.matchLabels, 'batch.kubernetes.io/controller-uid': uid };
  return {
    ...job,
    spec: {
      ...spec,
      selector: { ...spec.selector, matchLabels },
      template: { ...spec.template, metadata: { ...spec.template.metadata, labels } },
    },
  };
}

function statusOf({ metadata, status }: Job): string {
  const has = (type: string): boolean => hasCondition(status, type);
  if (has('Complete')) return 'Complete';
  if (has('Failed')) return 'Failed';
  if (metadata.deletionTimestamp !== undefined) return 'Terminating';
  return ['Suspended', 'FailureTarget', 'SuccessCriteriaMet'].find(has) ?? 'Running';
}

function completionsOf({ spec, status }: Job): string {
  const { completions, parallelism = 1 } = spec;
  const succeeded = status?.succeeded ?? 0;
  if (completions !== undefined) return `${succeeded}/${completions}`;
  return parallelism > 1 ? `${succeeded}/1 of ${parallelism}` : `${succeeded}/1`;
}

function durationOf({ status }: Job, now: number): string {
  const { startTime, completionTime } = status ?? {};
  if (startTime === undefined) return '';
  return age((completionTime === undefined ? now : Date.parse(completionTime)) - Date.parse(startTime));
}
