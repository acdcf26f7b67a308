/** What a node reports of one container: its state now, the state before that, and what it was given. */
import { type FieldError, forbiddenField, invalidField, invalidFields } from '../../schema/field-errors.ts';
import { immutableErrors, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import {
  type FieldPath,
  type Of,
  any,
  atomic,
  boolean,
  described,
  integer,
  list,
  map,
  object,
  quantity,
  replacedByPatch,
  required,
  resourceList,
  string,
  time,
} from '../../schema/schema.ts';
import { dnsSubdomainProblems, qualifiedNameProblems } from '../../values/names.ts';
import { addressProblems, parseIpAddress } from '../../values/network-names.ts';
import { resourceRequirements } from './container.ts';
import { podAnnotationErrors } from './pod-field-validation.ts';
import type { PodSpec } from './pod-spec.ts';
import { podAnnotationUpdateErrors } from './pod-update-validation.ts';
import type { Pod } from './pod.ts';

/** The condition by which a node says that containers of a pod do nothing, because what they should run is not there. */
export const idleCondition = 'mountlet.dev/Idle';

const containerState = described(
  {
    name: 'io.k8s.api.core.v1.ContainerState',
    text: 'What a container does: exactly one of these.',
    fields: {
      waiting: 'It does not run yet, and why.',
      running: 'It runs, since when.',
      terminated: 'It has ended, and how.',
    },
  },
  object({
    waiting: object({ reason: string, message: string }),
    running: object({ startedAt: time }),
    terminated: object({
      exitCode: required(integer),
      signal: integer,
      reason: string,
      message: string,
      startedAt: time,
      finishedAt: time,
      containerID: string,
    }),
  }),
);

const containerStatus = described(
  {
    name: 'io.k8s.api.core.v1.ContainerStatus',
    text: 'One container as its node sees it.',
    fields: {
      name: 'The name of the container.',
      state: 'What it does now.',
      lastState: 'How it ended before.',
      ready: 'Whether it can do its work.',
      restartCount: 'How often it was started again.',
      image: 'The image it runs.',
      imageID: 'The exact image it runs.',
      containerID: 'What the runtime calls it.',
      started: 'Whether it has started, by its startup probe.',
      volumeMounts: 'How its volumes were mounted.',
    },
  },
  object({
    name: required(string),
    state: containerState,
    lastState: containerState,
    ready: required(boolean),
    restartCount: required(integer),
    image: required(string),
    imageID: required(string),
    containerID: string,
    started: boolean,
    allocatedResources: map(quantity),
    resources: resourceRequirements,
    volumeMounts: list(
      object({
        name: required(string),
        mountPath: required(string),
        readOnly: boolean,
        recursiveReadOnly: string,
        volumeStatus: any,
      }),
      'mountPath',
    ),
    user: object({
      linux: object({ uid: required(integer), gid: required(integer), supplementalGroups: list(integer) }),
    }),
    allocatedResourcesStatus: list(
      object({
        name: required(string),
        resources: replacedByPatch(
          list(object({ resourceID: required(string), health: string, message: string }), 'resourceID'),
        ),
      }),
      'name',
    ),
    stopSignal: string,
  }),
);
export interface ContainerStatus extends Of<typeof containerStatus> {}

const address = object({ ip: required(string) });

export const podStatus = described(
  {
    name: 'io.k8s.api.core.v1.PodStatus',
    text: 'What a pod is now, as its node says.',
    fields: {
      observedGeneration: 'The generation of the pod that this status is about.',
      phase: 'Pending, Running, Succeeded, Failed or Unknown.',
      conditions: 'How far the pod is: PodScheduled, Initialized, ContainersReady, Ready.',
      message: 'Why it is in this phase, for people.',
      reason: 'Why it is in this phase, in one word.',
      nominatedNodeName: 'The node where room is made for the pod.',
      hostIP: 'The address of the node.',
      hostIPs: 'The addresses of the node, of each family.',
      podIP: 'The address of the pod.',
      podIPs: 'The addresses of the pod, of each family.',
      startTime: 'When the node took on the pod.',
      initContainerStatuses: 'The init containers.',
      containerStatuses: 'The containers.',
      ephemeralContainerStatuses: 'The ephemeral containers.',
      qosClass: 'Guaranteed, Burstable or BestEffort: who goes first when the node runs short.',
    },
  },
  object({
    observedGeneration: integer,
    phase: string,
    conditions: list(
      object({
        type: required(string),
        status: required(string),
        observedGeneration: integer,
        lastProbeTime: time,
        lastTransitionTime: time,
        reason: string,
        message: string,
      }),
      'type',
    ),
    message: string,
    reason: string,
    nominatedNodeName: string,
    hostIP: string,
    hostIPs: atomic(list(address, 'ip')),
    podIP: string,
    podIPs: list(address, 'ip'),
    startTime: time,
    initContainerStatuses: list(containerStatus),
    containerStatuses: list(containerStatus),
    ephemeralContainerStatuses: list(containerStatus),
    qosClass: string,
    resize: string,
    resourceClaimStatuses: list(object({ name: required(string), resourceClaimName: string }), 'name'),
    extendedResourceClaimStatus: any,
    allocatedResources: resourceList,
    resources: resourceRequirements,
    nodeAllocatableResourceClaimStatuses: list(any, 'resourceClaimName'),
    volumeHealth: replacedByPatch(list(any, 'name')),
  }),
);
export interface PodStatus extends Of<typeof podStatus> {}

/** It has ended for good. */
export function isTerminalPhase(phase: string | undefined): boolean {
  return phase === 'Succeeded' || phase === 'Failed';
}

/** What an update of a pod's status may say. The node is believed, but for what cannot be: an ended container does not run again. */
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
