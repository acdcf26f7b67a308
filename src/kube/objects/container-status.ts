/** What a node reports of one container: its state now, the state before that, and what it was given. */
import { resourceRequirements } from './container.ts';
import { any, boolean, integer, list, map, object, quantity, replacedByPatch, required, string } from './schema.ts';
import type { Of } from './schema.ts';

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
