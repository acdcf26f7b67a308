import { labelSelector, localObjectReference } from '../../schema/meta.ts';
import {
  type Of,
  any,
  atomic,
  boolean,
  integer,
  list,
  map,
  object,
  required,
  resourceList,
  string,
} from '../../schema/schema.ts';
import { nodeSelector, nodeSelectorTerm } from '../storage/node-selector.ts';
import {
  type Container,
  type EphemeralContainer,
  containerShape,
  ephemeralContainer,
  resourceRequirements,
  sharedSecurityFields,
} from './container.ts';
import { volumeShape } from './volume.ts';

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
  volumes: list(volumeShape, 'name'),
  initContainers: list(containerShape, 'name'),
  containers: required(list(containerShape, 'name')),
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

export type AnyContainer = Container | EphemeralContainer;

/** Every container of a pod in the order the kubelet visits them: init, regular, ephemeral. */
export function allContainers(spec: PodSpec): readonly AnyContainer[] {
  return [...(spec.initContainers ?? []), ...spec.containers, ...(spec.ephemeralContainers ?? [])];
}

export function containerNamed({ spec }: { readonly spec: PodSpec }, name: string): AnyContainer | undefined {
  return allContainers(spec).find((one) => one.name === name);
}

/** An init container that goes on running beside the others. */
export function isSidecar({ restartPolicy }: AnyContainer): boolean {
  return restartPolicy === 'Always';
}
