/** Which addresses and ports lead to which pods, from what the API says of Services. Pure. */
import type { Service } from '../kube/kinds/service.ts';
import { nodePorts } from '../kube/values/service-range.ts';
import type { ServiceForward } from '../runtimes/runtime.ts';
import { type Endpoint, type ServiceDirectory, clusterAddress, keyOf } from './service-directory.ts';

type Port = NonNullable<Service['spec']['ports']>[number];

/** Of all Services together: every change sends the packet filter all of them, which takes it three seconds then. */
const forwardsMax = 5_000;

export function serviceForwards(directory: ServiceDirectory): readonly ServiceForward[] {
  const forwards: ServiceForward[] = [];
  const taken = new Set<string>();
  const take = (what: string): boolean => !taken.has(what) && taken.add(what).size > 0;
  for (const service of directory.services) {
    const address = clusterAddress(service);
    if (address === undefined) continue;
    const endpoints = directory.endpoints(service);
    for (const port of service.spec.ports ?? []) {
      const protocol = port.protocol ?? 'TCP';
      if (forwards.length === forwardsMax) return forwards;
      if ((protocol !== 'TCP' && protocol !== 'UDP') || !isPort(port.port)) continue;
      if (!take(`${address} ${protocol} ${port.port}`)) continue;
      const nodePort = nodePortOf(service, port);
      forwards.push({
        key: `${keyOf(service)} ${protocol} ${port.port}`,
        protocol,
        address,
        port: port.port,
        nodePort: take(`${protocol} ${nodePort}`) ? nodePort : 0,
        targets: targetsOf(endpoints, port.name ?? '', protocol),
        isSticky: service.spec.sessionAffinity === 'ClientIP',
      });
    }
  }
  return forwards;
}

/** Whatever an object says, no other port of the machine becomes a Service's. */
function nodePortOf({ spec: { type } }: Service, { nodePort = 0 }: Port): number {
  const isPublished = type === 'NodePort' || type === 'LoadBalancer';
  return isPublished && isPort(nodePort) && nodePort >= nodePorts.first && nodePort <= nodePorts.last ? nodePort : 0;
}

/** Those that are ready; where none is, those that are about to go and still work. */
function targetsOf(endpoints: readonly Endpoint[], name: string, protocol: string): ServiceForward['targets'] {
  const offering = endpoints.flatMap((endpoint) => {
    const own = endpoint.ports.find((port) => port.name === name && port.protocol === protocol);
    return own === undefined || !isPort(own.port) ? [] : [{ ...endpoint, port: own.port }];
  });
  const ready = offering.filter(({ isReady }) => isReady);
  const chosen = ready.length > 0 ? ready : offering.filter(({ isLeaving }) => isLeaving);
  const unique = new Map(chosen.map(({ address, port }) => [`${address}:${port}`, { address, port }]));
  return [...unique].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, target]) => target);
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port > 0 && port <= 65_535;
}
