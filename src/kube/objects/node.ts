/** The machine pods run on, as the cluster sees it. */
import { objectFields } from './metadata.ts';
import { any, boolean, integer, list, map, object, quantity, required, setOf, string } from './schema.ts';
import type { Of } from './schema.ts';

const resourceList = map(quantity);

export const node = object({
  ...objectFields,
  spec: object({
    podCIDR: string,
    podCIDRs: setOf(string),
    providerID: string,
    unschedulable: boolean,
    taints: list(object({ key: required(string), value: string, effect: required(string), timeAdded: string })),
    configSource: any,
    externalID: string,
    podPreemptionPolicy: any,
  }),
  status: object({
    capacity: resourceList,
    allocatable: resourceList,
    phase: string,
    conditions: list(
      object({
        type: required(string),
        status: required(string),
        lastHeartbeatTime: string,
        lastTransitionTime: string,
        reason: string,
        message: string,
      }),
      'type',
    ),
    addresses: list(object({ type: required(string), address: required(string) }), 'type'),
    daemonEndpoints: object({ kubeletEndpoint: object({ Port: required(integer) }) }),
    nodeInfo: object({
      machineID: required(string),
      systemUUID: required(string),
      bootID: required(string),
      kernelVersion: required(string),
      osImage: required(string),
      containerRuntimeVersion: required(string),
      kubeletVersion: required(string),
      kubeProxyVersion: required(string),
      operatingSystem: required(string),
      architecture: required(string),
      swap: object({ capacity: integer }),
      runningInUserNamespace: boolean,
    }),
    images: list(object({ names: list(string), sizeBytes: integer })),
    volumesInUse: list(string),
    volumesAttached: list(object({ name: required(string), devicePath: required(string) })),
    config: any,
    runtimeHandlers: list(
      object({ name: string, features: object({ recursiveReadOnlyMounts: boolean, userNamespaces: boolean }) }),
    ),
    features: object({ supplementalGroupsPolicy: boolean }),
    declaredFeatures: list(string),
  }),
});
export interface Node extends Of<typeof node> {}
