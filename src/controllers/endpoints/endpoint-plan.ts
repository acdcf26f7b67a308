/** The addresses behind a Service, as its pods are: for EndpointSlices and for Endpoints. Pure. */
import type { Endpoint, EndpointPort } from '../../kube/kinds/endpoint-slice.ts';
import { type Endpoints, reachErrors } from '../../kube/kinds/endpoints.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Service, ServicePort } from '../../kube/kinds/service.ts';
import { isOver } from '../../kube/references/claims.ts';
import { canonicalJson } from '../../kube/schema/equality.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { type IpFamily, parseIpAddress } from '../../kube/values/network-names.ts';
import { isReady } from '../workloads/pod-state.ts';
import type { SliceGroup } from './slice-plan.ts';

/** Pods that a Service without one gets from elsewhere; a name for something outside has none. */
export function selects({ spec }: Service): boolean {
  return spec.type !== 'ExternalName' && Object.keys(spec.selector ?? {}).length > 0;
}

export function isSelected({ metadata, spec }: Service, pod: Pod): boolean {
  const { labels = {} } = pod.metadata;
  if (pod.metadata.namespace !== metadata.namespace) return false;
  return Object.entries(spec.selector ?? {}).every(([key, value]) => labels[key] === value);
}

export function hasClusterAddress({ spec: { clusterIP = '' } }: Service): boolean {
  return clusterIP !== '' && clusterIP !== 'None';
}

/** Of a pod what counts here: a change of anything else needs no look. */
export function endpointFacts({ metadata, spec, status }: Pod): string {
  const { labels, deletionTimestamp } = metadata;
  const isEnding = deletionTimestamp !== undefined;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')?.status;
  const where = [spec.nodeName, spec.hostname, spec.subdomain, status?.podIPs, status?.podIP];
  return canonicalJson([labels, isEnding, ready, status?.phase, ...where]);
}

/** Groups by what the addresses have in common: a pod that names a port otherwise, or not at all, is in one of its own. */
export function sliceGroups(
  service: Service,
  pods: readonly Pod[],
  nodes: (name: string) => Node | undefined,
): readonly SliceGroup[] {
  const groups = new Map<string, SliceGroup & { readonly endpoints: Endpoint[] }>();
  for (const family of familiesOf(service)) {
    for (const pod of pods.filter((one) => takesPart(one) && isSelected(service, one))) {
      const node = nodes(pod.spec.nodeName ?? '');
      // A pod of a node that is gone is about to go too, and nobody answers there.
      if (node === undefined && service.spec.publishNotReadyAddresses !== true) continue;
      const addresses = addressesOf(pod, family);
      if (addresses.length === 0) continue;
      const ports = portsFor(service, pod);
      const key = canonicalJson([family, ports]);
      const group = groups.get(key) ?? { addressType: family, ports, endpoints: [] };
      groups.set(key, group);
      group.endpoints.push(endpointOf(service, pod, node, addresses));
    }
  }
  return [...groups.values()];
}

export function familiesOf({ spec }: Service): readonly IpFamily[] {
  const named = (spec.ipFamilies ?? []).filter((family) => family === 'IPv4' || family === 'IPv6');
  if (named.length > 0) return named;
  const family = parseIpAddress(spec.clusterIP ?? '')?.family;
  return family === undefined ? ['IPv4', 'IPv6'] : [family];
}

function takesPart(pod: Pod): boolean {
  return !isOver(pod);
}

/** Pods with the network of a node that has only a loopback address are left out: an object that names one of them is refused as a whole. */
function addressesOf({ status }: Pod, family: IpFamily): string[] {
  const all = status?.podIPs ?? (status?.podIP === undefined ? [] : [{ ip: status.podIP }]);
  return all.flatMap(({ ip }) => {
    const address = parseIpAddress(ip);
    return address?.family === family && reachErrors(ip, []).length === 0 ? [address.text] : [];
  });
}

function endpointOf(service: Service, pod: Pod, node: Node | undefined, addresses: string[]): Endpoint {
  const { name, namespace, uid, deletionTimestamp } = pod.metadata;
  const serving = isReady(pod);
  const terminating = deletionTimestamp !== undefined;
  const ready = service.spec.publishNotReadyAddresses === true || (serving && !terminating);
  const hostname = hostnameIn(service, pod);
  const zone = node?.metadata.labels?.['topology.kubernetes.io/zone'] ?? '';
  return {
    addresses,
    conditions: { ready, serving, terminating },
    ...(hostname !== undefined && { hostname }),
    ...((pod.spec.nodeName ?? '') !== '' && { nodeName: pod.spec.nodeName ?? '' }),
    targetRef: { kind: 'Pod', name, ...(namespace && { namespace }), ...(uid && { uid }) },
    ...(zone !== '' && { zone }),
  };
}

