/** What a node reports of one container: its state now, the state before that, and what it was given. */
import {
  type Of,
  any,
  atomic,
  boolean,
  integer,
  list,
  map,
  object,
  quantity,
  replacedByPatch,
  required,
  resourceList,
  string,
  described,
} from '../../schema/schema.ts';
import { resourceRequirements } from './container.ts';

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
    running: object({ startedAt: string }),
    terminated: object({
      exitCode: required(integer),
      signal: integer,
      reason: string,
      message: string,
      startedAt: string,
      finishedAt: string,
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
        lastProbeTime: string,
        lastTransitionTime: string,
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
    startTime: string,
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
