/**
 * A pod's quality of service class and its limits as a whole: what its containers may use together at any time. The memory
 * limit decides how large a tmpfs of the pod may grow.
 */
import { Quantity } from './values/quantity.ts';
import type { ResourceList, Resources } from './resource-field.ts';

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
