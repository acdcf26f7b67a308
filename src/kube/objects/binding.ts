/** The order to run a pod on a node, as a scheduler gives it. */
import { objectFields, objectReference } from './metadata.ts';
import { object, required } from './schema.ts';
import type { Of } from './schema.ts';

export const binding = object({ ...objectFields, target: required(objectReference) });
export interface Binding extends Of<typeof binding> {}
