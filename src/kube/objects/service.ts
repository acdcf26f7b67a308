/** A Service: on the node it matters only for the variables it puts into containers. */
import { objectFields } from './metadata.ts';
import {
  absentMeans,
  any,
  atomic,
  boolean,
  integer,
  intOrString,
  list,
  map,
  object,
  required,
  string,
} from './schema.ts';
import type { Of } from './schema.ts';

export const service = object({
  ...objectFields,
  spec: required(
    object({
      ports: list(
        object({
          name: string,
          protocol: absentMeans('TCP', string),
          appProtocol: string,
          port: required(integer),
          targetPort: intOrString,
          nodePort: integer,
        }),
        'port',
        'protocol',
      ),
      selector: atomic(map(string)),
      clusterIP: string,
      clusterIPs: list(string),
      type: string,
      externalIPs: list(string),
      sessionAffinity: string,
      loadBalancerIP: string,
      loadBalancerSourceRanges: list(string),
      externalName: string,
      externalTrafficPolicy: string,
      healthCheckNodePort: integer,
      publishNotReadyAddresses: boolean,
      sessionAffinityConfig: object({ clientIP: object({ timeoutSeconds: integer }) }),
      ipFamilies: list(string),
      ipFamilyPolicy: string,
      allocateLoadBalancerNodePorts: boolean,
      loadBalancerClass: string,
      internalTrafficPolicy: string,
      trafficDistribution: string,
    }),
  ),
  status: object({
    loadBalancer: object({
      ingress: list(
        object({
          ip: string,
          hostname: string,
          ipMode: string,
          ports: list(object({ port: required(integer), protocol: required(string), error: string })),
        }),
      ),
    }),
    conditions: list(any, 'type'),
  }),
});
export interface Service extends Of<typeof service> {}
