/** The rules of Jobs and CronJobs, each by its exact messages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded } from '../../../testing/fakes/builders.ts';
import { testKind } from '../../../testing/fakes/kind-cases.ts';
import { cronJobKind } from './cron-job.ts';
import { type Job, jobKind } from './job.ts';

type Spec = Readonly<Record<string, unknown>>;

const labels = { app: 'sum' };
const containers = [{ name: 'main', image: 'sum' }];
const pods = { containers, restartPolicy: 'Never' };
const template = { metadata: { labels }, spec: pods };
const selected = { manualSelector: true, selector: { matchLabels: labels }, template };
const job = (spec: Spec = {}): { readonly spec: Spec } => ({ spec: { ...selected, ...spec } });
const running = (spec: Spec): Spec => ({ template: { metadata: { labels }, spec: { ...pods, ...spec } } });
const indexed = (spec: Spec = {}): { readonly spec: Spec } =>
  job({ completionMode: 'Indexed', completions: 3, parallelism: 3, ...spec });

const nonNegative = 'must be greater than or equal to 0';
const immutable = 'field is immutable';
const uid = 'u-1';
const generated = {
  'controller-uid': uid,
  'job-name': 'x',
  'batch.kubernetes.io/controller-uid': uid,
  'batch.kubernetes.io/job-name': 'x',
};

const rule = 'spec.podFailurePolicy.rules[0]';
const policy = (...rules: readonly object[]): { readonly spec: Spec } => job({ podFailurePolicy: { rules } });
const onExit = (parts: object): object => ({
  action: 'FailJob',
  onExitCodes: { operator: 'In', values: [1], ...parts },
});

testKind(jobKind, [
  { it: 'takes what most people write', object: job() },
  {
    it: 'takes what the server makes of it',
    object: {
      metadata: { uid },
      spec: {
        selector: { matchLabels: { 'batch.kubernetes.io/controller-uid': uid } },
        template: { metadata: { labels: generated }, spec: pods },
      },
    },
  },
  {
    it: 'has no selector of its own, unless it says so',
    object: {
      metadata: { uid },
      spec: {
        selector: { matchLabels: labels },
        template: { metadata: { labels: { ...labels, ...generated } }, spec: pods },
      },
    },
    errors: ['spec.selector: Invalid value: {"matchLabels":{"app":"sum"}}: `selector` not auto-generated'],
  },
  {
    it: 'needs a selector that chooses its own pods',
    object: job({ selector: { matchLabels: { app: 'other' } } }),
    errors: [
      'spec.template.metadata.labels: Invalid value: {"app":"sum"}: `selector` does not match template `labels`',
    ],
  },
  ...['Always', undefined].map((restartPolicy) => ({
    it: `makes pods that end, not ${restartPolicy ?? 'those of the default'}`,
    object: job(running({ restartPolicy })),
    errors: ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
  })),
  {
    it: 'has no negative numbers',
    object: job({
      parallelism: -1,
      completions: -1,
      activeDeadlineSeconds: -1,
      backoffLimit: -1,
      ttlSecondsAfterFinished: -1,
    }),
    errors: ['parallelism', 'completions', 'activeDeadlineSeconds', 'backoffLimit', 'ttlSecondsAfterFinished'].map(
      (field) => `spec.${field}: Invalid value: -1: ${nonNegative}`,
    ),
  },
  {
    it: 'has indexes only up to a number',
    object: job({ completionMode: 'Indexed', parallelism: 2 }),
    errors: ['spec.completions: Required value: when completion mode is Indexed'],
  },
  {
    it: 'gives its pods host names that are right',
    object: { ...indexed(), metadata: { name: 'a.b' } },
    errors: ['metadata.name: Invalid value: "a.b": will not able to create pod with invalid DNS label: a.b-2'],
  },
  {
    it: 'counts failures of indexes only where there are some',
    object: job({ backoffLimitPerIndex: 1, maxFailedIndexes: 1 }),
    errors: [
      'spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode',
      'spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode',
    ],
  },
  {
    it: 'fails after failures of indexes that are counted',
    object: indexed({ maxFailedIndexes: 4 }),
    errors: [
      'spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified',
      'spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions',
    ],
  },
  {
    it: 'has one of two modes',
    object: job({ completionMode: 'Random' }),
    errors: ['spec.completionMode: Unsupported value: "Random": supported values: "NonIndexed", "Indexed"'],
  },
  {
    it: 'is left to a controller with a domain',
    object: job({ managedBy: 'me' }),
    errors: ['spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")'],
  },
  {
    it: 'takes a policy for failures',
    object: policy(onExit({}), { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget' }] }),
  },
  {
    it: 'has a policy for pods that are not restarted',
    object: job({ podFailurePolicy: { rules: [onExit({})] }, ...running({ restartPolicy: 'OnFailure' }) }),
    errors: [
      'spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified',
    ],
  },
  {
    it: 'has rules that look at something',
    object: policy({ action: 'Count' }),
    errors: [
      `${rule}: Invalid value: {"action":"Count"}: specifying one of OnExitCodes and OnPodConditions is required`,
    ],
  },
  {
    it: 'has rules that look at one thing',
    object: policy({ action: 'Count', onExitCodes: { operator: 'In', values: [1] }, onPodConditions: [{ type: 'X' }] }),
    errors: [
      `${rule}: Invalid value: {"action":"Count","onExitCodes":{"operator":"In","values":[1]},"onPodConditions":[{"type":"X","status":"True"}]}: specifying both OnExitCodes and OnPodConditions is not supported`,
    ],
  },
  {
    it: 'has rules with codes of failures, in order and each once',
    object: policy(onExit({ values: [2, 0, 2] })),
    errors: [
      `${rule}.onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator`,
      `${rule}.onExitCodes.values[2]: Duplicate value: 2`,
      `${rule}.onExitCodes.values: Invalid value: [2,0,2]: must be ordered`,
    ],
  },
  {
    it: 'has rules for containers that it has',
    object: policy(onExit({ containerName: 'other', operator: 'Is' })),
    errors: [
      `${rule}.onExitCodes.operator: Unsupported value: "Is": supported values: "In", "NotIn"`,
      `${rule}.onExitCodes.containerName: Invalid value: "other": must be one of the container or initContainer names in the pod template`,
    ],
  },
  {
    it: 'has at most twenty rules',
    object: policy(...Array.from({ length: 21 }, () => onExit({}))),
    errors: ['spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items'],
  },
  {
    it: 'fails an index only where failures of one are limited',
    object: policy({ ...onExit({}), action: 'FailIndex' }),
    errors: [`${rule}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set`],
  },
  {
    it: 'replaces pods that have failed, where a policy looks at them',
    object: job({ podFailurePolicy: { rules: [onExit({})] }, podReplacementPolicy: 'TerminatingOrFailed' }),
    errors: ['spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"'],
  },
  { it: 'takes a policy for success', object: indexed({ successPolicy: { rules: [{ succeededCount: 1 }] } }) },
  {
    it: 'has a policy for success only with indexes',
    object: job({ successPolicy: { rules: [{ succeededCount: 1 }] } }),
    errors: ['spec.successPolicy: Invalid value: {"rules":[{"succeededCount":1}]}: requires indexed completion mode'],
  },
  {
    it: 'has a policy for success that says when',
    object: indexed({ successPolicy: { rules: [{}] } }),
    errors: [
      'spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified',
    ],
  },
  {
    it: 'may run more pods, longer, and wait',
    old: job(),
    object: job({
      parallelism: 3,
      completions: 1,
      activeDeadlineSeconds: 9,
      backoffLimit: 1,
      suspend: true,
      ttlSecondsAfterFinished: 1,
    }),
  },
  {
    it: 'keeps how often it has to succeed',
    old: job({ completions: 2, parallelism: 2 }),
    object: job({ completions: 3, parallelism: 3 }),
    errors: [`spec.completions: Invalid value: 3: ${immutable}`],
  },
  { it: 'may get more indexes, and run them all', old: indexed(), object: indexed({ completions: 5, parallelism: 5 }) },
  {
    it: 'may get more indexes only if it runs them all',
    old: indexed(),
    object: indexed({ completions: 5 }),
    errors: ['spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism'],
  },
  {
    it: 'keeps its mode',
    old: job({ completions: 3, parallelism: 3 }),
    object: indexed(),
    errors: [`spec.completionMode: Invalid value: "Indexed": ${immutable}`],
  },
  {
    it: 'keeps its policy',
    old: job({ podReplacementPolicy: 'Failed' }),
    object: policy(onExit({})),
    errors: [
      `spec.podFailurePolicy: Invalid value: {"rules":[{"action":"FailJob","onExitCodes":{"operator":"In","values":[1]}}]}: ${immutable}`,
    ],
  },
  {
    it: 'runs elsewhere from now on, while it waits',
    old: job({ suspend: true }),
    object: job({ suspend: true, ...running({ nodeSelector: { k: '' } }) }),
  },
]);

test('Job keeps its template while it runs, down to a node label without text', () => {
  const metadata = { name: 'x', namespace: 'shop', resourceVersion: '1' };
  const from = (parts: Spec): Job => jobKind.complete(decoded(jobKind.shape, { metadata, ...job(running(parts)) }));
  const errors = jobKind.validateUpdate(from({ nodeSelector: { k: '' } }), from({}));
  assert.deepEqual(
    errors.map(({ path, message }) => [path.join('.'), message.replace(/^.*: /, '')]),
    [['spec.template', immutable]],
  );
});

const cron = (spec: Spec = {}, ofJob: Spec = {}): { readonly spec: Spec } => ({
  spec: { schedule: '*/5 * * * *', jobTemplate: { spec: { template: { spec: pods }, ...ofJob } }, ...spec },
});
const schedule = (text: string, problem: string): { it: string; object: { spec: Spec }; errors: string[] } => ({
  it: `refuses the schedule ${JSON.stringify(text)}`,
  object: cron({ schedule: text }),
  errors: [`spec.schedule: Invalid value: ${JSON.stringify(text)}: ${problem}`],
});
const zone = (timeZone: string, problem: string): { it: string; object: { spec: Spec }; errors: string[] } => ({
  it: `refuses the zone ${JSON.stringify(timeZone)}`,
  object: cron({ timeZone }),
  errors: [`spec.timeZone: Invalid value: ${JSON.stringify(timeZone)}: ${problem}`],
});

