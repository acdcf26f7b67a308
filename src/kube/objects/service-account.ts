import { localObjectReference, objectFields, objectReference } from './metadata.ts';
import { boolean, list, object } from './schema.ts';
import type { Of } from './schema.ts';

export const serviceAccount = object({
  ...objectFields,
  secrets: list(objectReference, 'name'),
  imagePullSecrets: list(localObjectReference),
  automountServiceAccountToken: boolean,
});
export interface ServiceAccount extends Of<typeof serviceAccount> {}
