/** Rules for a container's environment: `env` and `envFrom`. Whether the objects exist is found out on the node. */
import type { EnvironmentSource, EnvironmentVariable } from '../objects/container.ts';
import { invalidField, invalidFields, placedAt, requiredField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { backstepProblems, configMapKeyProblems, dnsLabelProblems } from '../values/names.ts';
import { dnsSubdomainProblems, environmentVariableNameProblems } from '../values/names.ts';
import type { FieldPath } from '../objects/schema.ts';
import { environmentFields, fieldReferenceErrors, resourceFieldReferenceErrors } from './validate-field-references.ts';
import { asPrefix } from './validate-metadata.ts';

type ValueSource = NonNullable<EnvironmentVariable['valueFrom']>;
type KeyReference = NonNullable<ValueSource['configMapKeyRef']>;
type FileKeyReference = NonNullable<ValueSource['fileKeyRef']>;

export function environmentErrors(variables: readonly EnvironmentVariable[], path: FieldPath): FieldError[] {
  return variables.flatMap((variable, index) => [
    ...variableNameErrors(variable.name, [...path, index, 'name']),
    ...valueSourceErrors(variable, [...path, index, 'valueFrom']),
  ]);
}

export function environmentSourceErrors(sources: readonly EnvironmentSource[], path: FieldPath): FieldError[] {
  return sources.flatMap((source, index) => {
    const { prefix = '', configMapRef, secretRef } = source;
    const here = [...path, index];
    const errors = prefix === '' ? [] : variableNameErrors(prefix, [...here, 'prefix']);
    if (configMapRef) errors.push(...objectNameErrors(configMapRef.name, [...here, 'configMapRef', 'name']));
    if (secretRef) errors.push(...objectNameErrors(secretRef.name, [...here, 'secretRef', 'name']));
    // The API server does not say which entry it means.
    if (!configMapRef && !secretRef) {
      errors.push(...placedAt(here, [invalidField(path, '', 'must specify one of: `configMapRef` or `secretRef`')]));
    } else if (configMapRef && secretRef) {
      const detail = 'may not have more than one field specified at a time';
      errors.push(...placedAt(here, [invalidField(path, '', detail)]));
    }
    return errors;
  });
}

function variableNameErrors(name: string, path: FieldPath): FieldError[] {
  return name === '' ? [requiredField(path)] : invalidFields(path, name, environmentVariableNameProblems(name));
}

function objectNameErrors(name: string, path: FieldPath): FieldError[] {
  return name === '' ? [requiredField(path)] : invalidFields(path, name, asPrefix(dnsSubdomainProblems)(name));
}

function valueSourceErrors({ value = '', valueFrom }: EnvironmentVariable, path: FieldPath): FieldError[] {
  if (valueFrom === undefined) return [];
  const { fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef, fileKeyRef } = valueFrom;
  const errors: FieldError[] = [];
  if (fieldRef) errors.push(...fieldReferenceErrors(fieldRef, environmentFields, [...path, 'fieldRef']));
  if (resourceFieldRef) {
    errors.push(...resourceFieldReferenceErrors(resourceFieldRef, 'variable', [...path, 'resourceFieldRef']));
  }
  if (configMapKeyRef) errors.push(...keyReferenceErrors(configMapKeyRef, [...path, 'configMapKeyRef']));
  if (secretKeyRef) errors.push(...keyReferenceErrors(secretKeyRef, [...path, 'secretKeyRef']));
  if (fileKeyRef) errors.push(...fileKeyReferenceErrors(fileKeyRef, [...path, 'fileKeyRef']));
  const count = Object.values(valueFrom).filter((source) => source !== undefined).length;
  if (count === 0) errors.push(invalidField(path, '', noSource));
  else if (value !== '') errors.push(invalidField(path, '', 'may not be specified when `value` is not empty'));
  else if (count > 1) errors.push(invalidField(path, '', 'may not have more than one field specified at a time'));
  return errors;
}

const noSource =
  'must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`';

function keyReferenceErrors({ name, key }: KeyReference, path: FieldPath): FieldError[] {
  return [
    ...invalidFields([...path, 'name'], name, dnsSubdomainProblems(name)),
    ...(key === ''
      ? [requiredField([...path, 'key'])]
      : invalidFields([...path, 'key'], key, configMapKeyProblems(key))),
  ];
}

function fileKeyReferenceErrors({ key, volumeName, path: file }: FileKeyReference, path: FieldPath): FieldError[] {
  const volumePath = [...path, 'volumeName'];
  const filePath = [...path, 'path'];
  return [
    ...variableNameErrors(key, [...path, 'key']),
    ...(volumeName === ''
      ? [requiredField(volumePath)]
      : invalidFields(volumePath, volumeName, dnsLabelProblems(volumeName))),
    ...(file === '' ? [requiredField(filePath)] : invalidFields(filePath, file, backstepProblems(file))),
  ];
}
