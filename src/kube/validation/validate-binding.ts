/** Rules for the binding of a pod to a node. */
import type { Binding } from '../objects/binding.ts';
import { invalidFields, requiredField, unsupportedText } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { dnsSubdomainProblems } from '../values/names.ts';

export function validateBinding({ target: { kind = '', name = '' } }: Binding): FieldError[] {
  const isNode = kind === '' || kind === 'Node';
  const errors = isNode ? [] : [unsupportedText(['target', 'kind'], kind, ['Node', '<empty>'])];
  if (name === '') return [...errors, requiredField(['target', 'name'])];
  return isNode ? [...errors, ...invalidFields(['target', 'name'], name, dnsSubdomainProblems(name))] : errors;
}
