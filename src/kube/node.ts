/** The machine pods run on, as the cluster sees it. */
import { objectFields } from './metadata.ts';
import { any, boolean, list, map, object, quantity, required, setOf, string } from './schema.ts';
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
    conditions: list(any, 'type'),
    addresses: list(object({ type: required(string), address: required(string) }), 'type'),
    daemonEndpoints: any,
    nodeInfo: any,
    images: list(any),
    volumesInUse: list(string),
    volumesAttached: list(object({ name: required(string), devicePath: required(string) })),
    config: any,
    runtimeHandlers: list(any),
    features: any,
    declaredFeatures: list(string),
  }),
});
export interface Node extends Of<typeof node> {}
