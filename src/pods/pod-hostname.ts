/** The name a pod goes by on its own network: what `hostname` prints inside, and its line in the hosts file. */
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { type Problems, dnsLabelProblems, dnsSubdomainProblems } from '../kube/values/names.ts';
import { ContainerConfigError } from './container-config-error.ts';

export interface PodHostname {
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

/** A name of a pod may be longer than a host's, and a host's may not end in `-` or `.`. */
function shorten(podName: string, hostname: string): string {
  if (hostname.length <= hostnameBytesMax) return hostname;
  const shortened = hostname.slice(0, hostnameBytesMax).replace(/[-.]+$/, '');
  if (shortened === '') {
    throw new ContainerConfigError(`hostname for pod ${goQuote(podName)} was invalid: ${goQuote(hostname)}`);
  }
  return shortened;
}