testKind(cronJobKind, [
  { it: 'takes what most people write', object: cron({ timeZone: 'Europe/Berlin' }) },
  { it: 'takes the short words for schedules', object: cron({ schedule: '@every 90m' }) },
  {
    it: 'leaves room in its name for that of its jobs',
    object: { ...cron(), metadata: { name: 'a'.repeat(53) } },
    errors: [`metadata.name: Invalid value: "${'a'.repeat(53)}": must be no more than 52 characters`],
  },
  { it: 'needs a schedule', object: cron({ schedule: '' }), errors: ['spec.schedule: Required value'] },
  schedule('* * * *', 'expected exactly 5 fields, found 4: [* * * *]'),
  schedule('* * * * 7', 'end of range (7) above maximum (6): 7'),
  schedule('CRON_TZ=UTC * * * * *', 'cannot use TZ or CRON_TZ in schedule, use timeZone field instead'),
  schedule('TZ=UTC 0 1 * * *', 'cannot use TZ or CRON_TZ in schedule, use timeZone field instead'),
  zone('', 'timeZone must be nil or non-empty string'),
  zone('Local', 'timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones'),
  zone('Mars/Phobos', 'unknown time zone Mars/Phobos'),
  {
    it: 'knows three policies',
    object: cron({ concurrencyPolicy: 'Queue' }),
    errors: ['spec.concurrencyPolicy: Unsupported value: "Queue": supported values: "Allow", "Forbid", "Replace"'],
  },
  {
    it: 'has no negative numbers',
    object: cron({ startingDeadlineSeconds: -1, successfulJobsHistoryLimit: -1, failedJobsHistoryLimit: -1 }),
    errors: ['startingDeadlineSeconds', 'successfulJobsHistoryLimit', 'failedJobsHistoryLimit'].map(
      (field) => `spec.${field}: Invalid value: -1: ${nonNegative}`,
    ),
  },
  {
    it: 'gives its jobs no selector',
    object: cron({}, { selector: { matchLabels: labels }, manualSelector: true }),
    errors: [
      'spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"app":"sum"}}: `selector` will be auto-generated',
      'spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"',
    ],
  },
  {
    it: 'makes jobs whose pods end',
    object: cron({}, { template: { spec: { containers } } }),
    errors: ['spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
  },
]);
