/** Rules for pods that say which operating system they are for. Windows' own options are carried along unread. */
import { type FieldError, forbiddenField, requiredField, unsupportedField } from '../../schema/field-errors.ts';
import type { FieldPath } from '../../schema/schema.ts';
import type { PodSpec } from './pod-spec.ts';

const systems = ['linux', 'windows'];
const kinds = ['initContainers', 'containers', 'ephemeralContainers'] as const;

/** In the order in which the API server looks at them. */
const linuxOnlyOfPod = [
  'appArmorProfile',
  'seLinuxOptions',
  'seccompProfile',
  'fsGroup',
  'fsGroupChangePolicy',
  'sysctls',
  'runAsUser',
  'runAsGroup',
  'supplementalGroups',
  'supplementalGroupsPolicy',
  'seLinuxChangePolicy',
] as const;
const linuxOnlyOfContainer = [
  'appArmorProfile',
  'seLinuxOptions',
  'seccompProfile',
  'capabilities',
  'readOnlyRootFilesystem',
  'privileged',
  'allowPrivilegeEscalation',
  'procMount',
  'runAsUser',
  'runAsGroup',
] as const;

export function osErrors(spec: PodSpec, path: FieldPath): FieldError[] {
  const { os } = spec;
  if (os === undefined) return [];
  if (os.name === '') return [requiredField([...path, 'os', 'name'])];
  if (!systems.includes(os.name)) return [unsupportedField([...path, 'os'], os.name, systems)];
  return os.name === 'linux' ? linuxErrors(spec, path) : windowsErrors(spec, path);
}

function linuxErrors(spec: PodSpec, path: FieldPath): FieldError[] {
  const detail = 'windows options cannot be set for a linux pod';
  return [
    ...(spec.securityContext?.windowsOptions === undefined
      ? []
      : [forbiddenField([...path, 'securityContext', 'windowsOptions'], detail)]),
    ...kinds.flatMap((kind) =>
      (spec[kind] ?? []).flatMap(({ securityContext }, index) =>
        securityContext?.windowsOptions === undefined
          ? []
          : [forbiddenField([...path, kind, index, 'securityContext', 'windowsOptions'], detail)],
      ),
    ),
  ];
}

function windowsErrors(spec: PodSpec, path: FieldPath): FieldError[] {
  const refuse = (...fields: (string | number)[]): FieldError =>
    forbiddenField([...path, ...fields], 'cannot be set for a windows pod');
  const context = spec.securityContext ?? {};
  return [
    ...linuxOnlyOfPod
      .filter((field) => (field === 'sysctls' ? (context.sysctls ?? []).length > 0 : context[field] !== undefined))
      .map((field) => refuse('securityContext', field)),
    ...(spec.hostUsers === undefined ? [] : [refuse('hostUsers')]),
    ...(spec.hostPID === true ? [refuse('hostPID')] : []),
    ...(spec.hostIPC === true ? [refuse('hostIPC')] : []),
    ...(spec.shareProcessNamespace === undefined ? [] : [refuse('shareProcessNamespace')]),
    ...kinds.flatMap((kind) =>
      (spec[kind] ?? []).flatMap(({ securityContext: own }, index) =>
        linuxOnlyOfContainer
          .filter((field) => own?.[field] !== undefined)
          .map((field) => refuse(kind, index, 'securityContext', field)),
      ),
    ),
  ];
}
