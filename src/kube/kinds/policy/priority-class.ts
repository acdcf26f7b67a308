/** PriorityClasses: how important pods are, under names. Two of them every cluster has from the start. */
import { type FieldError, forbiddenField, unsupportedField } from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { objectFields } from '../../schema/meta.ts';
import { immutableErrors, validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import { type Of, boolean, described, int32, object, required, string } from '../../schema/schema.ts';
import { dnsSubdomainProblems } from '../../values/names.ts';

const priorityClassShape = described(
  {
    text: 'How important pods are that name it.',
    fields: {
      value: 'The priority of such pods. It cannot be changed.',
      globalDefault: 'Pods that name no class are of this one. At most one class is.',
      description: 'When to use it, for people.',
      preemptionPolicy: 'Whether such pods may end others to get their place: PreemptLowerPriority or Never.',
    },
  },
  object({
    ...objectFields,
    value: required(int32),
    globalDefault: boolean,
    description: string,
    preemptionPolicy: string,
  }),
);
export interface PriorityClass extends Of<typeof priorityClassShape> {}

export const systemPriorityClasses: readonly PriorityClass[] = [
  {
    metadata: { name: 'system-node-critical' },
    value: 2_000_001_000,
    description: 'For pods of the system that cannot run on another node.',
  },
  {
    metadata: { name: 'system-cluster-critical' },
    value: 2_000_000_000,
    description: 'For pods of the system that have to run somewhere in the cluster.',
  },
];

export const defaultPreemption = 'PreemptLowerPriority';

export const priorityClassKind = resourceKind<PriorityClass>({
  group: 'scheduling.k8s.io',
  kind: 'PriorityClass',
  plural: 'priorityclasses',
  shortNames: ['pc'],
  namespaced: false,
  shape: priorityClassShape,
  complete: (priorityClass) => ({
    ...priorityClass,
    preemptionPolicy: priorityClass.preemptionPolicy ?? defaultPreemption,
  }),
  validate: validatePriorityClass,
  validateUpdate: (priorityClass, old) => [
    ...validateObjectMetaUpdate(priorityClass.metadata, old.metadata),
    ...(priorityClass.value === old.value ? [] : [forbiddenField(['value'], 'may not be changed in an update.')]),
    ...immutableErrors(priorityClass.preemptionPolicy ?? null, old.preemptionPolicy ?? null, ['preemptionPolicy']),
  ],
  wire: {
    PriorityClass: '1 metadata ObjectMeta, 2 value! int, 3 globalDefault bool, 4 description, 5 preemptionPolicy?',
  },
});

const highestOfUsers = 1_000_000_000;

function validatePriorityClass({
  metadata,
  value,
  globalDefault = false,
  preemptionPolicy,
}: PriorityClass): FieldError[] {
  const errors = validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'cluster' });
  if (metadata.name.startsWith('system-')) {
    const problem = systemProblem(metadata.name, value, globalDefault);
    const detail = `priority class names with 'system-' prefix are reserved for system use only. error: ${problem}`;
    if (problem !== undefined) errors.push(forbiddenField(['metadata', 'name'], detail));
  } else if (value > highestOfUsers) {
    errors.push(forbiddenField(['value'], `maximum allowed value of a user defined priority is ${highestOfUsers}`));
  }
  const policies = [defaultPreemption, 'Never'];
  if (preemptionPolicy !== undefined && !policies.includes(preemptionPolicy)) {
    errors.push(unsupportedField(['preemptionPolicy'], preemptionPolicy, policies));
  }
  return errors;
}

function systemProblem(name: string, value: number, globalDefault: boolean): string | undefined {
  const known = systemPriorityClasses.find(({ metadata }) => metadata.name === name);
  if (known === undefined) return `${name} is not a known system priority class`;
  if (known.value !== value) return `value of ${name} PriorityClass must be ${known.value}`;
  return globalDefault ? `globalDefault of ${name} PriorityClass must be false` : undefined;
}
