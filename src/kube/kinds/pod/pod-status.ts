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
} from '../../schema/schema.ts';
import { resourceRequirements } from './container.ts';

export const containerState = object({
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
});

export const containerStatus = object({
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
});
export interface ContainerStatus extends Of<typeof containerStatus> {}

const address = object({ ip: required(string) });

export const podStatus = object({
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
});
export interface PodStatus extends Of<typeof podStatus> {}

/** It has ended for good. */
export function isTerminalPhase(phase: string | undefined): boolean {
  return phase === 'Succeeded' || phase === 'Failed';
}
