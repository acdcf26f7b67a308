/** Bounds for what pods of a namespace ask for. Known by shape alone: this server has none and enforces none. */
import { resourceKind } from '../schema/kind.ts';
import { labelSelector, objectFields } from '../schema/meta.ts';
import {
  type Of,
  any,
  described,
  intOrString,
  integer,
  list,
  map,
  object,
  replacedByPatch,
  required,
  resourceList,
  string,
} from '../schema/schema.ts';

const limitRangeShape = described(
  {
    text: 'Bounds for what pods of a namespace ask for. Not enforced by this server.',
    fields: { spec: 'The bounds.' },
  },
  object({
    ...objectFields,
    spec: object({
      limits: required(
        list(
          object({
            type: required(string),
            max: resourceList,
            min: resourceList,
            default: resourceList,
            defaultRequest: resourceList,
            maxLimitRequestRatio: resourceList,
          }),
        ),
      ),
    }),
  }),
);
export interface LimitRange extends Of<typeof limitRangeShape> {}

export const limitRangeKind = resourceKind<LimitRange>({
  kind: 'LimitRange',
  plural: 'limitranges',
  shortNames: ['limits'],
  namespaced: true,
  shape: limitRangeShape,
});

/** How much of everything a namespace may use. Known by shape alone: this server has none and enforces none. */
const resourceQuotaShape = described(
  {
    text: 'How much a namespace may use. Not enforced by this server.',
    fields: { spec: 'What may be used.', status: 'What is used.' },
  },
  object({
    ...objectFields,
    spec: object({ hard: resourceList, scopes: list(string), scopeSelector: any }),
    status: object({ hard: resourceList, used: resourceList }),
  }),
);
export interface ResourceQuota extends Of<typeof resourceQuotaShape> {}

export const resourceQuotaKind = resourceKind<ResourceQuota>({
  kind: 'ResourceQuota',
  plural: 'resourcequotas',
  shortNames: ['quota'],
  namespaced: true,
  shape: resourceQuotaShape,
});

/** How many pods of a selection must stay while others are moved. Known by shape alone: this server has none and enforces none. */
const podDisruptionBudgetShape = described(
  {
    text: 'How many pods of a selection must stay while others are moved. Not enforced by this server.',
    fields: { spec: 'Which pods, and how many.', status: 'How many there are.' },
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
      disruptedPods: map(string),
      disruptionsAllowed: required(integer),
      currentHealthy: required(integer),
      desiredHealthy: required(integer),
      expectedPods: required(integer),
      conditions: list(any, 'type'),
    }),
  }),
);
export interface PodDisruptionBudget extends Of<typeof podDisruptionBudgetShape> {}

export const podDisruptionBudgetKind = resourceKind<PodDisruptionBudget>({
  group: 'policy',
  kind: 'PodDisruptionBudget',
  plural: 'poddisruptionbudgets',
  shortNames: ['pdb'],
  namespaced: true,
  shape: podDisruptionBudgetShape,
});
