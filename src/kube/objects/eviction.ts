/** The request to remove a pod from its node, if its disruption budget allows. */
import { deleteOptions } from './delete-options.ts';
import { objectFields } from './metadata.ts';
import { object } from './schema.ts';
import type { Of } from './schema.ts';

export const eviction = object({ ...objectFields, deleteOptions });
export interface Eviction extends Of<typeof eviction> {}
