/** What an update of a pod's status may say. The node is believed, but for what cannot be: an ended container does not run again. */
import { type FieldError, forbiddenField, invalidField, invalidFields } from '../../schema/field-errors.ts';
import { immutableErrors, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import type { FieldPath } from '../../schema/schema.ts';
import { dnsSubdomainProblems, qualifiedNameProblems } from '../../values/names.ts';
import { addressProblems, parseIpAddress } from '../../values/network-names.ts';
import { podAnnotationErrors } from './pod-field-validation.ts';
import type { PodSpec } from './pod-spec.ts';
import type { ContainerStatus, PodStatus } from './pod-status.ts';
import { podAnnotationUpdateErrors } from './pod-update-validation.ts';
import type { Pod } from './pod.ts';

const systemConditions = new Set(['PodScheduled', 'Ready', 'Initialized']);

export function validatePodStatusUpdate(pod: Pod, old: Pod): FieldError[] {
  const path: FieldPath = ['status'];
  const status = pod.status ?? {};
  const before = old.status ?? {};
  return [
    ...validateObjectMetaUpdate(pod.metadata, old.metadata),
    ...podAnnotationUpdateErrors(pod, old, ['metadata', 'annotations']),
    ...podAnnotationErrors(pod.metadata.annotations ?? {}, pod.spec, ['metadata', 'annotations']),
    ...conditionErrors(status.conditions ?? [], [...path, 'conditions']),
    ...nominationErrors(status, before, old.spec, [...path, 'nominatedNodeName']),
    ...generationErrors(status.observedGeneration ?? 0, [...path, 'observedGeneration']),
    ...immutableErrors(status.qosClass ?? '', before.qosClass ?? '', [...path, 'qosClass']),
    ...(['containerStatuses', 'initContainerStatuses', 'ephemeralContainerStatuses'] as const).flatMap((field) =>
      revivalErrors(status[field] ?? [], before[field] ?? [], mayRestart(field, old.spec), [...path, field]),
    ),
    ...addressListErrors('podIPs', status, before, [...path, 'podIPs']),
    ...addressListErrors('hostIPs', status, before, [...path, 'hostIPs']),
  ];
}

type Conditions = NonNullable<PodStatus['conditions']>;

function conditionErrors(conditions: Conditions, path: FieldPath): FieldError[] {
  return conditions.flatMap(({ type, observedGeneration = 0 }, index) => [
    ...generationErrors(observedGeneration, [...path, index, 'observedGeneration']),
    ...(systemConditions.has(type) ? [] : invalidFields([...path, index, 'Type'], type, qualifiedNameProblems(type))),
  ]);
}

function generationErrors(generation: number, path: FieldPath): FieldError[] {
  return generation < 0 ? [invalidField(path, generation, 'must be a non-negative integer')] : [];
}

function nominationErrors(status: PodStatus, before: PodStatus, spec: PodSpec, path: FieldPath): FieldError[] {
  const name = status.nominatedNodeName ?? '';
  if (name === '' || name === (before.nominatedNodeName ?? '')) return [];
  const errors = invalidFields(path, name, dnsSubdomainProblems(name));
  if ((spec.nodeName ?? '') === '') return errors;
  return [...errors, forbiddenField(path, 'may not be set on pods that are already bound to a node')];
}

type StatusField = 'containerStatuses' | 'initContainerStatuses' | 'ephemeralContainerStatuses';

/** Whether a container that ended with this code may run once more. */
function mayRestart(field: StatusField, spec: PodSpec): (name: string, exitCode: number) => boolean {
  if (field === 'ephemeralContainerStatuses') return () => false;
  const containers = (field === 'containerStatuses' ? spec.containers : spec.initContainers) ?? [];
  const named = new Map(containers.map((container) => [container.name, container]));
  return (name, exitCode) => {
    const container = named.get(name);
    const matches = ({ operator, values = [] }: { operator?: string; values?: readonly number[] }): boolean =>
      operator === 'In' ? values.includes(exitCode) : operator === 'NotIn' && !values.includes(exitCode);
    const rule = container?.restartPolicyRules?.find(({ exitCodes }) => exitCodes !== undefined && matches(exitCodes));
    if (rule?.action === 'Restart') return true;
    const policy = container?.restartPolicy ?? spec.restartPolicy ?? 'Always';
    return policy === 'Always' || (policy === 'OnFailure' && exitCode !== 0);
  };
}

function revivalErrors(
  statuses: readonly ContainerStatus[],
  before: readonly ContainerStatus[],
  isAllowed: (name: string, exitCode: number) => boolean,
  path: FieldPath,
): FieldError[] {
  return before.flatMap(({ name, state }, index) => {
    if (state?.terminated === undefined || isAllowed(name, state.terminated.exitCode)) return [];
    const revived = statuses.some((status) => status.name === name && status.state?.terminated === undefined);
    if (!revived) return [];
    return [forbiddenField([...path, index, 'state'], 'may not be transitioned to non-terminated state')];
  });
}

function addressListErrors(
  field: 'podIPs' | 'hostIPs',
  status: PodStatus,
  before: PodStatus,
  path: FieldPath,
): FieldError[] {
  const addresses = (status[field] ?? []).map(({ ip }) => ip);
  const known = new Set((before[field] ?? []).map(({ ip }) => ip));
  const errors = addresses.flatMap((ip, index) =>
    known.has(ip) ? [] : invalidFields([...path, index], ip, addressProblems(ip)),
  );
  const refuse = (detail: string): FieldError =>
    invalidField(
      path,
      addresses.map((ip) => ({ IP: ip })),
      detail,
    );
  if (addresses.length > 1) {
    const families = addresses.map((ip) => parseIpAddress(ip)?.family);
    const isPair = addresses.length === 2 && families[0] !== families[1];
    if (!isPair) errors.push(refuse('may specify no more than one IP for each IP family'));
  }
  const single = field === 'podIPs' ? 'podIP' : 'hostIP';
  const first = status[single] ?? '';
  if (field === 'podIPs' && (first !== '') !== addresses.length > 0) {
    errors.push(refuse('podIP and podIPs must either both be set or both be unset'));
  } else if (addresses[0] !== undefined && addresses[0] !== first) {
    errors.push(invalidField([...path, 0, 'ip'], addresses[0], `must be equal to \`${single}\``));
  }
  return errors;
}
