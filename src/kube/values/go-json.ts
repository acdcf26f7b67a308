/**
 * JSON as Go's encoder writes it, because the API server's messages carry values in this form. Not for storing objects:
 * there any JSON will do.
 */
import { compareByteOrder } from './byte-order.ts';

/** Go escapes the characters that could end a script element in a page. */
export function goJson(value: unknown): string {
  const json = JSON.stringify(value) ?? 'null';
  return json.replace(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** A map as Go prints it, whose keys have no order of their own. */
export function inKeyOrder<T>(map: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.entries(map).toSorted(([a], [b]) => compareByteOrder(a, b)));
}
