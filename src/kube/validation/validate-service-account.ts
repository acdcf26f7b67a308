import type { FieldError } from './field-errors.ts';
import { dnsSubdomainProblems } from '../values/names.ts';
import type { FieldPath } from '../objects/schema.ts';
import type { ServiceAccount } from '../objects/service-account.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from './validate-metadata.ts';

/** The Secrets it names need not exist, nor be well named: whoever uses them will see. */
export function validateServiceAccount({ metadata }: ServiceAccount, path: FieldPath = []): FieldError[] {
  return validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }, [...path, 'metadata']);
}

export function validateServiceAccountUpdate(account: ServiceAccount, old: ServiceAccount): FieldError[] {
  return [...validateObjectMetaUpdate(account.metadata, old.metadata), ...validateServiceAccount(account)];
}
