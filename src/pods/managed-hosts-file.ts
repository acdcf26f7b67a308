/** The hosts file that the node keeps for a pod and every container of it finds at /etc/hosts. */
import { MountletError } from '../base/errors.ts';
import { hostNetworkHostsFile, podHostsFile, wantsHostsFile } from '../kube/hosts-file.ts';
import type { Container, EphemeralContainer } from '../kube/kinds/pod/container.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { ContainerConfigError } from './container-config-error.ts';
import type { ContainerMount } from './container-mount.ts';
import type { PodHostname } from './pod-hostname.ts';

/** The file effects that hosts files need. */
export interface HostsFiles {
  /** The node's own /etc/hosts. */
  readNode(signal: AbortSignal): Promise<string>;
  /**
   * Writes the pod's file, with mode 0644, and answers where it is. In place, because containers that run already look
   * at the same file.
   */
  write(pod: Pod, content: string, signal: AbortSignal): Promise<string>;
}

export interface HostsFileRequest {
  readonly pod: Pod;
  readonly container: Container | EphemeralContainer;
  readonly podIPs: readonly string[];
  readonly hostname: PodHostname;
}

const hostsPath = '/etc/hosts';

export function wantsManagedHostsFile({ pod, container, podIPs }: HostsFileRequest): boolean {
  return wantsHostsFile({
    hostNetwork: pod.spec.hostNetwork ?? false,
    podIps: podIPs,
    mountPaths: (container.volumeMounts ?? []).map(({ mountPath }) => mountPath),
  });
}

/** Writes the file anew at every start of a container: the addresses may have changed. */
export async function buildHostsMount(
  request: HostsFileRequest,
  files: HostsFiles,
  signal: AbortSignal,
): Promise<ContainerMount> {
  return {
    name: 'k8s-managed-etc-hosts',
    mountPath: hostsPath,
    hostPath: await writeHostsFile(request, files, signal),
    subPath: undefined,
    secretSubPath: false,
    readOnly: false,
    recursiveReadOnly: false,
    propagation: 'None',
    bindMountOptions: [],
  };
}

async function writeHostsFile(
  { pod, podIPs, hostname }: HostsFileRequest,
  files: HostsFiles,
  signal: AbortSignal,
): Promise<string> {
  const { hostNetwork = false, hostAliases = [] } = pod.spec;
  try {
    const content = hostNetwork
      ? hostNetworkHostsFile(await files.readNode(signal), hostAliases)
      : podHostsFile({ podIps: podIPs, hostName: hostname.name, domain: hostname.domain, hostAliases });
    return await files.write(pod, content, signal);
  } catch (thrown) {
    if (!(thrown instanceof MountletError)) throw thrown;
    throw new ContainerConfigError(thrown.message, { cause: thrown });
  }
}
