/** Everything a runtime needs to make what the containers of a pod share, decided: names, addresses of DNS, ports, limits. */
import { podNamespace, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { Container } from '../../kube/kinds/pod/container.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { qualityOfService } from '../../kube/references/pod-resources.ts';
import {
  type DnsConfig,
  type PodRequest,
  type PortMapping,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
} from '../../runtimes/runtime.ts';
import { podHostname } from '../view/hosts-file.ts';
import { ContainerConfigError } from '../view/variables.ts';
import type { ContainerFiles } from './container-request.ts';
import { podResources } from './container-resources.ts';
import { podSecurity } from './container-security.ts';

interface PodSurroundings {
  readonly files: Pick<ContainerFiles, 'podDirectory' | 'logDirectory'>;
  readonly clusterDomain: string;
  readonly dns: DnsConfig;
  /** Of its RuntimeClass; empty without one. */
  readonly runtimeHandler: string;
  /** Groups that own volumes of the pod. */
  readonly volumeGroups: readonly number[];
}

/** Throws a ContainerConfigError. */
export function podRequest(
  pod: Pod,
  { files, clusterDomain, dns, runtimeHandler, volumeGroups }: PodSurroundings,
): PodRequest {
  const { metadata, spec } = pod;
  return {
    uid: podUid(pod),
    namespace: podNamespace(pod),
    name: metadata.name,
    hostname: kernelHostname(pod, clusterDomain),
    hostNetwork: spec.hostNetwork ?? false,
    hostPid: spec.hostPID ?? false,
    hostIpc: spec.hostIPC ?? false,
    shareProcessNamespace: spec.shareProcessNamespace ?? false,
    hostUsers: spec.hostUsers ?? true,
    sysctls: Object.fromEntries((spec.securityContext?.sysctls ?? []).map(({ name: key, value }) => [key, value])),
    directory: files.podDirectory(podUid(pod)),
    logDirectory: files.logDirectory(pod),
    labels: {
      ...metadata.labels,
      [podNameLabel]: metadata.name,
      [podNamespaceLabel]: podNamespace(pod),
      [podUidLabel]: podUid(pod),
    },
    annotations: metadata.annotations ?? {},
    ...podResources(pod),
    qosClass: qualityOfService(spec),
    dns,
    ports: spec.containers.flatMap(portMappings),
    runtimeHandler,
    security: podSecurity(pod, volumeGroups),
  };
}

/** What the kernel keeps. */
const hostnameCharactersMax = 64;

function kernelHostname(pod: Pod, clusterDomain: string): string {
  const { name, domain } = podHostname(pod, clusterDomain);
  const { setHostnameAsFQDN: isFull = false, hostNetwork = false } = pod.spec;
  // A pod with the host's network has the host's name.
  if (!isFull || hostNetwork || domain === '') return name;
  const full = `${name}.${domain}`;
  if (full.length <= hostnameCharactersMax) return full;
  throw new ContainerConfigError(
    `failed to construct FQDN from pod hostname and cluster domain, FQDN ${full} is too long (${hostnameCharactersMax} characters is the max, ${full.length} characters requested)`,
  );
}

/** A port whose name an earlier one of the container has is left out; ports without a name are compared by what they say. */
function portMappings({ ports = [] }: Container): readonly PortMapping[] {
  const byName = new Map<string, PortMapping>();
  for (const { name = '', protocol: given = 'TCP', containerPort, hostPort = 0, hostIP: hostIp = '' } of ports) {
    const protocol = given === 'UDP' || given === 'SCTP' ? given : 'TCP';
    const key = name === '' ? JSON.stringify([given, hostIp, containerPort, hostPort]) : name;
    if (!byName.has(key)) byName.set(key, { protocol, containerPort, hostPort, hostIp });
  }
  return [...byName.values()];
}
