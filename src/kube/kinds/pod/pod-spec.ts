/** The shape of a pod's spec, and the few questions about its containers that many callers ask. */
import { labelSelector, localObjectReference } from '../../schema/meta.ts';
import {
  type Of,
  any,
  atomic,
  boolean,
  int32,
  integer,
  list,
  map,
  object,
  required,
  resourceList,
  string,
  described,
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

const podSecurityContext = described(
  {
    name: 'io.k8s.api.core.v1.PodSecurityContext',
    text: 'Who the containers of a pod run as, and who owns their volumes.',
    fields: {
      seLinuxOptions: 'The SELinux label.',
      windowsOptions: 'Settings for Windows.',
      runAsUser: 'The user id of the processes.',
      runAsGroup: 'The group id of the processes.',
      runAsNonRoot: 'Whether a container that would run as root is refused.',
      seccompProfile: 'Which system calls are allowed.',
      appArmorProfile: 'The AppArmor profile.',
      supplementalGroups: 'Further groups of the processes.',
      supplementalGroupsPolicy: 'Whether the groups of the image count: Merge or Strict.',
      fsGroup: 'The group that owns the files of volumes, so that all containers can use them.',
      fsGroupChangePolicy: 'When files are given to that group: OnRootMismatch or Always.',
      sysctls: 'Settings of the kernel for the pod.',
      seLinuxChangePolicy: 'How volumes get the SELinux label.',
    },
  },
  object({
    ...sharedSecurityFields,
    supplementalGroups: list(integer),
    supplementalGroupsPolicy: string,
    fsGroup: integer,
    sysctls: list(object({ name: required(string), value: required(string) })),
    fsGroupChangePolicy: string,
    seLinuxChangePolicy: string,
  }),
);

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

export const toleration = described(
  {
    name: 'io.k8s.api.core.v1.Toleration',
    text: 'A taint that does not keep a pod away.',
    fields: {
      key: 'The key of the taint; every key if empty.',
      operator: 'Exists or Equal.',
      value: 'The value of the taint, for Equal.',
      effect: 'The effect of the taint; every effect if empty.',
      tolerationSeconds: 'For how long it is tolerated, for NoExecute.',
    },
  },
  object({
    key: string,
    operator: string,
    value: string,
    effect: string,
    tolerationSeconds: integer,
  }),
);

export const podSpec = described(
  {
    name: 'io.k8s.api.core.v1.PodSpec',
    text: 'What a pod should be. Most of it cannot be changed once the pod exists.',
    fields: {
      volumes: 'What the containers can mount.',
      initContainers: 'Containers that run before the others, one after another, each until it ends well.',
      containers: 'The containers of the pod. There is at least one.',
      ephemeralContainers: 'Containers that were added to look into the running pod.',
      restartPolicy: 'Whether containers are started again: Always, OnFailure or Never.',
      terminationGracePeriodSeconds: 'How long the pod has to end when it is deleted, 30 if absent.',
      activeDeadlineSeconds: 'How long the pod may run at all.',
      dnsPolicy: 'Where names are looked up: ClusterFirst, ClusterFirstWithHostNet, Default or None.',
      nodeSelector: 'Labels that the node must have.',
      serviceAccountName: 'The account the pod acts as; default if absent.',
      serviceAccount: 'The old name of serviceAccountName.',
      automountServiceAccountToken: 'Whether a token of the account is mounted.',
      nodeName: 'The node the pod runs on. Empty until one is found.',
      hostNetwork: 'Whether the pod uses the network of the node.',
      hostPID: 'Whether the pod sees the processes of the node.',
      hostIPC: 'Whether the pod shares the inter-process communication of the node.',
      shareProcessNamespace: 'Whether the containers see the processes of each other.',
      securityContext: 'Who the containers run as, and who owns their volumes.',
      imagePullSecrets: 'Secrets with the passwords of registries.',
      hostname: 'The host name inside the pod; the name of the pod if absent.',
      subdomain: 'The domain of the host name, below that of the namespace.',
      affinity: 'Which nodes and neighbours the pod likes.',
      schedulerName: 'Who looks for a node.',
      tolerations: 'Taints that do not keep the pod away from a node.',
      hostAliases: 'Further lines of the hosts file.',
      priorityClassName: 'The class that gives the priority.',
      priority: 'How important the pod is. The server sets it.',
      dnsConfig: 'How names are looked up, besides dnsPolicy.',
      readinessGates: 'Conditions that must hold before the pod counts as ready.',
      runtimeClassName: 'The way its containers are run.',
      enableServiceLinks: 'Whether services of the namespace become variables; true if absent.',
      preemptionPolicy: 'Whether the pod may push out others: PreemptLowerPriority or Never.',
      overhead: 'What running the pod costs besides its containers.',
      topologySpreadConstraints: 'How pods are spread over zones and nodes.',
      setHostnameAsFQDN: 'Whether the host name includes the domain.',
      os: 'The operating system of the containers.',
      hostUsers: 'Whether user ids inside are those of the node; true if absent.',
      schedulingGates: 'While there are any, no node is looked for.',
      resourceClaims: 'Claims to devices that containers use.',
      resources: 'What the pod as a whole asks for and may use.',
      hostnameOverride: 'The host name inside the pod, whatever the other fields say.',
      schedulingGroup: 'The group of pods that is placed together.',
      evictionResponders: 'Who takes care of moving the pod away.',
    },
  },
  object({
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
        maxSkew: required(int32),
        topologyKey: required(string),
        whenUnsatisfiable: required(string),
        labelSelector,
        minDomains: int32,
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
  }),
);
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
