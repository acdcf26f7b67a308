/**
 * Whether two values of a shape mean the same, as the API server compares objects before it says that something changed:
 * absent, empty text, an empty list and an empty map are one, and `1` cpu is `1000m`. Booleans and numbers are compared as
 * they are, for some of them mean something other when absent.
 */
import { readQuantity } from './resource-list.ts';
import type { Shape } from '../objects/schema.ts';

export function means<T>(shape: Shape<T>, a: T | undefined, b: T | undefined): boolean {
  return same(shape, a, b);
}

function same(shape: Shape<unknown> | undefined, a: unknown, b: unknown): boolean {
  if (a === b || (isEmpty(a) && isEmpty(b))) return true;
  if (isEmpty(a) || isEmpty(b)) return false;
  if (shape?.type === 'quantity') return sameQuantity(a as string | number, b as string | number);
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => same(shape?.item, item, b[index]));
  }
  if (!isRecord(a) || !isRecord(b)) return false;
  return keysOf(a, b).every((key) => same(shapeAt(shape, key), valueAt(a, key), valueAt(b, key)));
}

export function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  return isRecord(value) && Object.values(value).every(isEmpty);
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function keysOf(a: object, b: object): readonly string[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])];
}

/** A key such as `toString` belongs to no object that a user wrote. */
export function valueAt(record: Readonly<Record<string, unknown>>, key: string): unknown {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}

export function shapeAt(shape: Shape<unknown> | undefined, key: string): Shape<unknown> | undefined {
  if (shape?.type === 'map') return shape.item;
  return shape?.fields && Object.hasOwn(shape.fields, key) ? shape.fields[key] : undefined;
}

function sameQuantity(a: string | number, b: string | number): boolean {
  const [left, right] = [readQuantity(a), readQuantity(b)];
  return left === undefined || right === undefined ? String(a) === String(b) : left.compare(right) === 0;
}
