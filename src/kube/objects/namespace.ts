/** A namespace: the scope of names, and of what is deleted together. */
import { objectFields } from './metadata.ts';
import { list, object, required, string } from './schema.ts';
import type { Of } from './schema.ts';

export const namespace = object({
  ...objectFields,
  /** These are its own, besides those of its metadata: they go when everything in the namespace is gone. */
  spec: object({ finalizers: list(string) }),
  status: object({
    phase: string,
    conditions: list(
      object({
        type: required(string),
        status: required(string),
        lastTransitionTime: string,
        reason: string,
        message: string,
      }),
      'type',
    ),
  }),
});
export interface Namespace extends Of<typeof namespace> {}
