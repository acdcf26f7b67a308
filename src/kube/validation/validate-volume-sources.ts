/** Rules for volume sources that pods and PersistentVolumes have in common. */
import { invalidField, invalidFields, requiredField, tooLongField, unsupportedField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { backstepProblems, dnsSubdomainProblems } from '../values/names.ts';
import type { FieldPath } from '../objects/schema.ts';
import type { HostPathVolumeSource, NfsVolumeSource } from '../objects/volume.ts';

const hostPathTypes = [
  '',
  'BlockDevice',
  'CharDevice',
  'Directory',
  'DirectoryOrCreate',
  'File',
  'FileOrCreate',
  'Socket',
];

/** A relative path is accepted: it is the node's business. */
export function hostPathErrors({ path: hostPath, type }: HostPathVolumeSource, path: FieldPath): FieldError[] {
  if (hostPath === '') return [requiredField([...path, 'path'])];
  const errors = invalidFields([...path, 'path'], hostPath, backstepProblems(hostPath));
  const isKnown = type === undefined || hostPathTypes.includes(type);
  return isKnown ? errors : [...errors, unsupportedField([...path, 'type'], type, hostPathTypes)];
}

export function nfsErrors({ server, path: exported }: NfsVolumeSource, path: FieldPath): FieldError[] {
  const errors = [...emptyErrors(server, [...path, 'server']), ...emptyErrors(exported, [...path, 'path'])];
  if (!exported.startsWith('/')) errors.push(invalidField([...path, 'path'], exported, 'must be an absolute path'));
  return errors;
}

export function csiDriverErrors(driver: string, path: FieldPath): FieldError[] {
  if (driver === '') return [requiredField(path)];
  const errors = Buffer.byteLength(driver) > 63 ? [tooLongField(path, 63)] : [];
  return [...errors, ...invalidFields(path, driver, dnsSubdomainProblems(driver.toLowerCase()))];
}

export function emptyErrors(value: string, path: FieldPath): FieldError[] {
  return value === '' ? [requiredField(path)] : [];
}
