/**
 * What changed between two objects, for the end of a message that refuses the change: one line for the old value and one for
 * the new, for each field that differs. Never used on Secrets.
 */
import { showPath } from './field-errors.ts';
import type { FieldPath, Shape } from '../objects/schema.ts';
import { isRecord, keysOf, means, shapeAt, valueAt } from '../values/semantic-equality.ts';

/** A message is read by people: who replaced a whole pod learns enough from the first fields. */
const changesMax = 20;

export function changeList<T>(shape: Shape<T>, old: T | undefined, changed: T | undefined): string {
  const lines = [...changesBetween(shape, old, changed, [])];
  const shown = lines.slice(0, changesMax).flat();
  if (lines.length > changesMax) shown.push(`… and ${lines.length - changesMax} more changes`);
  return shown.join('\n');
}

function* changesBetween(
  shape: Shape<unknown> | undefined,
  old: unknown,
  changed: unknown,
  path: FieldPath,
): Generator<readonly string[]> {
  if (means(shape ?? anything, old, changed)) return;
  if (isRecord(old) && isRecord(changed)) {
    for (const key of keysOf(old, changed)) {
      yield* changesBetween(shapeAt(shape, key), valueAt(old, key), valueAt(changed, key), [...path, key]);
    }
    return;
  }
  if (Array.isArray(old) && Array.isArray(changed)) {
    const length = Math.max(old.length, changed.length);
    for (let index = 0; index < length; index += 1) {
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

const anything: Shape<unknown> = { type: 'any', zero: () => undefined };
