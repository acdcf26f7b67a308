/**
 * Lists of resources by name (`limits`, `requests`, `capacity`): what is known of the names, and sums over a pod. Which
 * names a field takes is said by the validation files.
 */
import { qualifiedNameProblems } from './names.ts';
import { Quantity, quantityProblem } from './quantity.ts';

export type ResourceList = Readonly<Record<string, string | number>>;

const hugePagesPrefix = 'hugepages-';

const quotaPrefix = 'requests.';

export function isHugePages(name: string): boolean {
  return name.startsWith(hugePagesPrefix);
}

/** Names without a domain belong to Kubernetes, and so do those of its domain. */
export function isNativeResource(name: string): boolean {
  return !name.includes('/') || name.includes('kubernetes.io/');
}

/** Resources of devices and the like, which others than Kubernetes count: `example.com/gpu`. */
export function isExtendedResource(name: string): boolean {
  if (isNativeResource(name) || name.startsWith(quotaPrefix)) return false;
  return qualifiedNameProblems(`${quotaPrefix}${name}`).length === 0;
}

/** More of it may be promised than there is: of cpu and memory, not of whole pages or devices. */
export function canBeOvercommitted(name: string): boolean {
  return isNativeResource(name) && !isHugePages(name);
}

export function isPodLevelResource(name: string): boolean {
  return name === 'cpu' || name === 'memory' || isHugePages(name);
}

/** Undefined for a quantity that cannot be read: its own error says so, and comparing it says nothing more. */
export function readQuantity(value: string | number | undefined): Quantity | undefined {
  return value === undefined || quantityProblem(value) !== undefined ? undefined : Quantity.parse(value);
}

/** The API server keeps no resource finer than a thousandth. What it would not change keeps the user's own text. */
export function roundUpResources(list: ResourceList): ResourceList {
  return Object.fromEntries(
    Object.entries(list).map(([name, value]) => {
      const quantity = readQuantity(value);
      const rounded = quantity?.roundUpToMilli();
      return [name, rounded === quantity ? value : String(rounded)];
    }),
  );
}
