/** Rules for images, of containers and of image volumes. The name itself is left to the runtime, as the API server does. */
import { requiredField, unsupportedField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import type { FieldPath } from '../objects/schema.ts';

const pullPolicies = ['Always', 'IfNotPresent', 'Never'];

export function pullPolicyErrors(policy: string, path: FieldPath): FieldError[] {
  if (policy === '') return [requiredField(path)];
  return pullPolicies.includes(policy) ? [] : [unsupportedField(path, policy, pullPolicies)];
}
