/** Rules for the identities and confinements of pods and containers. */
import {
  type FieldError,
  duplicateField,
  invalidField,
  invalidFields,
  requiredField,
  tooLongField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import { idErrors } from '../../schema/number-validation.ts';
import type { FieldPath } from '../../schema/schema.ts';
import { descendingPathProblems } from '../../values/names.ts';
import type { SecurityContext } from './container.ts';
import type { PodSpec } from './pod-spec.ts';

type Profile = NonNullable<SecurityContext['seccompProfile']>;

const profileTypes = ['Localhost', 'RuntimeDefault', 'Unconfined'];
/** The longest path there is, without its end mark. */
const appArmorNameBytesMax = 4095;
const sysctlLengthMax = 253;
const sysctlPattern = String.raw`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`;

export function securityContextErrors(
  context: SecurityContext | undefined,
  hostUsers: boolean,
  path: FieldPath,
): FieldError[] {
  if (context === undefined) return [];
  return [
    ...idErrors(context.runAsUser, [...path, 'runAsUser']),
    ...idErrors(context.runAsGroup, [...path, 'runAsGroup']),
    ...procMountErrors(context.procMount, hostUsers, [...path, 'procMount']),
    ...seccompErrors(context.seccompProfile, [...path, 'seccompProfile']),
    ...escalationErrors(context, path),
    ...appArmorErrors(context.appArmorProfile, [...path, 'appArmorProfile']),
  ];
}

export function podSecurityContextErrors(spec: PodSpec, path: FieldPath): FieldError[] {
  const { securityContext: context } = spec;
  if (context === undefined) return [];
  const choice = (field: 'fsGroupChangePolicy' | 'supplementalGroupsPolicy' | 'seLinuxChangePolicy'): FieldError[] => {
    const value = context[field];
    const known = choices[field];
    return value === undefined || known.includes(value) ? [] : [unsupportedField([...path, field], value, known)];
  };
  return [
    ...idErrors(context.fsGroup, [...path, 'fsGroup']),
    ...idErrors(context.runAsUser, [...path, 'runAsUser']),
    ...idErrors(context.runAsGroup, [...path, 'runAsGroup']),
    ...(context.supplementalGroups ?? []).flatMap((id, index) => idErrors(id, [...path, 'supplementalGroups', index])),
    ...sysctlErrors(spec, [...path, 'sysctls']),
    ...choice('fsGroupChangePolicy'),
    ...seccompErrors(context.seccompProfile, [...path, 'seccompProfile']),
    ...appArmorErrors(context.appArmorProfile, [...path, 'appArmorProfile']),
    ...choice('supplementalGroupsPolicy'),
    ...choice('seLinuxChangePolicy'),
  ];
}

const choices = {
  fsGroupChangePolicy: ['Always', 'OnRootMismatch'],
  supplementalGroupsPolicy: ['Merge', 'Strict'],
  seLinuxChangePolicy: ['MountOption', 'Recursive'],
};

function procMountErrors(procMount: string | undefined, hostUsers: boolean, path: FieldPath): FieldError[] {
  if (procMount === undefined || procMount === 'Default') return [];
  if (procMount !== 'Unmasked') return [unsupportedField(path, procMount, ['Default', 'Unmasked'])];
  return hostUsers ? [invalidField(path, procMount, '`hostUsers` must be false to use `Unmasked`')] : [];
}

function escalationErrors(context: SecurityContext, path: FieldPath): FieldError[] {
  if (context.allowPrivilegeEscalation !== false) return [];
  const refuse = (other: string): FieldError =>
    invalidField(path, context, `cannot set \`allowPrivilegeEscalation\` to false and ${other}`);
  return [
    ...(context.privileged === true ? [refuse('`privileged` to true')] : []),
    // Said once, however often it is listed: the message carries the whole list.
    ...(context.capabilities?.add?.includes('CAP_SYS_ADMIN') === true
      ? [refuse('`capabilities.Add` CAP_SYS_ADMIN')]
      : []),
  ];
}

function seccompErrors(profile: Profile | undefined, path: FieldPath): FieldError[] {
  if (profile === undefined) return [];
  const errors = profileTypeErrors(profile.type, 'seccompProfile', [...path, 'type']);
  const { localhostProfile } = profile;
  const here = [...path, 'localhostProfile'];
  if (profile.type !== 'Localhost') {
    if (localhostProfile === undefined) return errors;
    return [...errors, invalidField(here, profile, 'can only be set when seccomp type is Localhost')];
  }
  if (localhostProfile === undefined) {
    return [...errors, requiredField(here, 'must be set when seccomp type is Localhost')];
  }
  return [...errors, ...invalidFields(here, localhostProfile, descendingPathProblems(localhostProfile))];
}

function appArmorErrors(profile: Profile | undefined, path: FieldPath): FieldError[] {
  if (profile === undefined) return [];
  const { type, localhostProfile } = profile;
  const here = [...path, 'localhostProfile'];
  if (type !== 'Localhost') {
    const errors = profileTypeErrors(type, 'appArmorProfile', [...path, 'type']);
    if (errors.length > 0 || localhostProfile === undefined) return errors;
    return [invalidField(here, localhostProfile, 'can only be set when AppArmor type is Localhost')];
  }
  const trimmed = localhostProfile?.trim() ?? '';
  const errors: FieldError[] = [];
  if (localhostProfile !== undefined && trimmed !== localhostProfile) {
    errors.push(invalidField(here, localhostProfile, 'must not be padded with whitespace'));
  } else if (trimmed === '') errors.push(requiredField(here, 'must be set when AppArmor type is Localhost'));
  if (Buffer.byteLength(localhostProfile ?? '') > appArmorNameBytesMax) {
    errors.push(tooLongField(here, appArmorNameBytesMax));
  }
  return errors;
}

function profileTypeErrors(type: string, field: string, path: FieldPath): FieldError[] {
  if (type === '') return [requiredField(path, `type is required when ${field} is set`)];
  return profileTypes.includes(type) ? [] : [unsupportedField(path, type, profileTypes)];
}

function sysctlErrors({ securityContext, hostNetwork, hostIPC }: PodSpec, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  const seen = new Set<string>();
  for (const [index, { name }] of (securityContext?.sysctls ?? []).entries()) {
    const here = [...path, index, 'name'];
    if (name === '') errors.push(requiredField(here));
    else if (name.length > sysctlLengthMax || !new RegExp(sysctlPattern).test(name)) {
      const detail = `must have at most ${sysctlLengthMax} characters and match regex ${sysctlPattern}`;
      errors.push(invalidField(here, name, detail));
    } else if (seen.has(name)) errors.push(duplicateField(here, name));
    seen.add(name);
    const namespace = sysctlNamespace(name);
    if (hostNetwork === true && namespace === 'net') {
      errors.push(invalidField(here, name, "may not be specified when 'hostNetwork' is true"));
    } else if (hostIPC === true && namespace === 'ipc') {
      errors.push(invalidField(here, name, "may not be specified when 'hostIPC' is true"));
    }
  }
  return errors;
}

/** Which of the namespaces that a pod may share with its host a setting belongs to. */
function sysctlNamespace(name: string): 'ipc' | 'net' | undefined {
  const dotted = name.replaceAll('/', '.');
  if (dotted.startsWith('net.')) return 'net';
  const isIpc = dotted === 'kernel.sem' || /^(kernel\.shm|kernel\.msg|fs\.mqueue\.)/.test(dotted);
  return isIpc ? 'ipc' : undefined;
}
