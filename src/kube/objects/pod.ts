/** A pod: containers that share volumes, and the settings they share. */
import { container, ephemeralContainer, resourceRequirements, sharedSecurityFields } from './container.ts';
import type { Container, EphemeralContainer } from './container.ts';
import { containerStatus } from './container-status.ts';
import { labelSelector, localObjectReference, objectFields, objectMeta } from './metadata.ts';
import { nodeSelector, nodeSelectorTerm } from './persistent-volume.ts';
import {
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
  string,
} from './schema.ts';
import type { Of } from './schema.ts';
import { volume } from './volume.ts';

const resourceList = map(quantity);

export const podSecurityContext = object({
  ...sharedSecurityFields,
  supplementalGroups: list(integer),
  supplementalGroupsPolicy: string,
  fsGroup: integer,
  sysctls: list(object({ name: required(string), value: required(string) })),
  fsGroupChangePolicy: string,
  seLinuxChangePolicy: string,
});

const podAffinityTerm = object({
  labelSelector,
  namespaces: list(string),
  topologyKey: required(string),
  namespaceSelector: labelSelector,
  matchLabelKeys: list(string),
  mismatchLabelKeys: list(string),
});
const podAffinity = object({
  requiredDuringSchedulingIgnoredDuringExecution: list(podAffinityTerm),
  preferredDuringSchedulingIgnoredDuringExecution: list(
    object({ weight: required(integer), podAffinityTerm: required(podAffinityTerm) }),
  ),
});
const affinity = object({
  nodeAffinity: object({
    requiredDuringSchedulingIgnoredDuringExecution: nodeSelector,
    preferredDuringSchedulingIgnoredDuringExecution: list(
      object({ weight: required(integer), preference: required(nodeSelectorTerm) }),
    ),
  }),
  podAffinity,
  podAntiAffinity: podAffinity,
});

export const toleration = object({
  key: string,
  operator: string,
  value: string,
  effect: string,
  tolerationSeconds: integer,
});

export const podSpec = object({
  volumes: list(volume, 'name'),
  initContainers: list(container, 'name'),
  containers: required(list(container, 'name')),
  ephemeralContainers: list(ephemeralContainer, 'name'),
  restartPolicy: string,
  terminationGracePeriodSeconds: integer,
  activeDeadlineSeconds: integer,
  dnsPolicy: string,
  nodeSelector: atomic(map(string)),
  serviceAccountName: string,
  serviceAccount: string,
  automountServiceAccountToken: boolean,
  nodeName: string,
  hostNetwork: boolean,
  hostPID: boolean,
  hostIPC: boolean,
  shareProcessNamespace: boolean,
  securityContext: podSecurityContext,
  imagePullSecrets: list(localObjectReference, 'name'),
  hostname: string,
  subdomain: string,
  affinity,
  schedulerName: string,
  tolerations: list(toleration),
  hostAliases: list(object({ ip: required(string), hostnames: list(string) }), 'ip'),
  priorityClassName: string,
  priority: integer,
  dnsConfig: object({
    nameservers: list(string),
    searches: list(string),
    options: list(object({ name: string, value: string })),
  }),
  readinessGates: list(object({ conditionType: required(string) })),
  runtimeClassName: string,
  enableServiceLinks: boolean,
  preemptionPolicy: string,
  overhead: resourceList,
  topologySpreadConstraints: list(
    object({
      maxSkew: required(integer),
      topologyKey: required(string),
      whenUnsatisfiable: required(string),
      labelSelector,
      minDomains: integer,
      nodeAffinityPolicy: string,
      nodeTaintsPolicy: string,
      matchLabelKeys: list(string),
    }),
    'topologyKey',
    'whenUnsatisfiable',
  ),
  setHostnameAsFQDN: boolean,
  os: object({ name: required(string) }),
  hostUsers: boolean,
  schedulingGates: list(object({ name: required(string) }), 'name'),
  resourceClaims: list(
    object({ name: required(string), resourceClaimName: string, resourceClaimTemplateName: string }),
    'name',
  ),
  resources: resourceRequirements,
  hostnameOverride: string,
  schedulingGroup: object({ podGroupName: string }),
  evictionResponders: list(atomic(any), 'name'),
});
export interface PodSpec extends Of<typeof podSpec> {}

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

export const pod = object({ ...objectFields, spec: required(podSpec), status: podStatus });
export interface Pod extends Of<typeof pod> {}

export const podTemplate = object({ metadata: objectMeta, spec: required(podSpec) });
export interface PodTemplate extends Of<typeof podTemplate> {}

export type AnyContainer = Container | EphemeralContainer;

/** Every container of a pod in the order the kubelet visits them: init, regular, ephemeral. */
export function allContainers(spec: PodSpec): readonly AnyContainer[] {
  return [...(spec.initContainers ?? []), ...spec.containers, ...(spec.ephemeralContainers ?? [])];
}

export function containerNamed({ spec }: Pod, name: string): AnyContainer | undefined {
  return allContainers(spec).find((one) => one.name === name);
}

/** An init container that goes on running beside the others. */
export function isSidecar({ restartPolicy }: AnyContainer): boolean {
  return restartPolicy === 'Always';
}

/** It has ended for good. */
export function isTerminalPhase(phase: string | undefined): boolean {
  return phase === 'Succeeded' || phase === 'Failed';
}
