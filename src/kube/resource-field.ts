/**
 * Values of `resourceFieldRef`: a container's limits and requests as whole numbers of a divisor, for downward API files and
 * environment variables. A limit that is not set is taken from the pod or the node, by different rules for the two.
 */
import { MountletError } from '../base/errors.ts';
import { Quantity } from './values/quantity.ts';

export type ResourceList = Readonly<Record<string, string | number>>;

export interface Resources {
  readonly limits?: ResourceList;
  readonly requests?: ResourceList;
}

interface ResourceContainer {
  readonly name: string;
  readonly resources?: Resources;
}

export interface ResourcePod {
  readonly containers: readonly ResourceContainer[];
  readonly initContainers?: readonly ResourceContainer[];
  readonly resources?: Resources;
}

interface ResourceReference {
  readonly containerName?: string;
  readonly resource: string;
  readonly divisor?: string | number;
}

/** The kubelet's text is the message, because it ends up in Events and container statuses. */
export class ResourceFieldError extends MountletError {
  readonly reason = 'InvalidResourceField';
}

/** The content of a downward API file. Limits of the pod as a whole do not count here. */
export function volumeResourceValue(pod: ResourcePod, reference: ResourceReference, allocatable: ResourceList): string {
  const container = containerOf(pod, reference.containerName ?? '');
  return resourceFieldValue(withDefaultLimits(container.resources, allocatable), reference);
}

/** The value of an environment variable of `container`, which need not be the container that the reference names. */
export function environmentResourceValue(
  pod: ResourcePod,
  container: ResourceContainer,
  reference: ResourceReference,
  allocatable: ResourceList,
): string {
  const ceiling = withPodLimits(allocatable, pod.resources?.limits ?? {});
  if (reference.containerName === undefined || reference.containerName === '') {
    return resourceFieldValue(withDefaultLimits(container.resources, ceiling), reference);
  }
  const named = containerOf(pod, reference.containerName);
  // Only regular containers get defaults when they are looked up by name.
  const resources = pod.containers.includes(named) ? withDefaultLimits(named.resources, ceiling) : named.resources;
  return resourceFieldValue(resources ?? {}, reference);
}

/** `limits.memory` in units of the divisor, rounded up. A divisor that is absent or zero is one. */
export function resourceFieldValue(resources: Resources, { resource, divisor = 0 }: ResourceReference): string {
  const [, list, name = ''] = /^(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.*)$/s.exec(resource) ?? [];
  if (list !== 'limits' && list !== 'requests') {
    throw new ResourceFieldError(`unsupported container resource : ${resource}`);
  }
  const amount = quantityOf(resources[list], name) ?? Quantity.zero();
  const given = Quantity.parse(divisor);
  const unit = given.isZero() ? Quantity.parse(1) : given;
  return name === 'cpu' ? ratio(amount.milliValue(), unit.milliValue()) : ratio(amount.value(), unit.value());
}

/** Containers come before init containers of the same name; ephemeral containers have no resources. */
function containerOf(pod: ResourcePod, name: string): ResourceContainer {
  const container = [...pod.containers, ...(pod.initContainers ?? [])].find((one) => one.name === name);
  if (container === undefined) throw new ResourceFieldError(`container ${name} not found`);
  return container;
}

/** Limits that are absent or zero become what the node has. Requests and huge pages are never made up. */
function withDefaultLimits(resources: Resources = {}, allocatable: ResourceList): Resources {
  const limits: Record<string, string | number> = { ...resources.limits };
  for (const name of ['cpu', 'memory', 'ephemeral-storage']) {
    const limit = quantityOf(limits, name);
    const available = allocatable[name];
    if ((limit === undefined || limit.isZero()) && available !== undefined) limits[name] = available;
  }
  return { ...resources, limits };
}

function withPodLimits(allocatable: ResourceList, podLimits: ResourceList): ResourceList {
  const ceiling: Record<string, string | number> = { ...allocatable };
  for (const name of ['cpu', 'memory']) {
    const limit = podLimits[name];
    if (limit !== undefined && ceiling[name] !== undefined && !Quantity.parse(limit).isZero()) ceiling[name] = limit;
  }
  return ceiling;
}

function quantityOf(list: ResourceList | undefined, name: string): Quantity | undefined {
  const value = list !== undefined && Object.hasOwn(list, name) ? list[name] : undefined;
  return value === undefined ? undefined : Quantity.parse(value);
}

/** In double precision, as the kubelet divides: beyond 2^53 both are off by the same amount. */
function ratio(amount: bigint, unit: bigint): string {
  const rounded = BigInt(Math.ceil(Number(amount) / Number(unit)));
  return String(rounded > int64Max ? int64Max : rounded);
}

const int64Max = 2n ** 63n - 1n;
