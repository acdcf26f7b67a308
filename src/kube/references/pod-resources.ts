/**
 * A pod's quality of service class and its limits as a whole: what its containers may use together at any time. The memory
 * limit decides how large a tmpfs of the pod may grow.
 */
import { OperatingError } from '../../base/errors.ts';
import { Quantity } from '../values/quantity.ts';

type QualityOfService = 'Guaranteed' | 'Burstable' | 'BestEffort';

export interface ContainerResources {
  readonly resources?: Resources;
  /** `Always` makes an init container a sidecar: it keeps running, so its share is added to the rest. */
  readonly restartPolicy?: string;
}

export interface PodResources {
  readonly containers: readonly ContainerResources[];
  readonly initContainers?: readonly ContainerResources[];
  readonly resources?: Resources;
  readonly overhead?: ResourceList;
}

type Quantities = Map<string, Quantity>;

export function qualityOfService(pod: PodResources): QualityOfService {
  if (hasPodLevelResources(pod)) return classOf(pod.resources);
  const classes = allContainers(pod).map(({ resources }) => classOf(resources));
  return agreedClass(classes);
}

/** Limits of the pod: those it sets itself, else what its containers add up to, with its overhead. */
export function podLimits(pod: PodResources): ReadonlyMap<string, Quantity> {
  const limits = containerLimits(pod);
  for (const [name, limit] of quantitiesOf(pod.resources?.limits)) {
    if (isPodLevelResource(name)) limits.set(name, limit);
  }
  for (const [name, overhead] of quantitiesOf(pod.overhead)) {
    const limit = limits.get(name);
    if (limit !== undefined && !limit.isZero()) limits.set(name, limit.plus(overhead));
  }
  return limits;
}

/** Undefined where the pod's memory has no bound: one container without a limit is enough for that. */
export function podMemoryLimitBytes(pod: PodResources): bigint | undefined {
  const quality = qualityOfService(pod);
  const everyContainer = allContainers(pod).every(({ resources }) => !memoryLimit(resources).isZero());
  const bounded = everyContainer || !memoryLimit(pod.resources).isZero();
  if (quality === 'BestEffort' || (quality === 'Burstable' && !bounded)) return undefined;
  return podLimits(pod).get('memory')?.value() ?? 0n;
}

/** The `size` of a tmpfs, 0 for no size: the node's memory, or less where the pod or the volume sets a limit. */
export function tmpfsSizeBytes(
  nodeMemory: Quantity,
  pod: PodResources,
  sizeLimit: string | number | undefined,
): bigint {
  let size = nodeMemory;
  const limits = [
    new Quantity(podMemoryLimitBytes(pod) ?? 0n, 0, 'BinarySI'),
    sizeLimit === undefined ? Quantity.zero() : Quantity.parse(sizeLimit),
  ];
  for (const limit of limits) {
    if (limit.sign() > 0 && limit.compare(size) <= 0) size = limit;
  }
  return size.value();
}

/**
 * Init containers run one after another, so the largest of them counts, together with the sidecars started before it.
 * Containers and sidecars run together, so they are added up.
 */
function containerLimits({ containers, initContainers = [] }: PodResources): Quantities {
  const together: Quantities = new Map();
  for (const { resources } of containers) addAll(together, quantitiesOf(resources?.limits));
  const sidecars: Quantities = new Map();
  const starting: Quantities = new Map();
  for (const { resources, restartPolicy } of initContainers) {
    const limits = quantitiesOf(resources?.limits);
    if (restartPolicy === 'Always') {
      addAll(together, limits);
      addAll(sidecars, limits);
      raiseAll(starting, sidecars);
    } else {
      addAll(limits, sidecars);
      raiseAll(starting, limits);
    }
  }
  raiseAll(together, starting);
  return together;
}

function addAll(sums: Quantities, more: Quantities): void {
  for (const [name, quantity] of more) sums.set(name, sums.get(name)?.plus(quantity) ?? quantity);
}

function raiseAll(highest: Quantities, candidates: Quantities): void {
  for (const [name, quantity] of candidates) {
    const present = highest.get(name);
    if (present === undefined || quantity.compare(present) > 0) highest.set(name, quantity);
  }
}

/** Only cpu and memory make a class; a request must equal its limit for the best one. */
function classOf(resources: Resources = {}): QualityOfService {
  const [requests, limits] = [quantitiesOf(resources.requests), quantitiesOf(resources.limits)];
  const classes = ['cpu', 'memory'].map((name): QualityOfService => {
    const request = requests.get(name) ?? Quantity.zero();
    if (!request.equals(limits.get(name) ?? Quantity.zero())) return 'Burstable';
    return request.isZero() ? 'BestEffort' : 'Guaranteed';
  });
  return agreedClass(classes);
}

function agreedClass(classes: readonly QualityOfService[]): QualityOfService {
  const [first = 'BestEffort', ...others] = classes;
  return others.every((other) => other === first) ? first : 'Burstable';
}

function hasPodLevelResources({ resources }: PodResources): boolean {
  return Object.keys({ ...resources?.requests, ...resources?.limits }).some(isPodLevelResource);
}

function isPodLevelResource(name: string): boolean {
  return name === 'cpu' || name === 'memory' || name.startsWith('hugepages-');
}

function allContainers({ containers, initContainers = [] }: PodResources): readonly ContainerResources[] {
  return [...initContainers, ...containers];
}

function memoryLimit(resources: Resources | undefined): Quantity {
  return quantitiesOf(resources?.limits).get('memory') ?? Quantity.zero();
}

function quantitiesOf(list: ResourceList | undefined): Quantities {
  return new Map(Object.entries(list ?? {}).map(([name, value]) => [name, Quantity.parse(value)]));
}

/**
 * Values of `resourceFieldRef`: a container's limits and requests as whole numbers of a divisor, for downward API files and
 * environment variables. A limit that is not set is taken from the pod or the node, by different rules for the two.
 */
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
    throw new OperatingError('InvalidResourceField', `unsupported container resource : ${resource}`);
  }
  const amount = quantityOf(resources[list], name) ?? Quantity.zero();
  const given = Quantity.parse(divisor);
  const unit = given.isZero() ? Quantity.parse(1) : given;
  return name === 'cpu' ? ratio(amount.milliValue(), unit.milliValue()) : ratio(amount.value(), unit.value());
}

/** Containers come before init containers of the same name; ephemeral containers have no resources. */
function containerOf(pod: ResourcePod, name: string): ResourceContainer {
  const container = [...pod.containers, ...(pod.initContainers ?? [])].find((one) => one.name === name);
  if (container === undefined) throw new OperatingError('InvalidResourceField', `container ${name} not found`);
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

function withPodLimits(allocatable: ResourceList, limits: ResourceList): ResourceList {
  const ceiling: Record<string, string | number> = { ...allocatable };
  for (const name of ['cpu', 'memory']) {
    const limit = limits[name];
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
