/** A JSON value as Go prints it with `%v`, because the API server's messages about patches carry values in this form. */
import { compareByteOrder } from '../../kube/values/byte-order.ts';
import { isList, isObject } from './json-value.ts';
import type { Json } from './json-value.ts';

export function goValue(value: Json | undefined): string {
  if (value === undefined || value === null) return '<nil>';
  if (isList(value)) return `[${value.map(goValue).join(' ')}]`;
  if (isObject(value)) {
    const fields = Object.keys(value).sort(compareByteOrder);
    return `map[${fields.map((key) => `${key}:${goValue(value[key])}`).join(' ')}]`;
  }
  return String(value);
}

/** The name Go's JSON decoder has for the kind of a value: `cannot unmarshal object into …`. */
export function goKind(value: Json | undefined): string {
  if (isList(value)) return 'array';
  if (isObject(value)) return 'object';
  if (typeof value === 'boolean') return 'bool';
  return value === null || value === undefined ? 'null' : typeof value;
}
