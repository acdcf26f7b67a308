/** Rules for what a pod may read of itself: `fieldRef` and `resourceFieldRef`, in volumes and in variables. */
import { MountletError } from '../../base/errors.ts';
import { invalidField, invalidFields, requiredField, unsupportedText } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { checkedFieldLabel, splitSubscript } from '../field-path.ts';
import { qualifiedNameProblems } from '../values/names.ts';
import { readQuantity } from '../values/resource-list.ts';
import type { FieldPath } from '../objects/schema.ts';
import { quantityErrors } from './validate-numbers.ts';
import type { FieldReference, ResourceFieldReference } from '../objects/volume.ts';

export const volumeFields: readonly string[] = [
  'metadata.annotations',
  'metadata.labels',
  'metadata.name',
  'metadata.namespace',
  'metadata.uid',
];
export const environmentFields: readonly string[] = [
  'metadata.name',
  'metadata.namespace',
  'metadata.uid',
  'spec.nodeName',
  'spec.serviceAccountName',
  'status.hostIP',
  'status.hostIPs',
  'status.podIP',
  'status.podIPs',
];
const resources: readonly string[] = [
  'limits.cpu',
  'limits.ephemeral-storage',
  'limits.memory',
  'requests.cpu',
  'requests.ephemeral-storage',
  'requests.memory',
];

const cpuDivisors = ['1m', '1'];
const byteDivisors = ['1', '1k', '1M', '1G', '1T', '1P', '1E', '1Ki', '1Mi', '1Gi', '1Ti', '1Pi', '1Ei'];

export function fieldReferenceErrors(
  { apiVersion = '', fieldPath }: FieldReference,
  supported: readonly string[],
  path: FieldPath,
): FieldError[] {
  if (apiVersion === '') return [requiredField([...path, 'apiVersion'])];
  if (fieldPath === '') return [requiredField([...path, 'fieldPath'])];
  let label: string;
  try {
    label = checkedFieldLabel({ apiVersion, fieldPath });
  } catch (error) {
    if (!(error instanceof MountletError)) throw error;
    return [invalidField([...path, 'fieldPath'], fieldPath, `error converting fieldPath: ${error.message}`)];
  }
  const subscripted = splitSubscript(label);
  if (subscripted === undefined) {
    return supported.includes(label) ? [] : [unsupportedText([...path, 'fieldPath'], label, supported)];
  }
  const { path: map, subscript } = subscripted;
  const key = map === 'metadata.annotations' ? subscript.toLowerCase() : subscript;
  return invalidFields(path, key, qualifiedNameProblems(key));
}

/** A file must say whose resource it means; a variable means its own container's. */
export function resourceFieldReferenceErrors(
  reference: ResourceFieldReference,
  use: 'file' | 'variable',
  path: FieldPath,
): FieldError[] {
  const { containerName = '', resource } = reference;
  const errors: FieldError[] = [];
  if (use === 'file' && containerName === '') errors.push(requiredField([...path, 'containerName']));
  else if (resource === '') errors.push(requiredField([...path, 'resource']));
  else if (!resources.includes(resource) && !isHugePagesField(resource)) {
    errors.push(unsupportedText([...path, 'resource'], resource, resources));
  }
  return [...errors, ...divisorErrors(reference, [...path, 'divisor'])];
}

function divisorErrors({ resource, divisor }: ResourceFieldReference, path: FieldPath): FieldError[] {
  if (divisor === undefined) return [];
  const quantity = readQuantity(divisor);
  if (quantity === undefined) return quantityErrors(divisor, path);
  const [allowed, name] = divisorsFor(resource);
  if (name === undefined || quantity.isZero() || allowed.includes(String(quantity))) return [];
  const choices = allowed === cpuDivisors ? allowed.join(' and ') : allowed.join(', ');
  return [invalidField(path, resource, `only divisor's values ${choices} are supported with the ${name} resource`)];
}

function divisorsFor(resource: string): [readonly string[], string | undefined] {
  if (isHugePagesField(resource)) return [byteDivisors, 'hugepages'];
  switch (resource) {
    case 'limits.cpu':
    case 'requests.cpu':
      return [cpuDivisors, 'cpu'];
    case 'limits.memory':
    case 'requests.memory':
      return [byteDivisors, 'memory'];
    case 'limits.ephemeral-storage':
    case 'requests.ephemeral-storage':
      return [byteDivisors, 'local ephemeral storage'];
    default:
      return [[], undefined];
  }
}

function isHugePagesField(resource: string): boolean {
  return resource.startsWith('requests.hugepages-') || resource.startsWith('limits.hugepages-');
}
