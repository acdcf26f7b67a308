/** Rules for where a container sees its volumes: mounts of file systems and devices. */
import {
  type FieldError,
  addErrors,
  duplicateField,
  forbiddenField,
  invalidField,
  invalidFields,
  notFoundField,
  placedBelow,
  requiredField,
  unsupportedField,
  unsupportedText,
} from '../../schema/field-errors.ts';
import type { FieldPath } from '../../schema/schema.ts';
import { backstepProblems, descendingPathProblems } from '../../values/names.ts';
import type { Container, VolumeMount } from './container.ts';
import type { Volume } from './volume.ts';

type Volumes = ReadonlyMap<string, Volume>;

const propagations = ['Bidirectional', 'HostToContainer', 'None'];
const recursiveReadOnlyModes = ['Disabled', 'Enabled', 'IfPossible'];
const bindMountOptions = ['nodev', 'noexec', 'nosuid'];

/** A mount path may be anything but empty: relative, with back-steps or colons. The runtime has the last word. */
export function mountErrors(container: Container, volumes: Volumes, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  const devices = container.volumeDevices ?? [];
  const deviceNames = new Set(devices.map(({ name }) => name));
  const devicePaths = lastPaths(devices, 'devicePath');
  const seen = new Set<string>();
  for (const [index, mount] of (container.volumeMounts ?? []).entries()) {
    const here = [...path, index];
    const { name, mountPath } = mount;
    if (name === '') errors.push(requiredField([...here, 'name']));
    if (!volumes.has(name)) errors.push(notFoundField([...here, 'name'], name));
    if (mountPath === '') errors.push(requiredField([...here, 'mountPath']));
    if (seen.has(mountPath)) errors.push(invalidField([...here, 'mountPath'], mountPath, 'must be unique'));
    seen.add(mountPath);
    if (deviceNames.has(name)) {
      errors.push(invalidField([...here, 'name'], name, 'must not already exist in volumeDevices'));
    }
    if (devicePaths.has(mountPath)) {
      const detail = 'must not already exist as a path in volumeDevices';
      errors.push(invalidField([...here, 'mountPath'], mountPath, detail));
    }
    addErrors(errors, subPathErrors(mount, here, path), propagationErrors(mount, container, here, path));
    addErrors(errors, bindOptionErrors(mount, volumes, [...here, 'bindMountOptions']));
  }
  return errors;
}

export function deviceErrors(container: Container, volumes: Volumes, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  const mounts = container.volumeMounts ?? [];
  const mountNames = new Set(mounts.map(({ name }) => name));
  const mountPaths = lastPaths(mounts, 'mountPath');
  const names = new Set<string>();
  const paths = new Set<string>();
  for (const [index, { name, devicePath }] of (container.volumeDevices ?? []).entries()) {
    const namePath = [...path, index, 'name'];
    const devicePathPath = [...path, index, 'devicePath'];
    const volume = volumes.get(name);
    if (name === '') errors.push(requiredField(namePath));
    if (names.has(name)) errors.push(invalidField(namePath, name, 'must be unique'));
    if (volume === undefined) errors.push(notFoundField(namePath, name));
    else if (!volume.persistentVolumeClaim && !volume.ephemeral) {
      const detail = 'can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode';
      errors.push(invalidField(namePath, name, detail));
    }
    if (devicePath === '') errors.push(requiredField(devicePathPath));
    if (paths.has(devicePath)) errors.push(invalidField(devicePathPath, devicePath, 'must be unique'));
    if (backstepProblems(devicePath).length > 0) {
      errors.push(invalidField(devicePathPath, devicePath, "can not contain backsteps ('..')"));
    } else paths.add(devicePath);
    if (mountNames.has(name)) {
      errors.push(invalidField(namePath, name, 'must not already exist in volumeMounts'));
    }
    if (mountPaths.has(devicePath)) {
      errors.push(invalidField(devicePathPath, devicePath, 'must not already exist as a path in volumeMounts'));
    }
    if (name !== '') names.add(name);
  }
  return errors;
}

/** Of a volume that is named twice the API server compares only the last path. */
function lastPaths<K extends 'devicePath' | 'mountPath'>(
  entries: readonly ({ readonly name: string } & Readonly<Record<K, string>>)[],
  key: K,
): ReadonlySet<string> {
  return new Set(new Map(entries.map((entry) => [entry.name, entry[key]])).values());
}

/** The API server does not say which mount it means. */
function subPathErrors(
  { subPath = '', subPathExpr = '' }: VolumeMount,
  here: FieldPath,
  path: FieldPath,
): FieldError[] {
  const check = (field: 'subPath' | 'subPathExpr', value: string): FieldError[] =>
    placedBelow(here, path, invalidFields([...path, field], value, descendingPathProblems(value)));
  const errors = subPath === '' ? [] : check('subPath', subPath);
  if (subPathExpr === '') return errors;
  if (subPath !== '') {
    const detail = 'subPathExpr and subPath are mutually exclusive';
    errors.push(invalidField([...here, 'subPathExpr'], subPathExpr, detail));
  }
  return [...errors, ...check('subPathExpr', subPathExpr)];
}

function propagationErrors(mount: VolumeMount, container: Container, here: FieldPath, path: FieldPath): FieldError[] {
  const { mountPropagation: propagation, recursiveReadOnly: mode } = mount;
  const errors: FieldError[] = [];
  const propagationPath = [...path, 'mountPropagation'];
  if (propagation !== undefined && !propagations.includes(propagation)) {
    errors.push(unsupportedField(propagationPath, propagation, propagations));
  }
  if (propagation === 'Bidirectional' && container.securityContext?.privileged !== true) {
    const detail = 'Bidirectional mount propagation is available only to privileged containers';
    errors.push(forbiddenField(propagationPath, detail));
  }
  const modePath = [...path, 'recursiveReadOnly'];
  if (mode !== undefined && !recursiveReadOnlyModes.includes(mode)) {
    errors.push(unsupportedField(modePath, mode, recursiveReadOnlyModes));
  } else if (mode === 'Enabled' || mode === 'IfPossible') {
    if (mount.readOnly !== true) errors.push(forbiddenField(modePath, 'may only be specified when readOnly is true'));
    if (propagation !== undefined && propagation !== 'None') {
      const detail = 'may only be specified when mountPropagation is None or not specified';
      errors.push(forbiddenField(modePath, detail));
    }
  }
  return placedBelow(here, path, errors);
}

function bindOptionErrors(
  { name, bindMountOptions: options = [] }: VolumeMount,
  volumes: Volumes,
  path: FieldPath,
): FieldError[] {
  const errors: FieldError[] = [];
  const seen = new Set<string>();
  for (const [index, option] of options.entries()) {
    if (!bindMountOptions.includes(option)) {
      errors.push(unsupportedText([...path, index], option, bindMountOptions));
    }
    if (seen.has(option)) errors.push(duplicateField([...path, index], option));
    seen.add(option);
  }
  if (options.length > 0 && volumes.get(name)?.image) {
    errors.push(invalidField(path, options, 'bindMountOptions may not be used with image volumes'));
  }
  return errors;
}
