/** A way to run containers that a node offers under a handler's name. */
import { objectFields } from './metadata.ts';
import { toleration } from './pod.ts';
import { list, map, object, quantity, required, string } from './schema.ts';
import type { Of } from './schema.ts';

export const runtimeClass = object({
  ...objectFields,
  handler: required(string),
  overhead: object({ podFixed: map(quantity) }),
  scheduling: object({ nodeSelector: map(string), tolerations: list(toleration) }),
});
export interface RuntimeClass extends Of<typeof runtimeClass> {}
