/** What a name means in the cluster: of a Service, of one port of it, of one pod behind it, or of an address. Pure. */
import type { Service } from '../kube/kinds/service.ts';
import { type DnsRecord, type Labels, addressRecord, isName, nameBytes, serviceRecord, types } from './dns-message.ts';
import { type Endpoint, type ServiceDirectory, clusterAddress, nameOfService } from './service-directory.ts';

type Meaning =
  /** Without records: the name is there, but nothing of this type. */
  | { readonly kind: 'records'; readonly records: readonly DnsRecord[] }
  | { readonly kind: 'noName' }
  /** It stands for another name. */
  | { readonly kind: 'alias'; readonly target: Labels }
  /** The cluster does not say. */
  | { readonly kind: 'elsewhere' };

const [nothing, noName, elsewhere] = [
  { kind: 'records', records: [] },
  { kind: 'noName' },
  { kind: 'elsewhere' },
] as const satisfies readonly Meaning[];

export function meaningOf(name: Labels, type: number, directory: ServiceDirectory, domain: Labels): Meaning {
  if (endsWith(name, ['in-addr', 'arpa'])) return reverse(name, type, directory, domain);
  if (domain.length === 0 || !endsWith(name, domain)) return elsewhere;
  const [kind, namespace, service, ...more] = name.slice(0, name.length - domain.length).toReversed();
  if (kind === undefined) return nothing;
  if (kind !== 'svc') return noName;
  if (namespace === undefined) return nothing;
  if (service === undefined) return directory.hasNamespace(namespace) ? nothing : noName;
  const known = directory.service(namespace, service);
  if (known === undefined) return noName;
  return ofService(known, more.toReversed(), type, directory, domain);
}

function ofService(
  service: Service,
  below: Labels,
  type: number,
  directory: ServiceDirectory,
  domain: Labels,
): Meaning {
  const { type: kind, externalName = '' } = service.spec;
  if (kind === 'ExternalName') {
    const target = externalName
      .toLowerCase()
      .split('.')
      .filter((label) => label !== '');
    return below.length === 0 && target.length > 0 && isName(target) ? { kind: 'alias', target } : noName;
  }
  const address = clusterAddress(service);
  // Only those without an address of their own show what is behind them.
  const ready = address === undefined ? directory.endpoints(service).filter(({ isReady }) => isReady) : [];
  const addressed = (addresses: readonly string[]): Meaning =>
    type === types.a ? records([...new Set(addresses)].map(addressRecord)) : nothing;
  const [first = '', second] = below;
  if (below.length === 0) return addressed(address === undefined ? ready.map((one) => one.address) : [address]);
  if (first.startsWith('_') && second?.startsWith('_') === true && below.length === 2) {
    const own = portRecords(service, ready, [first.slice(1), second.slice(1)], [...nameOfService(service), ...domain]);
    if (own.length === 0) return noName;
    return type === types.srv ? records(own) : nothing;
  }
  if (below.length > 1) return noName;
  const named = ready.filter((endpoint) => labelOf(endpoint) === first);
  if (named.length > 0) return addressed(named.map((one) => one.address));
  return first === '_tcp' || first === '_udp' ? nothing : noName;
}

function portRecords(
  service: Service,
  ready: readonly Endpoint[],
  [name, protocol]: readonly [string, string],
  own: Labels,
): DnsRecord[] {
  const isAsked = (port: { readonly name?: string; readonly protocol?: string }): boolean =>
    port.name === name && (port.protocol ?? 'TCP').toLowerCase() === protocol;
  const found =
    clusterAddress(service) === undefined
      ? ready.flatMap((one) => one.ports.filter(isAsked).map(({ port }) => ({ port, target: [labelOf(one), ...own] })))
      : (service.spec.ports ?? []).filter(isAsked).map(({ port }) => ({ port, target: own }));
  const weight = Math.max(1, Math.floor(100 / Math.max(1, found.length)));
  return found.filter(({ target }) => isName(target)).map(({ port, target }) => serviceRecord(port, weight, target));
}

/** The name of one endpoint below that of its Service. */
function labelOf({ hostname, address }: Endpoint): string {
  return hostname === '' ? address.replaceAll('.', '-') : hostname;
}

function reverse(name: Labels, type: number, directory: ServiceDirectory, domain: Labels): Meaning {
  const own = directory.nameOf(name.slice(0, -2).toReversed().join('.'));
  if (own === undefined || !isName([...own, ...domain])) return elsewhere;
  return type === types.ptr ? records([{ type: types.ptr, data: nameBytes([...own, ...domain]) }]) : nothing;
}

function records(list: readonly DnsRecord[]): Meaning {
  return { kind: 'records', records: list };
}

function endsWith(name: Labels, end: Labels): boolean {
  return name.length >= end.length && end.every((label, index) => name[name.length - end.length + index] === label);
}
