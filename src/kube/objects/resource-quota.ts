/** How much of everything a namespace may use. Known by shape alone: this server has none and enforces none. */
import { objectFields } from './metadata.ts';
import { any, list, map, object, quantity, string } from './schema.ts';
import type { Of } from './schema.ts';

const resourceList = map(quantity);

export const resourceQuota = object({
  ...objectFields,
  spec: object({ hard: resourceList, scopes: list(string), scopeSelector: any }),
  status: object({ hard: resourceList, used: resourceList }),
});
export interface ResourceQuota extends Of<typeof resourceQuota> {}
