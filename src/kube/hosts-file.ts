/** The content of the `/etc/hosts` that the kubelet manages for a pod's containers. Writing it is somebody else's work. */
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
