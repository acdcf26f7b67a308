/** Rules for what containers and pods ask for and may use. */
import {
  type FieldError,
  duplicateField,
  forbiddenField,
  invalidField,
  invalidFields,
  notFoundField,
  placedAt,
  requiredField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import { resourceQuantityErrors } from '../../schema/number-validation.ts';
import { type FieldPath, keyPart } from '../../schema/schema.ts';
import { dnsLabelProblems, qualifiedNameProblems } from '../../values/names.ts';
import {
  type Quantity,
  type ResourceList,
  canBeOvercommitted,
  isExtendedResource,
  isHugePages,
  isNativeResource,
  isPodLevelResource,
  readQuantity,
} from '../../values/quantity.ts';
import { type ResourceRequirements, containersTogether } from './container.ts';
import type { PodSpec } from './pod-spec.ts';

const containerResources = new Set(['cpu', 'memory', 'ephemeral-storage']);
export const standardResources = new Set([
  ...containerResources,
  'requests.cpu',
  'requests.memory',
  'requests.ephemeral-storage',
  'limits.cpu',
  'limits.memory',
  'limits.ephemeral-storage',
  'pods',
  'resourcequotas',
  'services',
  'replicationcontrollers',
  'secrets',
  'configmaps',
  'persistentvolumeclaims',
  'storage',
  'requests.storage',
  'services.nodeports',
  'services.loadbalancers',
]);

type NameRule = (name: string, path: FieldPath) => FieldError[];

export function containerResourceErrors(
  resources: ResourceRequirements,
  claimNames: ReadonlySet<string>,
  path: FieldPath,
): FieldError[] {
  return requirementErrors(resources, containerResourceNameErrors, claimNames, path);
}

/** Resources of the pod as a whole: only those that containers can share. */
export function podResourceErrors(spec: PodSpec, claimNames: ReadonlySet<string>, path: FieldPath): FieldError[] {
  const { resources, os } = spec;
  if (resources === undefined) return [];
  if (os?.name === 'windows') return [forbiddenField(path, 'may not be set for a windows pod')];
  const detail = 'claims may not be set for Resources at pod-level';
  return [
    ...(resources.claims === undefined ? [] : [forbiddenField([...path, 'claims'], detail)]),
    ...requirementErrors(resources, podResourceNameErrors, claimNames, path),
    ...consistencyErrors(spec, resources, path),
  ];
}

function requirementErrors(
  { limits = {}, requests = {}, claims = [] }: ResourceRequirements,
  nameRule: NameRule,
  claimNames: ReadonlySet<string>,
  path: FieldPath,
): FieldError[] {
  const errors: FieldError[] = [];
  for (const [name, value] of Object.entries(limits)) {
    const here = [...path, 'limits', keyPart(name)];
    errors.push(...nameRule(name, here), ...resourceQuantityErrors(name, value, here));
    errors.push(...hugePageErrors(name, value, here));
  }
  for (const [name, value] of Object.entries(requests)) {
    const here = [...path, 'requests', keyPart(name)];
    errors.push(...nameRule(name, here), ...resourceQuantityErrors(name, value, here));
    errors.push(...placedAt(here, requestErrors(name, value, limits, path)), ...hugePageErrors(name, value, here));
  }
  const names = [...Object.keys(limits), ...Object.keys(requests)];
  if (names.some(isHugePages) && !names.includes('cpu') && !names.includes('memory')) {
    errors.push(forbiddenField(path, 'HugePages require cpu or memory'));
  }
  return [...errors, ...claimErrors(claims, claimNames, [...path, 'claims'])];
}

function requestErrors(name: string, value: string | number, limits: ResourceList, path: FieldPath): FieldError[] {
  if (!Object.hasOwn(limits, name)) {
    if (canBeOvercommitted(name)) return [];
    return [requiredField([...path, 'limits'], 'Limit must be set for non overcommitable resources')];
  }
  const request = readQuantity(value);
  const limit = readQuantity(limits[name]);
  if (request === undefined || limit === undefined) return [];
  const order = request.compare(limit);
  const refuse = (relation: string): FieldError[] => [
    invalidField([...path, 'requests'], String(request), `must be ${relation} ${name} limit of ${String(limit)}`),
  ];
  if (order !== 0 && !canBeOvercommitted(name)) return refuse('equal to');
  return order > 0 ? refuse('less than or equal to') : [];
}

function hugePageErrors(name: string, value: string | number, path: FieldPath): FieldError[] {
  const quantity = readQuantity(value);
  if (!isHugePages(name) || quantity === undefined) return [];
  const page = readQuantity(name.slice('hugepages-'.length));
  if (page !== undefined && isWholePages(quantity, page)) return [];
  const detail = `${String(quantity)} is not positive integer multiple of ${name}`;
  return [invalidField(path, String(quantity), detail)];
}

function isWholePages(quantity: Quantity, page: Quantity): boolean {
  return page.sign() > 0 && page.milliValue() % 1000n === 0n && quantity.value() % page.value() === 0n;
}

export function resourceNameErrors(name: string, path: FieldPath): FieldError[] {
  const errors = invalidFields(path, name, qualifiedNameProblems(name));
  if (errors.length > 0 || name.includes('/')) return errors;
  const isKnown = standardResources.has(name) || isHugePages(name) || name.startsWith('requests.hugepages-');
  return isKnown ? [] : [invalidField(path, name, 'must be a standard resource type or fully qualified')];
}

export function containerResourceNameErrors(name: string, path: FieldPath): FieldError[] {
  const errors = resourceNameErrors(name, path);
  if (!name.includes('/')) {
    if (containerResources.has(name) || isHugePages(name)) return errors;
    return [...errors, invalidField(path, name, 'must be a standard resource for containers')];
  }
  if (isNativeResource(name) || isExtendedResource(name)) return errors;
  return [...errors, invalidField(path, name, "doesn't follow extended resource name standard")];
}

function podResourceNameErrors(name: string, path: FieldPath): FieldError[] {
  const errors = resourceNameErrors(name, path);
  if (errors.length > 0 || isPodLevelResource(name)) return errors;
  return [unsupportedField(path, name, ['cpu', 'hugepages-', 'memory'])];
}

function claimErrors(
  claims: NonNullable<ResourceRequirements['claims']>,
  claimNames: ReadonlySet<string>,
  path: FieldPath,
): FieldError[] {
  const errors: FieldError[] = [];
  const seen = new Set<string>();
  const inPart = new Set<string>();
  for (const [index, { name, request = '' }] of claims.entries()) {
    const here = [...path, index];
    if (name === '') {
      errors.push(requiredField(here));
      continue;
    }
    const key = request === '' ? name : `${name}/${request}`;
    if (seen.has(name)) errors.push(duplicateField(here, name));
    else {
      if (request !== '') errors.push(...invalidFields([...here, 'request'], request, dnsLabelProblems(request)));
      const overlaps = request === '' && inPart.has(name);
      if (seen.has(key) || overlaps) errors.push(duplicateField(here, key));
      seen.add(key);
      if (request !== '') inPart.add(name);
    }
    if (!claimNames.has(name)) {
      const known = claimNames.size === 0 ? ' which is empty' : `: ${[...claimNames].toSorted().join(', ')}`;
      errors.push(notFoundField(here, name, `must be one of the names in pod.spec.resourceClaims${known}`));
    }
  }
  return errors;
}

/** What the containers ask for together must fit into the pod, and each container's limit into the pod's. */
function consistencyErrors(spec: PodSpec, resources: ResourceRequirements, path: FieldPath): FieldError[] {
  const { limits = {}, requests = {} } = resources;
  const errors: FieldError[] = [];
  const compare = (kind: 'limits' | 'requests', pod: ResourceList, containers: ReadonlyMap<string, Quantity>): void => {
    for (const [name, together] of containers) {
      const own = Object.hasOwn(pod, name) ? readQuantity(pod[name]) : undefined;
      if (own === undefined || together.compare(own) <= 0) continue;
      const detail = `must be greater than or equal to aggregate container ${kind} of ${String(together)}`;
      errors.push(invalidField([...path, kind, keyPart(name)], String(own), detail));
    }
  };
  const together = (kind: 'limits' | 'requests'): ReadonlyMap<string, Quantity> =>
    containersTogether(spec.containers, spec.initContainers ?? [], (container) => container.resources?.[kind]);
  compare('requests', requests, together('requests'));
  compare('limits', limits, new Map([...together('limits')].filter(([name]) => isHugePages(name))));
  for (const [index, container] of spec.containers.entries()) {
    for (const [name, value] of Object.entries(container.resources?.limits ?? {})) {
      const limit = readQuantity(value);
      const own = Object.hasOwn(limits, name) ? readQuantity(limits[name]) : undefined;
      if (limit === undefined || own === undefined || limit.compare(own) <= 0) continue;
      // The API server builds this path from the wrong end.
      const printed = [...path, 'containers', index, keyPart(name), 'limits'];
      const at = [...path.slice(0, -1), 'containers', index, 'resources', 'limits', keyPart(name)];
      const detail = `must be less than or equal to pod limits of ${String(own)}`;
      errors.push(...placedAt(at, [invalidField(printed, String(limit), detail)]));
    }
  }
  return errors;
}
