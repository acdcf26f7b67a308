/** Rules for numbers that many fields share: modes, ids, quantities. */
import { rangeProblems } from '../values/network-names.ts';
import { Quantity, isExtendedResource } from '../values/quantity.ts';
import { percentProblems } from '../values/names.ts';
import { type FieldError, invalidField, invalidFields } from './field-errors.ts';
import type { FieldPath } from './schema.ts';

/** The kernel's ids are unsigned, but container runtimes have always stopped here. */
const idMax = 2 ** 31 - 1;

const countedResources = new Set([
  'pods',
  'resourcequotas',
  'services',
  'replicationcontrollers',
  'secrets',
  'configmaps',
  'persistentvolumeclaims',
  'services.nodeports',
  'services.loadbalancers',
]);

/** User and group ids. */
export function idErrors(id: number | undefined, path: FieldPath): FieldError[] {
  return id === undefined ? [] : invalidFields(path, id, rangeProblems(id, 0, idMax));
}

export function fileModeErrors(mode: number | undefined, path: FieldPath): FieldError[] {
  return modeErrors(mode, 0o777, path);
}

/** The directory of an emptyDir may also be sticky, as /tmp is. */
export function directoryModeErrors(mode: number | undefined, path: FieldPath): FieldError[] {
  return modeErrors(mode, 0o1777, path);
}

function modeErrors(mode: number | undefined, max: number, path: FieldPath): FieldError[] {
  if (mode === undefined || (mode >= 0 && mode <= max)) return [];
  return [invalidField(path, mode, `must be a number between 0 and 0${max.toString(8)} (octal), both inclusive`)];
}

export function positiveErrors(value: number, path: FieldPath): FieldError[] {
  return value > 0 ? [] : [invalidField(path, value, 'must be greater than zero')];
}

/** An amount of a resource: not negative, and whole where the resource comes in pieces. */
export function resourceQuantityErrors(name: string, value: string | number, path: FieldPath): FieldError[] {
  const quantity = Quantity.parse(value);
  const errors: FieldError[] = [];
  if (quantity.sign() < 0) errors.push(invalidField(path, String(quantity), 'must be greater than or equal to 0'));
  const isCounted = countedResources.has(name) || isExtendedResource(name);
  if (isCounted && quantity.milliValue() % 1000n !== 0n) {
    errors.push(invalidField(path, String(quantity), 'must be an integer'));
  }
  return errors;
}

export function positiveQuantityErrors(value: string | number, path: FieldPath): FieldError[] {
  const quantity = Quantity.parse(value);
  return quantity.sign() > 0 ? [] : [invalidField(path, String(quantity), 'must be greater than zero')];
}

/** A count of pods, or a part of them up to all: `2`, `25%`. */
export function countOrPercentErrors(value: number | string | undefined, path: FieldPath): FieldError[] {
  if (value === undefined) return [];
  if (typeof value === 'number') {
    return value < 0 ? [invalidField(path, value, 'must be greater than or equal to 0')] : [];
  }
  const problems = percentProblems(value);
  if (problems.length > 0) return invalidFields(path, value, problems);
  return Number.parseInt(value, 10) > 100 ? [invalidField(path, value, 'must not be greater than 100%')] : [];
}
