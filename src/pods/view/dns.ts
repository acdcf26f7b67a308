/** How a pod looks up names: what its resolv.conf says, from its policy, the cluster's DNS and the machine's own file. Pure. */
import { describePod, podNamespace } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import type { DnsConfig } from '../../runtimes/runtime.ts';
import { ContainerConfigError } from './variables.ts';

export interface DnsSettings {
  /** Addresses of the cluster's DNS; empty where there is none. */
  readonly clusterDns: readonly string[];
  readonly clusterDomain: string;
  /** The text of the machine's resolv.conf; undefined: pods get none of it. */
  readonly resolvConf: string | undefined;
  readonly nodeIps: readonly string[];
  /** Whether a pod is told that it wants a DNS of the cluster and there is none. */
  readonly warnsWithoutCluster: boolean;
}

interface PodDns {
  readonly config: DnsConfig;
  readonly warnings: readonly DnsWarning[];
}

interface DnsWarning {
  readonly reason: 'MissingClusterDNS' | 'DNSConfigForming';
  readonly message: string;
  /** Set for what concerns the node too. */
  readonly ofNode?: string;
}

const none: DnsConfig = { servers: [], searches: [], options: [] };

/** Rejects nothing but a resolv.conf that cannot be read. */
export function podDns(pod: Pod, settings: DnsSettings): PodDns {
  const host = settings.resolvConf === undefined ? none : parseResolvConf(settings.resolvConf);
  const { config, warnings } = policyDns(pod, host, settings);
  return withinLimits(withPodConfig(config, pod), warnings);
}

function policyDns(pod: Pod, host: DnsConfig, settings: DnsSettings): PodDns {
  const { dnsPolicy = 'ClusterFirst', hostNetwork = false } = pod.spec;
  if (dnsPolicy === 'None') return { config: none, warnings: [] };
  const usesHost = dnsPolicy === 'Default' || (dnsPolicy === 'ClusterFirst' && hostNetwork);
  if (usesHost) return { config: hostDns(host, settings), warnings: [] };
  const { clusterDns, clusterDomain } = settings;
  if (clusterDns.length === 0) {
    const missing = `kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`;
    const message = `pod: ${goQuote(describePod(pod))}. ${missing}`;
    const warning = { reason: 'MissingClusterDNS', message, ofNode: missing } as const;
    return { config: hostDns(host, settings), warnings: settings.warnsWithoutCluster ? [warning] : [] };
  }
  const ofCluster =
    clusterDomain === '' ? [] : [`${podNamespace(pod)}.svc.${clusterDomain}`, `svc.${clusterDomain}`, clusterDomain];
  return {
    config: { servers: clusterDns, searches: [...new Set([...ofCluster, ...host.searches])], options: ['ndots:5'] },
    warnings: [],
  };
}

/** Without a file of the machine nothing is found but what a server on the machine itself knows. */
function hostDns(host: DnsConfig, { resolvConf, nodeIps }: DnsSettings): DnsConfig {
  if (resolvConf !== undefined) return host;
  const servers = nodeIps.map((ip) => (ip.includes(':') ? '::1' : '127.0.0.1'));
  return { ...host, servers: servers.length === 0 ? ['127.0.0.1'] : servers, searches: ['.'] };
}

function withPodConfig({ servers, searches, options }: DnsConfig, { spec }: Pod): DnsConfig {
  if (spec.dnsConfig === undefined) return { servers, searches, options };
  const own = spec.dnsConfig;
  const named = (own.options ?? []).map(({ name = '', value = '' }) => (value === '' ? name : `${name}:${value}`));
  return {
    servers: [...new Set([...servers, ...(own.nameservers ?? [])])],
    searches: [...new Set([...searches, ...(own.searches ?? [])])],
    options: lastOfEachName([...options, ...named]),
  };
}

function lastOfEachName(options: readonly string[]): readonly string[] {
  return [...new Map(options.map((option) => [option.split(':', 1)[0], option])).values()];
}

/** What the C library uses; it reads no more servers than three, and some versions of it end at a longer path. */
const serversMax = 3;
const searchesMax = 32;
const searchCharactersMax = 2048;
const searchPathCharactersMax = 253;

function withinLimits({ servers: given, searches: wanted, options }: DnsConfig, before: PodDns['warnings']): PodDns {
  const warnings = [...before];
  const servers = given.slice(0, serversMax);
  if (given.length > serversMax) {
    const message = `Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: ${servers.join(' ')}`;
    warnings.push({ reason: 'DNSConfigForming', message });
  }
  const searches = wanted.slice(0, searchesMax).filter((path) => path.length <= searchPathCharactersMax);
  while (searches.join(' ').length > searchCharactersMax) searches.pop();
  if (searches.length < wanted.length) {
    const message = `Search Line limits were exceeded, some search paths have been omitted, the applied search line is: ${searches.join(' ')}`;
    warnings.push({ reason: 'DNSConfigForming', message });
  }
  return { config: { servers, searches, options }, warnings };
}

/** What pods could not have all of, of the machine's file; undefined: there is no such thing. Throws for a file that cannot be read. */
export function resolvConfProblem(path: string, text: string, clusterDomain: string): string | undefined {
  const { searches } = parseResolvConf(text);
  const pathsMax = searchesMax - (clusterDomain === '' ? 0 : 3);
  if (searches.length > pathsMax)
    return `Resolv.conf file '${path}' contains search line consisting of more than ${pathsMax} domains!`;
  if (searches.some(({ length }) => length > searchPathCharactersMax))
    return `Resolv.conf file ${goQuote(path)} contains a search path which length is more than allowed ${searchPathCharactersMax} chars!`;
  if (searches.join(' ').length > searchCharactersMax)
    return `Resolv.conf file '${path}' contains search line which length is more than allowed ${searchCharactersMax} chars!`;
  return undefined;
}

export function parseResolvConf(text: string): DnsConfig {
  const servers: string[] = [];
  let searches: readonly string[] = [];
  let options: readonly string[] = [];
  for (const line of text.split('\n')) {
    const [keyword = '', ...values] = line.trim().split(/\s+/);
    if (keyword === 'nameserver') {
      const [server] = values;
      if (server === undefined) {
        throw new ContainerConfigError(
          'Encountered error while parsing resolv conf file. Error: nameserver list is empty',
        );
      }
      servers.push(server);
    }
    // The same domain with and without its dot at the end counts once.
    if (keyword === 'search') searches = values.filter((path) => path !== '.').map((path) => path.replace(/\.$/, ''));
    if (keyword === 'options') options = lastOfEachName([...options, ...values]);
  }
  return { servers, searches, options };
}
