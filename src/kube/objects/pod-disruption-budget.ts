/** How many pods of a selection must stay while others are moved. Known by shape alone: this server has none and enforces none. */
import { labelSelector, objectFields } from './metadata.ts';
import { any, integer, intOrString, list, map, object, replacedByPatch, required, string } from './schema.ts';
import type { Of } from './schema.ts';

export const podDisruptionBudget = object({
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
});
export interface PodDisruptionBudget extends Of<typeof podDisruptionBudget> {}
