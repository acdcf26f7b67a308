/** Bounds for what pods of a namespace ask for. Known by shape alone: this server has none and enforces none. */
import { objectFields } from './metadata.ts';
import { list, map, object, quantity, required, string } from './schema.ts';
import type { Of } from './schema.ts';

const resourceList = map(quantity);

export const limitRange = object({
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
});
export interface LimitRange extends Of<typeof limitRange> {}
