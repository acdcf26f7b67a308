/** The name of a pod on its own network, and the hosts file that all its containers find at /etc/hosts. */
import { MountletError } from '../../base/errors.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { type Problems, dnsLabelProblems, dnsSubdomainProblems } from '../../kube/values/names.ts';
import type { ContainerMount } from './mounts.ts';
import { ContainerConfigError } from './variables.ts';

/** The file effects that hosts files need. */
export interface HostsFiles {
  /** The node's own /etc/hosts. */
  readNode(signal: AbortSignal): Promise<string>;
  /**
   * Writes the pod's file, with mode 0644, and returns its path. In place, because containers that run already have the same
   * file.
   */
  write(pod: Pod, content: string, signal: AbortSignal): Promise<string>;
}

export interface HostsFileRequest {
  readonly pod: Pod;
  readonly container: AnyContainer;
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

/** Writes the file at every start of a container: the addresses may have changed. */
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

/** What `hostname` prints in the pod, and its line in the hosts file. */
interface PodHostname {
  readonly name: string;
  /** Empty for a pod without a subdomain. */
  readonly domain: string;
}

/** The kernel keeps 64 bytes, and the last one ends the name. */
const hostnameBytesMax = 63;

export function podHostname({ metadata, spec }: Pod, clusterDomain: string): PodHostname {
  const { hostnameOverride, hostname = '', subdomain = '' } = spec;
  if (hostnameOverride !== undefined) {
    check('HostnameOverride', hostnameOverride, 'DNS subdomain', dnsSubdomainProblems);
    return { name: shorten(metadata.name, hostnameOverride), domain: '' };
  }
  if (hostname !== '') check('Hostname', hostname, 'DNS label', dnsLabelProblems);
  const name = shorten(metadata.name, hostname === '' ? metadata.name : hostname);
  if (subdomain === '') return { name, domain: '' };
  check('Subdomain', subdomain, 'DNS label', dnsLabelProblems);
  return { name, domain: `${subdomain}.${metadata.namespace ?? 'default'}.svc.${clusterDomain}` };
}

function check(field: string, value: string, what: string, problemsOf: (value: string) => Problems): void {
  const problems = problemsOf(value);
  if (problems.length === 0) return;
  throw new ContainerConfigError(`pod ${field} ${goQuote(value)} is not a valid ${what}: ${problems.join(';')}`);
}

/** The name of a pod may be longer than that of a host, which may not end in `-` or `.`. */
function shorten(podName: string, hostname: string): string {
  if (hostname.length <= hostnameBytesMax) return hostname;
  const shortened = hostname.slice(0, hostnameBytesMax).replace(/[-.]+$/, '');
  if (shortened === '') {
    throw new ContainerConfigError(`hostname for pod ${goQuote(podName)} was invalid: ${goQuote(hostname)}`);
  }
  return shortened;
}

/** The content of the `/etc/hosts` that the kubelet manages for a pod's containers. It is written elsewhere. */
export interface HostAlias {
  readonly ip: string;
  readonly hostnames?: readonly string[];
}

interface PodHosts {
  readonly podIps: readonly string[];
  readonly hostName: string;
  /** Empty for a pod without a subdomain. */
  readonly domain: string;
  readonly hostAliases: readonly HostAlias[];
}

/** For a pod with a network of its own. */
export function podHostsFile({ podIps, hostName, domain, hostAliases }: PodHosts): string {
  const names = domain === '' ? hostName : `${hostName}.${domain}\t${hostName}`;
  return [
    '# Kubernetes-managed hosts file.\n',
    '127.0.0.1\tlocalhost\n',
    '::1\tlocalhost ip6-localhost ip6-loopback\n',
    'fe00::0\tip6-localnet\n',
    'fe00::0\tip6-mcastprefix\n',
    'fe00::1\tip6-allnodes\n',
    'fe00::2\tip6-allrouters\n',
    ...podIps.map((ip) => `${ip}\t${names}\n`),
    aliasLines(hostAliases),
  ].join('');
}

/** For a pod on the host's network: the node's own file, as it is, with the pod's aliases behind it. */
export function hostNetworkHostsFile(nodeHostsFile: string, hostAliases: readonly HostAlias[]): string {
  return `# Kubernetes-managed hosts file (host network).\n${nodeHostsFile}${aliasLines(hostAliases)}`;
}

/** A pod that mounts something at `/etc/hosts`, or has no address yet, gets no managed file. */
export function wantsHostsFile(pod: {
  readonly hostNetwork: boolean;
  readonly podIps: readonly string[];
  readonly mountPaths: readonly string[];
}): boolean {
  return (pod.hostNetwork || pod.podIps.length > 0) && !pod.mountPaths.includes('/etc/hosts');
}

function aliasLines(aliases: readonly HostAlias[]): string {
  if (aliases.length === 0) return '';
  const lines = aliases.map(({ ip, hostnames = [] }) => `${ip}\t${hostnames.join('\t')}\n`);
  return `\n# Entries added by HostAliases.\n${lines.join('')}`;
}
