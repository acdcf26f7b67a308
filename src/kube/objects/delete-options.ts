/** What a client may say about a deletion: how soon, of which object exactly, and what becomes of its dependents. */
import { boolean, integer, list, object, string } from './schema.ts';
import type { Of } from './schema.ts';

export const deleteOptions = object({
  apiVersion: string,
  kind: string,
  gracePeriodSeconds: integer,
  preconditions: object({ uid: string, resourceVersion: string }),
  orphanDependents: boolean,
  propagationPolicy: string,
  dryRun: list(string),
  ignoreStoreReadErrorWithClusterBreakingPotential: boolean,
});
export interface DeleteOptions extends Of<typeof deleteOptions> {}
