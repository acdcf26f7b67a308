/**
 * Whether two values of a shape mean the same, as the API server compares objects before it says that something changed:
 * absent, empty text, an empty list and an empty map are one, and `1` cpu is `1000m`. Booleans and numbers are compared as
 * they are, for some of them mean something other when absent; and a key of a map is there or not, whatever its value: a label
 * without text is a label.
 */
import { readQuantity } from '../values/quantity.ts';
import { showPath } from './field-errors.ts';
import type { FieldPath, Shape } from './schema.ts';

export function means<T>(shape: Shape<T>, a: T | undefined, b: T | undefined): boolean {
  return same(shape, a, b);
}

function same(shape: Shape<unknown> | undefined, a: unknown, b: unknown): boolean {
  if (a === b) return true;
  const [noA, noB] = [isEmpty(a, shape), isEmpty(b, shape)];
  if (noA || noB) return noA && noB;
  if (shape?.type === 'quantity') return sameQuantity(a as string | number, b as string | number);
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => same(shape?.item, item, b[index]));
  }
  if (!isRecord(a) || !isRecord(b)) return false;
  return keysOf(a, b).every((key) => sameAt(shape, a, b, key));
}

function sameAt(shape: Shape<unknown> | undefined, a: Fields, b: Fields, key: string): boolean {
  const [left, right] = [valueAt(a, key), valueAt(b, key)];
  if (shape?.type === 'map' && (left === undefined) !== (right === undefined)) return false;
  return same(shapeAt(shape, key), left, right);
}

/** Without a shape no map is known as one, and one whose values are all empty counts as empty. */
export function isEmpty(value: unknown, shape?: Shape<unknown>): boolean {
  if (value === undefined || value === null || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  if (!isRecord(value)) return false;
  return Object.entries(value).every(([key, part]) => {
    return shape?.type === 'map' ? part === undefined : isEmpty(part, shapeAt(shape, key));
  });
}

type Fields = Readonly<Record<string, unknown>>;

export function isRecord(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function keysOf(a: object, b: object): readonly string[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])];
}

/** A key such as `toString` belongs to no object that a user wrote. */
export function valueAt(record: Fields, key: string): unknown {
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

// What changed between two objects, for the end of a message that refuses the change: one line for the old value and one for
// the new, for each field that differs. Never used on Secrets.

/** A message is read by people: who replaced a whole pod learns enough from the first fields. */
const changesMax = 20;

export function changeList<T>(shape: Shape<T>, old: T | undefined, changed: T | undefined): string {
  const lines = means(shape, old, changed) ? [] : [...changesBetween(shape, old, changed, [])];
  const shown = lines.slice(0, changesMax).flat();
  if (lines.length > changesMax) shown.push(`… and ${lines.length - changesMax} more changes`);
  return shown.join('\n');
}

/** Of two that differ. */
function* changesBetween(
  shape: Shape<unknown> | undefined,
  old: unknown,
  changed: unknown,
  path: FieldPath,
): Generator<readonly string[]> {
  if (isRecord(old) && isRecord(changed)) {
    for (const key of keysOf(old, changed)) {
      if (sameAt(shape, old, changed, key)) continue;
      yield* changesBetween(shapeAt(shape, key), valueAt(old, key), valueAt(changed, key), [...path, key]);
    }
    return;
  }
  if (Array.isArray(old) && Array.isArray(changed)) {
    const length = Math.max(old.length, changed.length);
    for (let index = 0; index < length; index += 1) {
      if (same(shape?.item, old[index], changed[index])) continue;
      yield* changesBetween(shape?.item, old[index], changed[index], [...path, index]);
    }
    return;
  }
  const name = showPath(path);
  yield [
    ...(old === undefined ? [] : [`- ${name}: ${JSON.stringify(old)}`]),
    ...(changed === undefined ? [] : [`+ ${name}: ${JSON.stringify(changed)}`]),
  ];
}

// A short name for some content: equal content has an equal hash.

/** FNV-1a of 128 bits: the same on every run and every machine, and no protection against a forger. */
const offset = 0x6c62272e07bb014262b821756295c58dn;
const prime = 0x0000000001000000000000000000013bn;

export function fnvHash(text: string): string {
  let hash = offset;
  for (const byte of Buffer.from(text)) hash = BigInt.asUintN(128, (hash ^ BigInt(byte)) * prime);
  return hash.toString(16).padStart(32, '0');
}

/** The same text for the same content, in whatever order its fields were written. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) => {
    if (!isRecord(part)) return part;
    return Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}
