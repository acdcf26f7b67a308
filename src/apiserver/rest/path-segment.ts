/** What a name must be for an object to have an address, whatever its kind allows besides. */
import { type FieldError, invalidField } from '../../kube/schema/field-errors.ts';

export function pathSegmentErrors(name: string): FieldError[] {
  const errors: string[] = [];
  if (name === '.' || name === '..') errors.push(`may not be '${name}'`);
  for (const part of ['/', '%']) if (name.includes(part)) errors.push(`may not contain '${part}'`);
  return errors.map((text) => invalidField(['metadata', 'name'], name, text));
}
