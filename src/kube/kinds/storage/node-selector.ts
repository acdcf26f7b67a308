/** Rules for selecting nodes: by labels, and by the one field that can be selected, the name. */
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  requiredField,
} from '../../schema/field-errors.ts';
import { type FieldPath, type Of, atomic, list, object, required, string } from '../../schema/schema.ts';
import { dnsSubdomainProblems, labelValueProblems, qualifiedNameProblems } from '../../values/names.ts';

export const nodeSelectorTerm = object({
  matchExpressions: list(object({ key: required(string), operator: required(string), values: list(string) })),
  matchFields: list(object({ key: required(string), operator: required(string), values: list(string) })),
});
export interface NodeSelectorTerm extends Of<typeof nodeSelectorTerm> {}

export const nodeSelector = atomic(object({ nodeSelectorTerms: required(list(nodeSelectorTerm)) }));
export interface NodeSelector extends Of<typeof nodeSelector> {}

type Requirement = NonNullable<NodeSelectorTerm['matchExpressions']>[number];

export function nodeSelectorErrors(selector: NodeSelector, path: FieldPath): FieldError[] {
  const termsPath = [...path, 'nodeSelectorTerms'];
  const terms = selector.nodeSelectorTerms;
  if (terms.length === 0) return [requiredField(termsPath, 'must have at least one node selector term')];
  return terms.flatMap((term, index) => nodeSelectorTermErrors(term, 'required', [...termsPath, index]));
}

/** A preference may ask for values that no label can have: it is only a wish. */
export function nodeSelectorTermErrors(
  { matchExpressions = [], matchFields = [] }: NodeSelectorTerm,
  strength: 'required' | 'preferred',
  path: FieldPath,
): FieldError[] {
  return [
    ...matchExpressions.flatMap((requirement, index) =>
      labelErrors(requirement, strength, [...path, 'matchExpressions', index]),
    ),
    ...matchFields.flatMap((requirement, index) => fieldErrors(requirement, [...path, 'matchFields', index])),
  ];
}

function labelErrors(requirement: Requirement, strength: 'required' | 'preferred', path: FieldPath): FieldError[] {
  const { key, values = [] } = requirement;
  const errors = operatorErrors(requirement, path);
  errors.push(...invalidFields([...path, 'key'], key, qualifiedNameProblems(key)));
  if (strength === 'preferred') return errors;
  return [
    ...errors,
    ...values.flatMap((value, index) => invalidFields([...path, 'values', index], value, labelValueProblems(value))),
  ];
}

function operatorErrors({ operator, values = [] }: Requirement, path: FieldPath): FieldError[] {
  const valuesPath = [...path, 'values'];
  switch (operator) {
    case 'In':
    case 'NotIn':
      return values.length > 0
        ? []
        : [requiredField(valuesPath, "must be specified when `operator` is 'In' or 'NotIn'")];
    case 'Exists':
    case 'DoesNotExist':
      return values.length === 0
        ? []
        : [forbiddenField(valuesPath, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")];
    case 'Gt':
    case 'Lt':
      return values.length === 1
        ? []
        : [requiredField(valuesPath, "must be specified single value when `operator` is 'Lt' or 'Gt'")];
    default:
      return [invalidField([...path, 'operator'], operator, 'not a valid selector operator')];
  }
}

function fieldErrors({ key, operator, values = [] }: Requirement, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  if (operator !== 'In' && operator !== 'NotIn') {
    errors.push(invalidField([...path, 'operator'], operator, 'not a valid selector operator'));
  } else if (values.length !== 1) {
    const detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
    errors.push(requiredField([...path, 'values'], detail));
  }
  if (key !== 'metadata.name') {
    return [...errors, invalidField([...path, 'key'], key, 'not a valid field selector key')];
  }
  return [
    ...errors,
    ...values.flatMap((value, index) => invalidFields([...path, 'values', index], value, dnsSubdomainProblems(value))),
  ];
}