/** A pod has a name of its own below that of the Service only if it says so. */
function hostnameIn({ metadata }: Service, { spec }: Pod): string | undefined {
  const { hostname = '', subdomain = '' } = spec;
  return hostname !== '' && subdomain === metadata.name ? hostname : undefined;
}

function portsFor({ spec }: Service, pod: Pod): EndpointPort[] {
  return (spec.ports ?? []).flatMap((one) => {
    const port = targetPort(one, pod);
    if (port === undefined) return [];
    const { name = '', protocol = 'TCP', appProtocol } = one;
    return { name, port, protocol, ...(appProtocol !== undefined && { appProtocol }) };
  });
}

/** A name is looked up in the containers of the pod, and in those init containers that go on running. */
function targetPort({ port, targetPort: target = port, protocol = 'TCP' }: ServicePort, pod: Pod): number | undefined {
  if (typeof target === 'number') return target;
  const lasting = (pod.spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  const ports = [...pod.spec.containers, ...lasting].flatMap((container) => container.ports ?? []);
  return ports.find((one) => one.name === target && (one.protocol ?? 'TCP') === protocol)?.containerPort;
}

type Subset = NonNullable<Endpoints['subsets']>[number];
type Address = NonNullable<Subset['addresses']>[number];

/** As many addresses as an Endpoints object holds. */
const addressesMax = 1_000;

/** What an Endpoints object says: of each port of the Service once, with the addresses that have it. Pods that end are gone. */
export function endpointSubsets(
  service: Service,
  pods: readonly Pod[],
): { readonly subsets: readonly Subset[]; readonly isTruncated: boolean } {
  const [family = 'IPv4'] = familiesOf(service);
  const publishesAll = service.spec.publishNotReadyAddresses === true;
  const groups = new Map<string, { ports: EndpointPort[]; ready: Address[]; others: Address[] }>();
  for (const pod of pods) {
    if (!takesPart(pod) || !isSelected(service, pod)) continue;
    if (pod.metadata.deletionTimestamp !== undefined && !publishesAll) continue;
    const [ip] = addressesOf(pod, family);
    const ports = portsFor(service, pod);
    if (ip === undefined || (ports.length === 0 && (service.spec.ports ?? []).length > 0)) continue;
    const key = canonicalJson(ports);
    const group = groups.get(key) ?? { ports, ready: [], others: [] };
    groups.set(key, group);
    (publishesAll || isReady(pod) ? group.ready : group.others).push(addressOf(service, pod, ip));
  }
  return truncated([...groups.entries()].sort(([a], [b]) => compareByteOrder(a, b)).map(([, group]) => group));
}

function addressOf(service: Service, pod: Pod, ip: string): Address {
  const { name, namespace, uid } = pod.metadata;
  const hostname = hostnameIn(service, pod);
  return {
    ip,
    ...(hostname !== undefined && { hostname }),
    ...((pod.spec.nodeName ?? '') !== '' && { nodeName: pod.spec.nodeName ?? '' }),
    targetRef: { kind: 'Pod', name, ...(namespace && { namespace }), ...(uid && { uid }) },
  };
}

/** Ready ones first: where there are too many, those are left out that take no part. */
function truncated(groups: readonly { ports: EndpointPort[]; ready: Address[]; others: Address[] }[]): {
  readonly subsets: readonly Subset[];
  readonly isTruncated: boolean;
} {
  const count = groups.reduce((sum, { ready, others }) => sum + ready.length + others.length, 0);
  let room = addressesMax;
  const take = (addresses: Address[]): Address[] => {
    const taken = addresses.sort((a, b) => compareByteOrder(a.ip, b.ip)).slice(0, room);
    room -= taken.length;
    return taken;
  };
  const ready = groups.map((group) => take(group.ready));
  const others = groups.map((group) => take(group.others));
  const subsets = groups.flatMap(({ ports }, index): Subset[] => {
    const addresses = ready[index] ?? [];
    const notReadyAddresses = others[index] ?? [];
    if (addresses.length + notReadyAddresses.length === 0) return [];
    const named = ports.map(({ name = '', port = 0, ...rest }) => ({ ...(name !== '' && { name }), port, ...rest }));
    return [
      {
        ...(addresses.length > 0 && { addresses }),
        ...(notReadyAddresses.length > 0 && { notReadyAddresses }),
        ...(named.length > 0 && { ports: named }),
      },
    ];
  });
  return { subsets, isTruncated: count > addressesMax };
}
