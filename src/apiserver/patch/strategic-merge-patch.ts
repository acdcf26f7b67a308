/**
 * Strategic merge patch: a merge patch that knows the object's shape, so that lists with an identity merge item by item. Fields
 * whose names begin with `$` are directives to the merge and never end up in the result. Lists are in `strategic-lists.ts`.
 *
 *   $patch: replace | delete | merge         of a map: take the patch alone, empty it, merge (the default)
 *   $retainKeys: [a, b]                      of a map: drop all fields but these
 *   $setElementOrder/ports: [...]            order of the merged list; the patch's own items must come in the same order
 *   $deleteFromPrimitiveList/finalizers: []  take these values out of a list of primitives
 */
import type { Shape } from '../../kube/objects/schema.ts';
import { goKind, goValue } from './go-value.ts';
import { checkDepth, copyFields, fieldOf, isList, isObject, setField } from './json-value.ts';
import type { Json, JsonFields, JsonObject } from './json-value.ts';
import { PatchError } from './patch-error.ts';
import {
  isDirective,
  listToOrder,
  listToShorten,
  markerOf,
  newValue,
  retainKeys,
  withoutDirectives,
} from './strategic-directives.ts';
import { checkOrder, listRule, mergeLists, removeValues, setOrder } from './strategic-lists.ts';

export function applyStrategicMergePatch(document: JsonObject, patch: Json, shape: Shape<unknown>): JsonObject {
  if (!isObject(patch)) {
    throw new PatchError(
      'malformed',
      `json: cannot unmarshal ${goKind(patch)} into Go value of type map[string]interface {}`,
    );
  }
  checkDepth(patch);
  return mergeObjects(document, patch, shape);
}

function mergeObjects(original: JsonObject, patch: JsonObject, shape: Shape<unknown> | undefined): JsonObject {
  const marker = markerOf(patch);
  if (marker === 'delete') return {};
  if (marker === 'replace') return withoutDirectives(patch);
  if (marker !== undefined && marker !== 'merge') {
    throw new PatchError('invalid', `unknown patch type: ${goValue(marker)} in map: ${goValue(patch)}`);
  }
  const result = retained(original, patch);
  const ordered = mergeOrderedLists(result, patch, shape);
  for (const [key, value] of Object.entries(patch)) {
    if (isDirective(key) || ordered.has(key)) continue;
    if (value === null) delete result[key];
    else setOrDrop(result, key, mergeValues(fieldOf(result, key), value, fieldShape(shape, key)));
  }
  for (const [key, values] of Object.entries(patch)) {
    const list = listToShorten(key);
    if (list !== undefined) deleteValues(result, list, values);
  }
  return result;
}

function mergeValues(original: Json | undefined, patch: Json, shape: Shape<unknown> | undefined): Json | undefined {
  if (isObject(original) && isObject(patch) && !shape?.isReplaced) return mergeObjects(original, patch, shape);
  if (!isList(original) || !isList(patch)) return newValue(patch);
  const rule = listRule(shape);
  if (rule.kind === 'replace') return newValue(patch);
  return mergeLists(original, patch, rule, (item, change) => mergeObjects(item, change, shape?.item));
}

/** Carries out each `$setElementOrder`; returns the names of the lists that are done. */
function mergeOrderedLists(
  result: JsonFields,
  patch: JsonObject,
  shape: Shape<unknown> | undefined,
): ReadonlySet<string> {
  const done = new Set<string>();
  for (const [key, order] of Object.entries(patch)) {
    const name = listToOrder(key);
    if (name === undefined) continue;
    const original = fieldOf(result, name);
    const items = fieldOf(patch, name);
    if (items === null) continue; // deleted, in whatever order
    if (!isList(order) || (original !== undefined && !isList(original)) || (items !== undefined && !isList(items))) {
      throw new PatchError('malformed', 'invalid patch format of setElementOrder list');
    }
    const rule = listRule(fieldShape(shape, name));
    if (items !== undefined) checkOrder(items, order, rule);
    const merged = items === undefined ? original : mergeValues(original, items, fieldShape(shape, name));
    if (isList(merged)) setField(result, name, setOrder(merged, order, original ?? [], rule));
    done.add(name);
  }
  return done;
}

function retained(original: JsonObject, patch: JsonObject): JsonFields {
  const result = copyFields(original);
  const kept = fieldOf(patch, retainKeys);
  if (kept === undefined) return result;
  const isWanted = (key: string): boolean => isList(kept) && kept.includes(key);
  const stray = Object.entries(patch).some(([key, value]) => !isDirective(key) && value !== null && !isWanted(key));
  if (!isList(kept) || stray) throw new PatchError('malformed', 'invalid patch format of retainKeys');
  for (const key of Object.keys(result)) if (!isWanted(key)) delete result[key];
  return result;
}

function deleteValues(result: JsonFields, key: string, values: Json): void {
  if (!isList(values)) throw new PatchError('malformed', 'invalid patch format of primitive list');
  const list = fieldOf(result, key);
  if (isList(list)) setField(result, key, removeValues(list, values));
}

function fieldShape(shape: Shape<unknown> | undefined, key: string): Shape<unknown> | undefined {
  if (shape?.type === 'map') return shape.item;
  return shape?.fields !== undefined && Object.hasOwn(shape.fields, key) ? shape.fields[key] : undefined;
}

function setOrDrop(result: JsonFields, key: string, value: Json | undefined): void {
  if (value === undefined) delete result[key];
  else setField(result, key, value);
}
