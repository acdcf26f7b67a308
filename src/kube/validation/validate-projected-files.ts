/** Rules for one file of a volume: a key of an object, or a field of the pod. */
import { invalidField, invalidFields, requiredField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { projectedPathProblems } from '../values/names.ts';
import type { FieldPath } from '../objects/schema.ts';
import { fieldReferenceErrors, resourceFieldReferenceErrors, volumeFields } from './validate-field-references.ts';
import { fileModeErrors, idErrors } from './validate-numbers.ts';
import type { DownwardApiFile, KeyToPath } from '../objects/volume.ts';

/** The key may be anything: whether the object has it shows when the volume is set up. */
export function keyToPathErrors({ key, path: file, mode, user }: KeyToPath, path: FieldPath): FieldError[] {
  return [
    ...(key === '' ? [requiredField([...path, 'key'])] : []),
    ...(file === '' ? [requiredField([...path, 'path'])] : []),
    ...invalidFields([...path, 'path'], file, projectedPathProblems(file)),
    ...fileModeErrors(mode, [...path, 'mode']),
    ...idErrors(user, [...path, 'user']),
  ];
}

export function downwardApiFileErrors(item: DownwardApiFile, path: FieldPath): FieldError[] {
  return [
    ...(item.path === '' ? [requiredField([...path, 'path'])] : []),
    ...invalidFields([...path, 'path'], item.path, projectedPathProblems(item.path)),
    ...referenceErrors(item, path),
    ...fileModeErrors(item.mode, [...path, 'mode']),
    ...idErrors(item.user, [...path, 'user']),
  ];
}

function referenceErrors({ fieldRef, resourceFieldRef }: DownwardApiFile, path: FieldPath): FieldError[] {
  if (fieldRef !== undefined) {
    const errors = fieldReferenceErrors(fieldRef, volumeFields, [...path, 'fieldRef']);
    if (resourceFieldRef === undefined) return errors;
    const detail = 'fieldRef and resourceFieldRef can not be specified simultaneously';
    return [...errors, invalidField(path, 'resource', detail)];
  }
  if (resourceFieldRef === undefined) {
    return [requiredField(path, 'one of fieldRef and resourceFieldRef is required')];
  }
  return resourceFieldReferenceErrors(resourceFieldRef, 'file', [...path, 'resourceFieldRef']);
}
