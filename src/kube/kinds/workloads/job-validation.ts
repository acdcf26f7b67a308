/** Rules for Jobs, and for the templates of Jobs that CronJobs carry. Expects defaulted objects. */
import { means } from '../../schema/equality.ts';
import {
  type FieldError,
  duplicateField,
  invalidField,
  invalidFields,
  requiredField,
  tooLongField,
  tooManyField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import {
  immutableErrors,
  nonNegativeErrors,
  validateLabelSelector,
  validateObjectMeta,
  validateObjectMetaUpdate,
} from '../../schema/metadata-validation.ts';
import { type FieldPath, type Shape, any, keyPart } from '../../schema/schema.ts';
import { type LabelSelector, type Labels, requirementsMatch, requirementsOf } from '../../values/labels.ts';
import { dnsLabelProblems, dnsSubdomainProblems, qualifiedNameProblems } from '../../values/names.ts';
import { validatePodTemplateSpec } from '../pod/pod-validation.ts';
import { podTemplateSpec } from '../pod/pod.ts';
import type { Job, JobSpec, JobStatus } from './job.ts';

const specPath = ['spec'];
const indexedParallelismMax = 100_000;
const rulesMax = 20;
const exitCodesMax = 255;
const managedByBytesMax = 63;

export function validateJob(job: Job): readonly FieldError[] {
  const { metadata, spec } = job;
  const errors = [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...generatedSelectorErrors(job),
    ...ownSpecErrors(spec),
  ];
  if (spec.completionMode !== 'Indexed' || (spec.completions ?? 0) === 0) return errors;
  const hostname = `${metadata.name}-${(spec.completions ?? 0) - 1}`;
  if (dnsLabelProblems(hostname).length === 0) return errors;
  const detail = `will not able to create pod with invalid DNS label: ${hostname}`;
  return [...errors, invalidField(['metadata', 'name'], metadata.name, detail)];
}

/** The labels of the template's pods under which they belong to this job and no other. */
export function generatedLabels({ metadata: { name, uid = '' } }: Job): Labels {
  return {
    'controller-uid': uid,
    'job-name': name,
    'batch.kubernetes.io/controller-uid': uid,
    'batch.kubernetes.io/job-name': name,
  };
}

function generatedSelectorErrors(job: Job): FieldError[] {
  const { manualSelector, selector, template } = job.spec;
  if (manualSelector === true || selector === undefined) return [];
  const expected = generatedLabels(job);
  const { labels = {} } = template.metadata ?? {};
  const path = ['spec', 'template', 'metadata', 'labels'];
  const wrong = Object.entries(expected).flatMap(([key, value]) => {
    const here = [...path, keyPart(key)];
    if (!Object.hasOwn(labels, key)) return [requiredField(here, `must be '${value}'`)];
    return labels[key] === value ? [] : [invalidField(here, labels, `must be '${value}'`)];
  });
  if (selects(selector, expected)) return wrong;
  return [...wrong, invalidField(['spec', 'selector'], selector, '`selector` not auto-generated')];
}

/** False for a selector that cannot be read, which has errors of its own. */
function selects(selector: LabelSelector, labels: Labels): boolean {
  try {
    return requirementsMatch(requirementsOf(selector), labels);
  } catch {
    return false;
  }
}

function ownSpecErrors(spec: JobSpec): FieldError[] {
  const { selector, template } = spec;
  const errors = validateJobSpec(spec, specPath);
  const selectorPath = [...specPath, 'selector'];
  if (selector === undefined) return [...errors, requiredField(selectorPath)];
  errors.push(...validateLabelSelector(selector, selectorPath));
  const { labels = {} } = template.metadata ?? {};
  if (selects(selector, labels)) return errors;
  const labelsPath = [...specPath, 'template', 'metadata', 'labels'];
  return [...errors, invalidField(labelsPath, labels, '`selector` does not match template `labels`')];
}

/** What holds for a job's spec wherever it stands; the selector is not looked at. */
export function validateJobSpec(spec: JobSpec, path: FieldPath): FieldError[] {
  const counts = [
    'parallelism',
    'completions',
    'activeDeadlineSeconds',
    'backoffLimit',
    'ttlSecondsAfterFinished',
    'backoffLimitPerIndex',
    'maxFailedIndexes',
  ] as const;
  return [
    ...counts.flatMap((field) => nonNegativeErrors(spec[field] ?? 0, [...path, field])),
    ...indexErrors(spec, path),
    ...managedByErrors(spec.managedBy, [...path, 'managedBy']),
    ...failurePolicyErrors(spec, [...path, 'podFailurePolicy', 'rules']),
    ...successPolicyErrors(spec, [...path, 'successPolicy']),
    ...replacementErrors(spec, [...path, 'podReplacementPolicy']),
    ...validatePodTemplateSpec(spec.template, [...path, 'template']),
    ...restartErrors(spec, [...path, 'template', 'spec', 'restartPolicy']),
  ];
}

function indexErrors(spec: JobSpec, path: FieldPath): FieldError[] {
  const { completionMode: mode = 'NonIndexed', completions, parallelism = 0, maxFailedIndexes } = spec;
  const errors: FieldError[] = [];
  if (maxFailedIndexes !== undefined && spec.backoffLimitPerIndex === undefined) {
    errors.push(requiredField([...path, 'backoffLimitPerIndex'], 'when maxFailedIndexes is specified'));
  }
  if (mode === 'NonIndexed') {
    const onlyIndexed = (['backoffLimitPerIndex', 'maxFailedIndexes'] as const).filter(
      (field) => spec[field] !== undefined,
    );
    const detail = 'requires indexed completion mode';
    return [...errors, ...onlyIndexed.map((field) => invalidField([...path, field], spec[field], detail))];
  }
  if (mode !== 'Indexed') {
    return [...errors, unsupportedField([...path, 'completionMode'], mode, ['NonIndexed', 'Indexed'])];
  }
  if (completions === undefined) {
    errors.push(requiredField([...path, 'completions'], 'when completion mode is Indexed'));
  }
  if (parallelism > indexedParallelismMax) {
    const detail = `must be less than or equal to ${indexedParallelismMax} when completion mode is Indexed`;
    errors.push(invalidField([...path, 'parallelism'], parallelism, detail));
  }
  if (completions !== undefined && (maxFailedIndexes ?? 0) > completions) {
    const detail = 'must be less than or equal to completions';
    errors.push(invalidField([...path, 'maxFailedIndexes'], maxFailedIndexes, detail));
  }
  return errors;
}

function managedByErrors(managedBy: string | undefined, path: FieldPath): FieldError[] {
  if (managedBy === undefined) return [];
  const slash = managedBy.indexOf('/');
  const domain = managedBy.slice(0, Math.max(slash, 0));
  const isPrefixed = slash > 0 && slash < managedBy.length - 1 && dnsSubdomainProblems(domain).length === 0;
  const detail = 'must be a domain-prefixed path (such as "acme.io/foo")';
  return [
    ...(isPrefixed ? [] : [invalidField(path, managedBy, detail)]),
    ...(Buffer.byteLength(managedBy) > managedByBytesMax ? [tooLongField(path, managedByBytesMax)] : []),
  ];
}

type FailureRule = NonNullable<JobSpec['podFailurePolicy']>['rules'][number];

const actions = ['Count', 'FailIndex', 'FailJob', 'Ignore'];
const conditionStatuses = ['False', 'True', 'Unknown'];
const exitOperators = ['In', 'NotIn'];

function choiceErrors(value: string, supported: readonly string[], path: FieldPath): FieldError[] {
  const list = supported.map((one) => `"${one}"`).join(' ');
  if (value === '') return [requiredField(path, `valid values: [${list}]`)];
  return supported.includes(value) ? [] : [unsupportedField(path, value, supported)];
}

function failurePolicyErrors(spec: JobSpec, path: FieldPath): FieldError[] {
  const { rules = [] } = spec.podFailurePolicy ?? {};
  const errors = rules.length > rulesMax ? [tooManyField(path, rules.length, rulesMax)] : [];
  const { containers, initContainers = [] } = spec.template.spec;
  const names = new Set([...containers, ...initContainers].map(({ name }) => name));
  return [
    ...errors,
    ...rules.flatMap((rule, index) => {
      const here = [...path, index];
      const { action, onExitCodes, onPodConditions = [] } = rule;
      const both = onExitCodes !== undefined && onPodConditions.length > 0;
      const neither = onExitCodes === undefined && onPodConditions.length === 0;
      const needsLimit = action === 'FailIndex' && spec.backoffLimitPerIndex === undefined;
      const limitDetail = 'requires the backoffLimitPerIndex to be set';
      return [
        ...(needsLimit ? [invalidField([...here, 'action'], action, limitDetail)] : []),
        ...choiceErrors(action, actions, [...here, 'action']),
        ...(onExitCodes === undefined ? [] : exitCodeErrors(onExitCodes, names, [...here, 'onExitCodes'])),
        ...(onPodConditions.length > rulesMax
          ? [tooManyField([...here, 'onPodConditions'], onPodConditions.length, rulesMax)]
          : []),
        ...onPodConditions.flatMap(({ type, status = '' }, at) => [
          ...invalidFields([...here, 'onPodConditions', at, 'type'], type, qualifiedNameProblems(type)),
          ...choiceErrors(status, conditionStatuses, [...here, 'onPodConditions', at, 'status']),
        ]),
        ...(both ? [invalidField(here, rule, 'specifying both OnExitCodes and OnPodConditions is not supported')] : []),
        ...(neither ? [invalidField(here, rule, 'specifying one of OnExitCodes and OnPodConditions is required')] : []),
      ];
    }),
  ];
}

function exitCodeErrors(
  { containerName, operator, values }: NonNullable<FailureRule['onExitCodes']>,
  names: ReadonlySet<string>,
  path: FieldPath,
): FieldError[] {
  const errors = choiceErrors(operator, exitOperators, [...path, 'operator']);
  if (containerName !== undefined && !names.has(containerName)) {
    const detail = 'must be one of the container or initContainer names in the pod template';
    errors.push(invalidField([...path, 'containerName'], containerName, detail));
  }
  const valuesPath = [...path, 'values'];
  if (values.length === 0) errors.push(invalidField(valuesPath, values, 'at least one value is required'));
  if (values.length > exitCodesMax) errors.push(tooManyField(valuesPath, values.length, exitCodesMax));
  const seen = new Set<number>();
  for (const [index, value] of values.entries()) {
    if (operator === 'In' && value === 0) {
      errors.push(invalidField([...valuesPath, index], value, 'must not be 0 for the In operator'));
    }
    if (seen.has(value)) errors.push(duplicateField([...valuesPath, index], value));
    seen.add(value);
  }
  const isOrdered = values.every((value, index) => index === 0 || (values[index - 1] ?? 0) <= value);
  return isOrdered ? errors : [...errors, invalidField(valuesPath, values, 'must be ordered')];
}

function successPolicyErrors({ successPolicy, completionMode }: JobSpec, path: FieldPath): FieldError[] {
  if (successPolicy === undefined) return [];
  const { rules } = successPolicy;
  if (completionMode !== 'Indexed') return [invalidField(path, successPolicy, 'requires indexed completion mode')];
  const here = [...path, 'rules'];
  if (rules.length === 0) {
    return [requiredField(here, 'at least one rules must be specified when the successPolicy is specified')];
  }
  return [
    ...(rules.length > rulesMax ? [tooManyField(here, rules.length, rulesMax)] : []),
    ...rules.flatMap(({ succeededIndexes, succeededCount }, index) =>
      succeededIndexes === undefined && succeededCount === undefined
        ? [requiredField([...here, index], 'at least one of succeededCount or succeededIndexes must be specified')]
        : nonNegativeErrors(succeededCount ?? 0, [...here, index, 'succeededCount']),
    ),
  ];
}

function replacementErrors({ podReplacementPolicy: policy, podFailurePolicy }: JobSpec, path: FieldPath): FieldError[] {
  const supported = podFailurePolicy === undefined ? ['Failed', 'TerminatingOrFailed'] : ['Failed'];
  return policy === undefined || supported.includes(policy) ? [] : [unsupportedField(path, policy, supported)];
}

function restartErrors({ template, podFailurePolicy }: JobSpec, path: FieldPath): FieldError[] {
  const { restartPolicy = '' } = template.spec;
  const supported = ['OnFailure', 'Never'];
  if (restartPolicy === 'Always' || restartPolicy === '') {
    return [requiredField(path, 'valid values: "OnFailure", "Never"')];
  }
  if (!supported.includes(restartPolicy)) return [unsupportedField(path, restartPolicy, supported)];
  if (podFailurePolicy === undefined || restartPolicy === 'Never') return [];
  return [invalidField(path, restartPolicy, 'only "Never" is supported when podFailurePolicy is specified')];
}

const fixedFields = [
  'selector',
  'completionMode',
  'podFailurePolicy',
  'backoffLimitPerIndex',
  'managedBy',
  'successPolicy',
] as const;

export function validateJobUpdate(job: Job, old: Job): readonly FieldError[] {
  const { spec } = job;
  return [
    ...validateObjectMetaUpdate(job.metadata, old.metadata),
    ...ownSpecErrors(spec),
    ...completionsErrors(spec, old.spec),
    ...fixedFields.flatMap((field) => fixedErrors(any, spec[field], old.spec[field], field)),
    ...fixedErrors(podTemplateSpec, spec.template, changeableAs(spec.template, old), 'template'),
  ];
}

function fixedErrors(shape: Shape<unknown>, now: unknown, before: unknown, field: string): FieldError[] {
  if (means(shape, now, before)) return [];
  return [invalidField([...specPath, field], now, 'field is immutable')];
}

function completionsErrors({ completionMode, completions, parallelism }: JobSpec, old: JobSpec): FieldError[] {
  const path = [...specPath, 'completions'];
  if (completionMode !== 'Indexed') return immutableErrors(completions ?? null, old.completions ?? null, path);
  if (completions === undefined || completions === old.completions || completions === parallelism) return [];
  return [invalidField(path, completions, 'can only be modified in tandem with spec.parallelism')];
}

/** The old template with what may change now: nothing, or where its pods run while the job is suspended and has none. */
function changeableAs(template: JobSpec['template'], { spec, status }: Job): JobSpec['template'] {
  const isIdle = (status?.active ?? 0) === 0;
  const isSuspended = hasCondition(status, 'Suspended') || status?.startTime === undefined;
  if (spec.suspend !== true || !isIdle || !isSuspended) return spec.template;
  const { metadata, spec: old } = spec.template;
  const { labels, annotations } = template.metadata ?? {};
  const { nodeSelector, tolerations, schedulingGates, affinity } = template.spec;
  const sized = (before: typeof old.containers, now: typeof old.containers = []): typeof old.containers =>
    before.map((container, index) => {
      const { resources } = now[index] ?? {};
      return resources === undefined ? container : { ...container, resources };
    });
  const { nodeSelector: _selector, tolerations: _tolerations, schedulingGates: _gates, ...rest } = old;
  const { nodeAffinity } = affinity ?? {};
  const { nodeAffinity: _before, ...otherAffinity } = old.affinity ?? {};
  return {
    metadata: { ...metadata, ...(labels && { labels }), ...(annotations && { annotations }) },
    spec: {
      ...rest,
      ...(nodeSelector && { nodeSelector }),
      ...(tolerations && { tolerations }),
      ...(schedulingGates && { schedulingGates }),
      affinity: { ...otherAffinity, ...(nodeAffinity && { nodeAffinity }) },
      containers: sized(rest.containers, template.spec.containers),
      ...(rest.initContainers && { initContainers: sized(rest.initContainers, template.spec.initContainers) }),
    },
  };
}

export function hasCondition(status: JobStatus | undefined, type: string): boolean {
  return (status?.conditions ?? []).some((one) => one.type === type && one.status === 'True');
}

/** What of a status no client may write: a job that ends has ended once, and its counts never go back. */
export function validateJobStatusUpdate(job: Job, old: Job): readonly FieldError[] {
  const { status = {}, spec } = job;
  const { status: before = {} } = old;
  const path = ['status'];
  const conditionsPath = [...path, 'conditions'];
  const has = (type: string): boolean => hasCondition(status, type);
  const had = (type: string): boolean => hasCondition(before, type);
  const refuse = (detail: string): FieldError[] => [invalidField(conditionsPath, status.conditions ?? [], detail)];
  const isFinished = has('Complete') || has('Failed');
  const { active = 0, ready = 0, terminating = 0, succeeded = 0, failed = 0, startTime, completionTime } = status;
  const uncounted = [
    ...(status.uncountedTerminatedPods?.succeeded ?? []),
    ...(status.uncountedTerminatedPods?.failed ?? []),
  ];
  const lost = ['Complete', 'Failed', 'SuccessCriteriaMet', 'FailureTarget'].filter((type) => had(type) && !has(type));
  const shrinks = (field: 'succeeded' | 'failed', now: number): FieldError[] =>
    now < (before[field] ?? 0) ? [invalidField([...path, field], now, `cannot decrease the ${field} counter`)] : [];
  const mayShrink = spec.completionMode === 'Indexed' && spec.completions === spec.parallelism;
  const counters = { active, ready, terminating, succeeded, failed };
  return [
    ...validateObjectMetaUpdate(job.metadata, old.metadata),
    ...Object.entries(counters).flatMap(([field, value]) => nonNegativeErrors(value, [...path, field])),
    ...(has('Complete') && has('Failed') ? refuse('cannot set Complete=True and Failed=true conditions') : []),
    ...(has('Complete') && has('FailureTarget')
      ? refuse('cannot set Complete=True and FailureTarget=true conditions')
      : []),
    ...lost.flatMap((type) => refuse(`cannot disable the terminal ${type}=True condition`)),
    ...(completionTime !== undefined && !has('Complete')
      ? [
          invalidField(
            [...path, 'completionTime'],
            completionTime,
            'cannot set completionTime when there is no Complete=True condition',
          ),
        ]
      : []),
    ...(completionTime === undefined && has('Complete')
      ? [requiredField([...path, 'completionTime'], 'completionTime is required for Complete jobs')]
      : []),
    ...(before.completionTime !== undefined && completionTime !== before.completionTime
      ? [invalidField([...path, 'completionTime'], completionTime ?? null, 'field is immutable')]
      : []),
    ...(isFinished && active > 0
      ? [invalidField([...path, 'active'], active, 'active>0 is invalid for finished job')]
      : []),
    ...(isFinished && terminating > 0
      ? [invalidField([...path, 'terminating'], terminating, 'terminating>0 is invalid for finished job')]
      : []),
    ...(isFinished && startTime === undefined && !(spec.suspend === true && spec.completions === 0)
      ? [requiredField([...path, 'startTime'], 'startTime is required for finished job')]
      : []),
    ...(isFinished && uncounted.length > 0
      ? [invalidField([...path, 'uncountedTerminatedPods'], uncounted, 'must be empty for finished job')]
      : []),
    ...(ready > active ? [invalidField([...path, 'ready'], ready, 'cannot set more ready pods than active')] : []),
    ...(mayShrink ? [] : shrinks('succeeded', succeeded)),
    ...shrinks('failed', failed),
  ];
}
