/**
 * The room that a pod takes on a node: what it requests, and the ports of the node that it listens on. The scheduler and the node
 * count with the same figures. Pure.
 */
import { type Container, containersTogether } from '../kinds/pod/container.ts';
import type { Pod } from '../kinds/pod/pod.ts';
import {
  type Quantity,
  type ResourceList,
  isExtendedResource,
  isHugePages,
  isPodLevelResource,
  readQuantity,
} from '../values/quantity.ts';

/** In thousandths of a cpu, bytes, pods, devices. */
export type Amounts = ReadonlyMap<string, bigint>;

export type HostPort = NonNullable<Container['ports']>[number];

/** In the order in which shortages are reported. */
export function podRequests({ spec }: Pod): Amounts {
  const together = containersTogether(
    spec.containers,
    spec.initContainers ?? [],
    ({ resources }) => resources?.requests,
  );
  const requests = new Map([...together].map(([name, quantity]) => [name, amountOf(name, quantity)]));
  for (const [name, amount] of amounts(spec.resources?.requests))
    if (isPodLevelResource(name)) requests.set(name, amount);
  for (const [name, amount] of amounts(spec.overhead)) requests.set(name, (requests.get(name) ?? 0n) + amount);
  const common = ['cpu', 'memory', 'ephemeral-storage'].map((name) => [name, requests.get(name) ?? 0n] as const);
  const counted = [...requests].filter(([name]) => isHugePages(name) || isExtendedResource(name));
  return new Map([['pods', 1n], ...common, ...counted]);
}

export function amounts(list: ResourceList = {}): readonly (readonly [string, bigint])[] {
  return Object.entries(list).flatMap(([name, value]) => {
    const quantity = readQuantity(value);
    return quantity === undefined ? [] : [[name, amountOf(name, quantity)] as const];
  });
}

function amountOf(name: string, quantity: Quantity): bigint {
  return name === 'cpu' ? quantity.milliValue() : quantity.value();
}

/** Of containers that run as long as the pod does. Defaults made every port of a pod with the host's network a host port. */
export function hostPorts({ spec }: Pod): readonly HostPort[] {
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  return [...sidecars, ...spec.containers].flatMap(({ ports = [] }) =>
    ports.filter(({ hostPort = 0 }) => hostPort > 0),
  );
}

export function collide(a: HostPort, b: HostPort): boolean {
  const isEverywhere = [a, b].some(({ hostIP = '' }) => hostIP === '' || hostIP === '0.0.0.0');
  const isSame = a.hostPort === b.hostPort && (a.protocol ?? 'TCP') === (b.protocol ?? 'TCP');
  return isSame && (isEverywhere || a.hostIP === b.hostIP);
}
