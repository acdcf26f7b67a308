/**
 * The directives of a strategic merge patch: fields whose names begin with `$` and that tell the merge what to do. They never end
 * up in an object, also where there is nothing to merge with and the patch's value is taken as it is.
 */
import { fieldOf, isList, isObject, setField } from './json-value.ts';
import type { Json, JsonFields, JsonObject } from './json-value.ts';
import { PatchError } from './patch-error.ts';

export const retainKeys = '$retainKeys';
const marker = '$patch';
const deletePrefix = '$deleteFromPrimitiveList';
const orderPrefix = '$setElementOrder';

export function isDirective(key: string): boolean {
  return key === marker || key === retainKeys || key.startsWith(orderPrefix) || key.startsWith(deletePrefix);
}

/** What `$patch` says, of a map or of an item of a list. */
export function markerOf(value: Json): Json | undefined {
  return isObject(value) ? fieldOf(value, marker) : undefined;
}

/** `ports` of `$setElementOrder/ports`; undefined for any other field. */
export function listToOrder(key: string): string | undefined {
  return target(key, orderPrefix, 'invalid patch format of setElementOrder list');
}

/** `finalizers` of `$deleteFromPrimitiveList/finalizers`; undefined for any other field. */
export function listToShorten(key: string): string | undefined {
  return target(key, deletePrefix, 'invalid patch format of primitive list');
}

function target(key: string, prefix: string, problem: string): string | undefined {
  if (!key.startsWith(prefix)) return undefined;
  if (!key.startsWith(`${prefix}/`)) throw new PatchError('malformed', problem);
  return key.slice(prefix.length + 1);
}

/** A value the object does not have yet, as it goes into the object; undefined where it only says what to delete. */
export function newValue(value: Json): Json | undefined {
  // The items with a `$patch` speak about the list; what stands beside them is the list.
  if (isList(value)) return value.filter((item) => markerOf(item) === undefined).map((item) => newValue(item) ?? null);
  if (!isObject(value)) return value;
  return markerOf(value) === 'delete' ? undefined : withoutDirectives(value);
}

export function withoutDirectives(patch: JsonObject): JsonObject {
  const result: JsonFields = {};
  for (const [key, value] of Object.entries(patch)) {
    const taken = isDirective(key) || value === null ? undefined : newValue(value);
    if (taken !== undefined) setField(result, key, taken);
  }
  return result;
}
