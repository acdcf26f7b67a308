/** PodDisruptionBudgets: how many pods of a selection must stay while others are evicted. */
import { type FieldError, invalidField, unsupportedField } from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { labelSelector, objectFields } from '../../schema/meta.ts';
import {
  nonNegativeErrors,
  validateLabelSelector,
  validateObjectMeta,
  validateObjectMetaUpdate,
} from '../../schema/metadata-validation.ts';
import { countOrPercentErrors } from '../../schema/number-validation.ts';
import {
  type Of,
  described,
  intOrString,
  int32,
  integer,
  list,
  map,
  object,
  replacedByPatch,
  required,
  string,
  time,
} from '../../schema/schema.ts';
import { dnsSubdomainProblems } from '../../values/names.ts';

const podDisruptionBudgetShape = described(
  {
    text: 'How many pods of a selection must stay while others are evicted.',
    fields: { spec: 'Which pods, and how many.', status: 'How many there are, and how many may go.' },
  },
  object({
    ...objectFields,
    spec: object({
      minAvailable: intOrString,
      selector: replacedByPatch(labelSelector),
      maxUnavailable: intOrString,
      unhealthyPodEvictionPolicy: string,
    }),
    status: object({
      observedGeneration: integer,
      disruptedPods: map(time),
      disruptionsAllowed: required(int32),
      currentHealthy: required(int32),
      desiredHealthy: required(int32),
      expectedPods: required(int32),
      conditions: list(
        object({
          type: required(string),
          status: required(string),
          observedGeneration: integer,
          lastTransitionTime: time,
          reason: required(string),
          message: required(string),
        }),
        'type',
      ),
    }),
  }),
);
export interface PodDisruptionBudget extends Of<typeof podDisruptionBudgetShape> {}
export type BudgetStatus = NonNullable<PodDisruptionBudget['status']>;

export const podDisruptionBudgetKind = resourceKind<PodDisruptionBudget>({
  group: 'policy',
  kind: 'PodDisruptionBudget',
  plural: 'poddisruptionbudgets',
  shortNames: ['pdb'],
  namespaced: true,
  shape: podDisruptionBudgetShape,
  validate: (budget) => [
    ...validateObjectMeta(budget.metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...specErrors(budget),
  ],
  validateUpdate: (budget, old) => [...validateObjectMetaUpdate(budget.metadata, old.metadata), ...specErrors(budget)],
  wire: {
    PodDisruptionBudget: '1 metadata ObjectMeta, 2 spec PodDisruptionBudgetSpec, 3 status PodDisruptionBudgetStatus',
    PodDisruptionBudgetSpec: `
      1 minAvailable? IntOrString, 2 selector? LabelSelector, 3 maxUnavailable? IntOrString,
      4 unhealthyPodEvictionPolicy?`,
    PodDisruptionBudgetStatus: `
      1 observedGeneration int, 2 disruptedPods {Time}, 3 disruptionsAllowed! int, 4 currentHealthy! int,
      5 desiredHealthy! int, 6 expectedPods! int, 7 conditions [Condition]`,
  },
});

const evictionPolicies = ['AlwaysAllow', 'IfHealthyBudget'];

function specErrors({ spec = {} }: PodDisruptionBudget): FieldError[] {
  const { minAvailable, maxUnavailable, selector, unhealthyPodEvictionPolicy: policy } = spec;
  const isBoth = minAvailable !== undefined && maxUnavailable !== undefined;
  return [
    ...(isBoth ? [invalidField(['spec'], spec, 'minAvailable and maxUnavailable cannot be both set')] : []),
    ...countOrPercentErrors(minAvailable, ['spec', 'minAvailable']),
    ...countOrPercentErrors(maxUnavailable, ['spec', 'maxUnavailable']),
    ...validateLabelSelector(selector, ['spec', 'selector']),
    ...(policy === undefined || evictionPolicies.includes(policy)
      ? []
      : [unsupportedField(['spec', 'unhealthyPodEvictionPolicy'], policy, evictionPolicies)]),
  ];
}

const counts = ['disruptionsAllowed', 'currentHealthy', 'desiredHealthy', 'expectedPods'] as const;

export function validateBudgetStatus(
  { metadata, status }: PodDisruptionBudget,
  old: PodDisruptionBudget,
): FieldError[] {
  return [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...counts.flatMap((count) => nonNegativeErrors(status?.[count] ?? 0, ['status', count])),
  ];
}
